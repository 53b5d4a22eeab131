"""The findings that check, doctor and diagnose report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from envbuilder.errors import Where
from envbuilder.language import tr

# "accepted" is a warning of a rule for which the row gives a reason; "ok" is a passed check of doctor
FindingSeverity: TypeAlias = Literal["ok", "info", "accepted", "warning", "error"]
_ORDER: dict[FindingSeverity, int] = {"error": 0, "warning": 1, "accepted": 2, "info": 3, "ok": 4}


@dataclass(frozen=True)
class Finding:
    """A problem or a fact, and what to do about it. The table of rules or checks sets the code."""

    severity: FindingSeverity
    message: str
    hint: str | None = None
    code: str = ""
    # of a rule: the environment (None for the matrices as a whole), the components, and the place of the value
    environment: str | None = None
    components: tuple[str, ...] = ()
    where: Where | None = None
    # of a check of a machine: the group under which it is shown
    group: str = ""
    # of a diagnosis: the source of the statement, the lines that show it, and what to run to be certain
    source: str | None = None
    lines: tuple[int, ...] = ()
    ask: str | None = None

    @property
    def cause(self) -> str:
        """Return the message without "perhaps"."""
        return self.message.removeprefix(perhaps(""))


def perhaps(cause: str) -> str:
    """Return the message of a cause that is not certain."""
    return tr("perhaps: {cause}", cause=cause)


def worst_first(finding: Finding) -> int:
    """Return the sort key of a finding."""
    return _ORDER[finding.severity]
