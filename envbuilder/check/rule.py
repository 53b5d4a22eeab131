"""The types of rules and of their context, and the tables in which rules are registered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from envbuilder.check.finding import Finding, FindingSeverity
from envbuilder.check.source_tree import SourceTree
from envbuilder.environment import Environment
from envbuilder.environment.cascade import ResolvedPin
from envbuilder.errors import Where
from envbuilder.language import tr
from envbuilder.matrix import Matrix
from envbuilder.matrix.model import Component, Release, Severity

Judged = TypeVar("Judged")


class Wheels(Protocol):
    """The wheels that exist on package indexes. This needs the network, so `check` uses it only with --online."""

    def judge(self, url: str | None, name: str, version: str, python: str, arch: str) -> Iterable[tuple[Severity, str]]:
        """Yield the problems of installing one version from an index (None: the index of the user)."""


@dataclass(frozen=True)
class RuleContext:
    """The data for rules."""

    environment: Environment
    wheels: Wheels | None = None
    # by component
    trees: Mapping[str, SourceTree] | None = None
    # whether the versions are those of a machine instead of pins
    installed: bool = False

    def pin(self, name: str) -> ResolvedPin | None:
        return self.environment.pins.get(name)

    def component(self, name: str) -> Component | None:
        return self.environment.component(name)

    def release(self, name: str) -> Release | None:
        return self.environment.release(name)

    def title(self, name: str) -> str:
        component = self.component(name)
        return component.title if component else name

    def shown(self, name: str) -> str:
        """Return a component with its pinned version, for messages."""
        pin = self.pin(name)
        return f"{self.title(name)} {pin.full}" if pin else self.title(name)

    def published_with(self, owner: str, *names: str) -> bool:
        """Return whether the pinned release of a component was published with the pinned versions of others."""
        release = self.release(owner)
        return release is not None and all(
            (pin := self.pin(name)) is not None and release.is_paired(name, pin.version) for name in names
        )

    def provides(self, capability: str) -> bool:
        return capability in self.environment.provides

    def finding(
        self, severity: Severity, message: str, *components: str, hint: str | None = None, where: Where | None = None,
        of_versions: bool = True,
    ) -> Finding:  # fmt: skip
        """Return a finding; a warning about versions is accepted if the row gives a reason for them."""
        pins = [pin for name in components if (pin := self.pin(name))]
        if where is None:
            where = pins[0].where if pins else self.environment.where
        reason = next((pin.because for pin in pins if pin.because), None)
        found: FindingSeverity = severity
        # a version of the command line has no reason, even if the row has one for the other components
        if severity == "warning" and of_versions and reason and not any(pin.is_tried for pin in pins):
            found, hint = "accepted", tr("; ").join(filter(None, (hint, tr("the row says: {reason}", reason=reason))))
        return Finding(found, message, hint, environment=self.environment.id, components=components, where=where)


@dataclass(frozen=True)
class Rule(Generic[Judged]):
    code: str
    doc: str
    judge: Callable[[Judged], Iterable[Finding]]

    def check(self, judged: Judged) -> Iterator[Finding]:
        for finding in self.judge(judged):
            yield replace(finding, code=self.code)


RULES: dict[str, Rule[RuleContext]] = {}
MATRIX_RULES: dict[str, Rule[Matrix]] = {}
_Judge = Callable[[Judged], Iterator[Finding]]


def rule(code: str) -> Callable[[_Judge[RuleContext]], _Judge[RuleContext]]:
    """Register a rule on an environment; the docstring of the function documents it."""
    return _register(RULES, code)


def matrix_rule(code: str) -> Callable[[_Judge[Matrix]], _Judge[Matrix]]:
    """Register a rule on the whole matrix."""
    return _register(MATRIX_RULES, code)


def _register(table: dict[str, Rule[Judged]], code: str) -> Callable[[_Judge[Judged]], _Judge[Judged]]:
    def enter(judge: _Judge[Judged]) -> _Judge[Judged]:
        table[code] = Rule(code, " ".join((judge.__doc__ or "").split()), judge)
        return judge

    return enter
