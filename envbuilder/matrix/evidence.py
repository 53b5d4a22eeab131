"""Records in the evidence file of an environment that it was resolved, built, trained in or compared."""

from __future__ import annotations

import datetime
import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

from envbuilder.files import write_text
from envbuilder.matrix.model import Evidence, Level

# in the order in which they are written
DETAILS = (
    "fallback",
    "depth",
    "backend",
    "steps",
    "reward",
    "seconds_per_step",
    "seconds",
    "size_gb",
    "error",
    "throughput_ratio",
)
_PROSE = {"machine", "reward", "error", "fallback"}


def record(
    folder: Path, identifier: str, present: Sequence[Evidence], level: Level, machine: str | None = None,
    details: Mapping[str, str] | None = None, *, renews: bool = True,
) -> None:  # fmt: skip
    """Write evidence of one level; with `renews` it replaces the earlier evidence of that level and backend.

    Builds of the package index in place of the pinned ones prove less, and do not replace evidence of those. `folder`
    is that of the matrices.
    """
    details = details or {}
    replaced = (level, details.get("backend"))
    kept = [
        _line(item)
        for item in present
        if not renews or (item.level, item.backend) != replaced or (details.get("fallback") and not item.fallback)
    ]
    today = datetime.date.today().isoformat()
    new = {"level": level, "date": today, "machine": machine or f"{platform.machine()}, no NPU", **details}
    _write(folder, identifier, [*(line for line in kept if line != new), new], None)


def record_unresolved(folder: Path, identifier: str, reason: str) -> None:
    """Record why an environment has no lock. Any other evidence is dropped, as it needs a lock."""
    _write(folder, identifier, [], reason)


def _line(item: Evidence) -> dict[str, str]:
    details = {name: value for name in DETAILS if (value := getattr(item, name)) is not None}
    return {"level": item.level, "date": item.date, "machine": item.machine, **{k: str(v) for k, v in details.items()}}


def _write(folder: Path, identifier: str, lines: Sequence[Mapping[str, str]], unresolved: str | None) -> None:
    text = f"unresolved: {json.dumps(unresolved, ensure_ascii=False)}\n" if unresolved else ""
    if lines:
        text += "evidence:\n"
        for line in lines:
            words = (f"{key}: {json.dumps(value) if key in _PROSE else value}" for key, value in line.items())
            text += f"- {{{', '.join(words)}}}\n"
    write_text(folder / "evidence" / f"{identifier}.yaml", text)
