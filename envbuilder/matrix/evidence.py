"""Writes to the evidence of a release that one of its environments was resolved, built, trained in or compared."""

from __future__ import annotations

import datetime
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from envbuilder.files import turn, write_text
from envbuilder.matrix.decode import EVIDENCE, decode_evidence
from envbuilder.matrix.model import EnvironmentEvidence, Evidence, Level
from envbuilder.matrix.sources import find_files

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
    folder: Path, environment: str, level: Level, machine: str | None = None,
    details: Mapping[str, str] | None = None, *, renews: bool = True, alone: bool = False,
) -> None:  # fmt: skip
    """Write evidence of one level; with `renews` it replaces the earlier evidence of that level and backend.

    Evidence of builds of the package index proves less, and does not replace evidence of the pinned builds. With
    `alone` all earlier evidence is dropped. `folder` is that of the matrices, `environment` that of the environment.
    """
    details = details or {}
    replaced = (level, details.get("backend"))
    today = datetime.date.today().isoformat()
    new = {"level": level, "date": today, "machine": machine or f"{platform.machine()}, no NPU", **details}

    def lines(present: tuple[Evidence, ...]) -> str:
        kept = [
            _line(item)
            for item in (() if alone else present)
            if not renews or (item.level, item.backend) != replaced or (details.get("fallback") and not item.fallback)
        ]
        return _text([*(line for line in kept if line != new), new], None)

    _change(folder, environment, lines)


def record_unresolved(folder: Path, environment: str, reason: str) -> None:
    """Record why an environment has no lock, and drop all other evidence, as it needs a lock."""
    _change(folder, environment, lambda _: _text([], reason))


def _change(folder: Path, environment: str, text: Callable[[tuple[Evidence, ...]], str]) -> None:
    """Change the evidence of one environment in the file of its release, one process at a time."""
    release, _, name = environment.rpartition("/")
    relative = f"{EVIDENCE}{release}.yaml"
    with turn(f"evidence {folder.resolve()}", lambda: None):
        files = find_files(folder)
        present = decode_evidence({relative: files[relative]} if relative in files else {})
        texts = {
            key.rpartition("/")[2]: _text([_line(line) for line in item.evidence], item.unresolved)
            for key, item in present.items()
        }
        texts[name] = text(present.get(environment, EnvironmentEvidence()).evidence)
        parts = [f"  {key}:\n{texts[key]}" for key in sorted(texts)]
        write_text(folder / relative, "environments:\n" + "".join(parts))


def _line(item: Evidence) -> dict[str, str]:
    details = {name: value for name in DETAILS if (value := getattr(item, name)) is not None}
    return {"level": item.level, "date": item.date, "machine": item.machine, **{k: str(v) for k, v in details.items()}}


def _text(lines: Sequence[Mapping[str, str]], unresolved: str | None) -> str:
    text = f"    unresolved: {json.dumps(unresolved, ensure_ascii=False)}\n" if unresolved else ""
    if lines:
        text += "    evidence:\n"
        for line in lines:
            words = (f"{key}: {json.dumps(value) if key in _PROSE else value}" for key, value in line.items())
            text += f"    - {{{', '.join(words)}}}\n"
    return text
