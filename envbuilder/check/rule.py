"""What a rule is, what it is given and what it gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from envbuilder.environment.placeholders import release_of
from envbuilder.environment.resolve import Environment, ResolvedPin
from envbuilder.errors import Where
from envbuilder.matrix import Matrix
from envbuilder.matrix.model import Component, Release, Severity

Subject = TypeVar("Subject")


@dataclass(frozen=True)
class Finding:
    """One rule's word on one environment (or, with none, on the matrices)."""

    code: str
    severity: Severity
    message: str
    hint: str | None
    environment: str | None
    components: tuple[str, ...]
    where: Where


class Wheels(Protocol):
    """Knows which wheels exist; asking needs the network, so `check` does it only when told to."""

    def judge(self, url: str | None, name: str, version: str, python: str, arch: str) -> Iterable[tuple[Severity, str]]:
        """What stands against installing one version from an index (None: the user's own)."""


@dataclass(frozen=True)
class Context:
    """What a rule may look at."""

    matrix: Matrix
    environment: Environment
    wheels: Wheels | None = None

    def pin(self, name: str) -> ResolvedPin | None:
        return self.environment.pins.get(name)

    def component(self, name: str) -> Component | None:
        return self.matrix.components.get(name)

    def release(self, name: str) -> Release | None:
        return release_of(self.matrix, self.environment, name)

    def title(self, name: str) -> str:
        component = self.component(name)
        return component.title if component else name

    def shown(self, name: str) -> str:
        """A component with its pinned version, as in messages."""
        pin = self.pin(name)
        return f"{self.title(name)} {pin.full}" if pin else self.title(name)

    def provides(self, capability: str) -> bool:
        return capability in self.environment.hardware.provides

    def finding(
        self,
        code: str,
        severity: Severity,
        message: str,
        *components: str,
        hint: str | None = None,
        where: Where | None = None,
    ) -> Finding:
        pins = [pin for name in components if (pin := self.pin(name))]
        if where is None:
            where = pins[0].where if pins else self.environment.where
        reason = next((pin.because for pin in pins if pin.because), None)
        if severity == "warning" and reason:
            # a warning stands in a proven row because somebody wrote down why
            hint = "; ".join(filter(None, (hint, f"the row says: {reason}")))
        return Finding(code, severity, message, hint, self.environment.id, components, where)


@dataclass(frozen=True)
class Rule(Generic[Subject]):
    code: str
    doc: str
    check: Callable[[Subject], Iterable[Finding]]


RULES: dict[str, Rule[Context]] = {}
MATRIX_RULES: dict[str, Rule[Matrix]] = {}
_Check = Callable[[Subject], Iterator[Finding]]


def rule(code: str) -> Callable[[_Check[Context]], _Check[Context]]:
    """Enters a function over an environment in the table; its docstring is the rule's documentation."""
    return _entered(RULES, code)


def matrix_rule(code: str) -> Callable[[_Check[Matrix]], _Check[Matrix]]:
    """The same for a function over the whole matrix."""
    return _entered(MATRIX_RULES, code)


def _entered(table: dict[str, Rule[Subject]], code: str) -> Callable[[_Check[Subject]], _Check[Subject]]:
    def enter(check: _Check[Subject]) -> _Check[Subject]:
        table[code] = Rule(code, " ".join((check.__doc__ or "").split()), check)
        return check

    return enter
