"""Says why an environment was chosen, and what was left out: a newer release, the usual engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from envbuilder.environment import Catalog, Environment, Filters
from envbuilder.language import tr
from envbuilder.machine.fit import runs_with

if TYPE_CHECKING:
    from envbuilder.machine.choice import Choice
    from envbuilder.machine.machine import Machine


def reasons(catalog: Catalog, choice: Choice, engine: str | None, machine: Machine | None) -> Iterator[str]:
    """Yield a line on the choice, and one on the usual engine if the user did not ask for another one."""
    chosen = choice.environment
    driver = machine.driver_version if machine and choice.fit else None

    def runs(other: Environment) -> bool:
        return driver is None or runs_with(other, driver)

    if (newer := choice.with_newer_driver) and (least := newer.least_driver):
        fields = {"environment": chosen.id, "driver": driver, "newer": newer.branch.title, "least": least.version}
        yield tr("chose {environment}: {newer} needs driver {least} or later, and this machine has {driver}", **fields)
    else:
        newest = catalog.newer(chosen, engine)
        yield _why(chosen, newest if newest and runs(newest) else None)
    usual = catalog.default_engine
    if engine is None and chosen.coordinates.engine != usual:
        of = chosen.coordinates
        alike = Filters(of.framework, None, usual, of.hardware, of.arch)
        other = catalog.pick(None, alike) if catalog.has(alike) else None
        if other and runs(other):
            fields = {"engine": usual, "environment": other.id, "state": _state(other)}
            yield tr("the usual engine is {engine}: --engine {engine} chooses {environment}, {state}", **fields)


def _why(chosen: Environment, newer: Environment | None) -> str:
    """Return why an environment is the default, and what is known of the newest release if that is another one."""
    reason = _proof(chosen) or tr("none was proven yet")
    if newer is None:
        return tr("chose {environment}: {reason}", environment=chosen.id, reason=reason)
    fields = {"newer": newer.branch.title, "state": _state(newer), "branch": newer.coordinates.branch}
    return tr(
        "chose {environment}: {reason}; {newer} is newer, {state}; --branch {branch} chooses it",
        environment=chosen.id,
        reason=reason,
        **fields,
    )


def _state(environment: Environment) -> str:
    return (_proof(environment) or tr("not proven")) if environment.rank.is_locked else tr("without a lock")


def _proof(environment: Environment) -> str | None:
    if (proof := environment.trained) is None:
        return None
    level, depth = proof.evidence.level, proof.evidence.depth
    how = tr("{level} at depth {depth}", level=level, depth=depth) if depth else level
    if proof.arch == environment.coordinates.arch:
        return how
    return tr("{proof} on {arch}", proof=how, arch=proof.arch)
