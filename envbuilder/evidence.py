"""Writes down what was really done with an environment, in the row's evidence file."""

from __future__ import annotations

import datetime
import json
import platform
from collections.abc import Sequence
from pathlib import Path

from envbuilder.model import EvidenceFile, Level
from envbuilder.write import write_text


def record(
    folder: Path, identifier: str, present: EvidenceFile | None, level: Level, machine: str | None = None
) -> None:
    """Adds or renews one level. `folder` is that of the matrices."""
    kept = [item for item in (present.evidence if present else ()) if item.level != level]
    today = datetime.date.today().isoformat()
    lines = [(item.level, item.date, item.machine) for item in kept]
    lines.append((level, today, machine or f"{platform.machine()}, no NPU"))
    _write(folder, identifier, lines, None)


def record_unresolved(folder: Path, identifier: str, reason: str) -> None:
    """There is no lock, and this is why. Nothing else can be true of an environment that does not resolve."""
    _write(folder, identifier, [], reason)


def _write(folder: Path, identifier: str, lines: Sequence[tuple[str, str, str]], unresolved: str | None) -> None:
    text = f"unresolved: {json.dumps(unresolved, ensure_ascii=False)}\n" if unresolved else ""
    if lines:
        text += "evidence:\n"
        text += "".join(
            f"- {{level: {level}, date: {date}, machine: {json.dumps(machine)}}}\n" for level, date, machine in lines
        )
    write_text(folder / "evidence" / f"{identifier}.yaml", text)
