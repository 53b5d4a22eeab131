"""Chooses an environment for a user who does not name one in full: the best for a machine, or the default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from envbuilder import platforms
from envbuilder.environment import Catalog, Environment, Filters
from envbuilder.errors import HostError
from envbuilder.language import tr
from envbuilder.machine.fit import Fit, best_first, judge

if TYPE_CHECKING:
    from envbuilder.machine.machine import Machine


class Choice(NamedTuple):
    environment: Environment
    # how it fits the machine; None if it is for another one
    fit: Fit | None = None
    # what would be chosen if the machine had a newer driver
    with_newer_driver: Environment | None = None


def choose(
    catalog: Catalog, filters: Filters, machine: Machine | None, pins: Mapping[str, str] | None = None
) -> Choice:
    """Return the best environment of those that the filters admit.

    If some are for the NPUs of the machine, the choice is one of these, and one that its driver runs comes first.
    """
    if machine is None or not machine.has_npus:
        return Choice(_default(catalog, filters, None, pins))
    found = best_first(catalog.select((), filters, pins), machine)
    here = [(item, fit) for item, fit in found if fit.is_here and item.hardware.has_npus]
    if here:
        best, fit = here[0]
        alike = [judged for judged in here if judged[0].coordinates.arch == best.coordinates.arch]
        usual, its_fit = max(alike, key=lambda judged: judged[0].rank)
        return Choice(best, fit, usual if fit.fits and not its_fit.fits else None)
    if filters.hardware is None:
        raise _unsupported(found)
    return Choice(_default(catalog, filters, machine.arch, pins))


def _default(catalog: Catalog, filters: Filters, arch: str | None, pins: Mapping[str, str] | None) -> Environment:
    """Return the default, preferably for an architecture; one without NPUs is for that of this machine."""
    chosen = catalog.pick(None, filters, pins)
    arch = arch or (None if chosen.hardware.has_npus else platforms.arch())
    native = filters._replace(hardware=filters.hardware or chosen.coordinates.hardware, arch=arch)
    return catalog.pick(None, native, pins) if filters.arch is None and arch and catalog.has(native) else chosen


def _unsupported(judged: Sequence[tuple[Environment, Fit]]) -> HostError:
    found = [fit for item, fit in judged if item.hardware.has_npus]
    why = f"{found[0].environment}: {tr('; ').join(found[0].changes)}" if found else tr("no row has these dimensions")
    return HostError(
        tr("this machine has NPUs that no row supports; {why}", why=why),
        hint=tr("see envbuilder doctor; --hw chooses other hardware"),
    )


def refuse_unfit(catalog: Catalog, environment: Environment, machine: Machine) -> None:
    """Raise an error with the decisions to make if the driver of the machine cannot run an environment for its NPUs."""
    fit = judge(environment, machine)
    if fit.fits or not fit.is_here:
        return
    choices = [tr("--for-another-machine builds it for a host with another driver")]
    other = choose(catalog, Filters(hardware=environment.coordinates.hardware), machine)
    if other.fit and other.fit.fits:
        choices.insert(0, tr("`envbuilder build {environment}` runs here", environment=other.environment.id))
    if least := environment.least_driver:
        choices.append(tr("driver {least} or later on this machine runs it", least=least.version))
    raise HostError(fit.refusal, hint=tr("; ").join(choices))
