"""Compares a row with a draft of it: which pins differ, and which documented versions no file states."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from envbuilder import versions
from envbuilder.environment import Environment
from envbuilder.errors import NetworkError, Where
from envbuilder.upstream.choose import Chosen
from envbuilder.upstream.draft import Drafted
from envbuilder.upstream.statement import Statement

# a file of a commit, as rows cite it
_CITED = re.compile(r"([\w.-]+/[\w.-]+)@([\w.]+):(\S[^,]*)")
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
    # the source that the row names, if its repository is at hand and does not have the file
    absent: str | None = None

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
        ComparedPin(
            name, pin.version, pin.documented, pin.because, pin.where, drafted.pins.get(name) or Chosen(name),
            None if _exists(drafted, pin.source) else pin.source,
        )
        for name, pin in environment.pins.items()
        if pin.where.file.endswith(row)
    ]  # fmt: skip


def differing(pins: Iterable[ComparedPin]) -> list[ComparedPin]:
    """Return the pins with another version than the draft, or with a source or documented version that is nowhere."""
    return [pin for pin in pins if not pin.equal or pin.documented_found is False or pin.absent]


def _exists(drafted: Drafted, source: str) -> bool:
    """Return whether a cited file exists at its commit; a source of another kind is taken for granted."""
    cited = _CITED.fullmatch(source)
    if cited is None:
        return True
    addresses = (item.repository for item in drafted.components.values() if item.repository)
    address = next((item for item in addresses if item.removesuffix(".git").endswith(f"/{cited[1]}")), None)
    if address is None:
        return True
    try:
        tree = drafted.repositories.at(address).tree(cited[2])
    except NetworkError:
        return True
    return tree is not None and cited[3] in tree.names


def _states(item: Statement, documented: str) -> bool:
    text = item.value.text
    if item.value.kind == "any":
        return documented == _UNPINNED
    return text == documented or _clauses(text) == _clauses(documented) or versions.same(text, documented)


def _clauses(text: str) -> set[str]:
    return {clause.strip() for clause in text.split(",")}
