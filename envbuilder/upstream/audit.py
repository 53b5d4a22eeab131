"""Compares a row with a draft of it: which pins differ, and which documented versions no file states."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from envbuilder import versions
from envbuilder.environment import Environment
from envbuilder.errors import Where
from envbuilder.upstream.choose import Chosen
from envbuilder.upstream.draft import Drafted
from envbuilder.upstream.statement import Statement

# what a row writes where a document installs a component without a version
_UNPINNED = "unpinned"


class ComparedPin(NamedTuple):
    """A pin of a row, and what a draft has for it."""

    component: str
    pinned: str
    documented: str | None
    because: str | None
    where: Where
    drafted: Chosen

    @property
    def equal(self) -> bool:
        return bool(self.drafted.version) and versions.same(self.pinned, self.drafted.version)

    @property
    def documented_found(self) -> bool | None:
        """Return whether some file states the documented version; None if the row has none."""
        if self.documented is None:
            return None
        return any(_states(item, self.documented) for item in self.drafted.statements)


def compare(environment: Environment, drafted: Drafted) -> list[ComparedPin]:
    """Return the pins that the row of an environment itself states, each with the draft's."""
    row = f"{environment.branch.framework}/{environment.branch.name}.yaml"
    return [
        ComparedPin(name, pin.version, pin.documented, pin.because, pin.where, drafted.pins.get(name) or Chosen(name))
        for name, pin in environment.pins.items()
        if pin.where.file.endswith(row)
    ]


def differing(pins: Iterable[ComparedPin]) -> list[ComparedPin]:
    """Return the pins with another version than the draft, and those whose documented version no file states."""
    return [pin for pin in pins if not pin.equal or pin.documented_found is False]


def _states(item: Statement, documented: str) -> bool:
    text = item.value.text
    if item.value.kind == "any":
        return documented == _UNPINNED
    return text == documented or _clauses(text) == _clauses(documented) or versions.same(text, documented)


def _clauses(text: str) -> set[str]:
    return {clause.strip() for clause in text.split(",")}
