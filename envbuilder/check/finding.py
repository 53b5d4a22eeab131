"""One thing that check, doctor or diagnose has to say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from envbuilder.errors import Where

# "ok" is what doctor reports of a machine that is as it should be
FindingSeverity: TypeAlias = Literal["ok", "info", "warning", "error"]
_ORDER: dict[FindingSeverity, int] = {"error": 0, "warning": 1, "info": 2, "ok": 3}


@dataclass(frozen=True)
class Finding:
    """What is wrong or worth knowing, and what helps. The table of rules or checks stamps the code."""

    severity: FindingSeverity
    message: str
    hint: str | None = None
    code: str = ""
    # of a rule: the environment (None where it is about the matrices), the components, and the place of the value
    environment: str | None = None
    components: tuple[str, ...] = ()
    where: Where | None = None
    # of a check of a machine: the group that it is shown under
    group: str = ""
    # of a diagnosis: what the statement rests on
    source: str | None = None


def worst_first(finding: Finding) -> int:
    """Return the sort key of a finding."""
    return _ORDER[finding.severity]
