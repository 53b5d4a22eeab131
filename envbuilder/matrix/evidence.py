"""Writes to the evidence of a release that one of its environments was resolved, built, trained in or compared.

A proof that failed is written there too, so that it is not tried again before something has changed.
"""

from __future__ import annotations

import datetime
import json
import platform
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from envbuilder.files import changing, write_text
from envbuilder.matrix.decode import EVIDENCE, decode_evidence
from envbuilder.matrix.model import EnvironmentEvidence, Evidence, Failure, Level
from envbuilder.matrix.sources import find_files

# in the order in which they are written
DETAILS = (
    "fallback",
    "torch",
    "depth",
    "backend",
    "devices",
    "steps",
    "reward",
    "seconds_per_step",
    "seconds",
    "size_gb",
    "error",
    "throughput_ratio",
)
_ITEM = "    - {"
_PROSE = {"machine", "reward", "error", "fallback", "torch", "cause"}


def record(
    folder: Path, environment: str, level: Level, machine: str | None = None,
    details: Mapping[str, str] | None = None, *, renews: bool = True, alone: bool = False,
) -> None:  # fmt: skip
    """Write evidence of one level; with `renews` it replaces the earlier evidence of that level and backend.

    Evidence of builds of the package index proves less, and does not replace evidence of the pinned builds. With
    `alone` all earlier evidence is dropped. `folder` is that of the matrices, `environment` that of the environment.
    """
    details = details or {}
    replaced = (level, details.get("backend"), details.get("devices"))
    new = {"level": level, "date": _today(), "machine": machine or f"{platform.machine()}, no NPU", **details}

    def text(present: EnvironmentEvidence) -> str:
        kept = [
            _line(item)
            for item in (() if alone else present.evidence)
            if not renews or _kind(item) != replaced or (details.get("fallback") and not item.fallback)
        ]
        return _text([*(line for line in kept if line != new), new], None, None if alone else present.failure)

    _change(folder, environment, text)


def record_unresolved(folder: Path, environment: str, reason: str) -> None:
    """Record why an environment has no lock, and drop all other evidence, as it needs a lock."""
    _change(folder, environment, lambda _: _text([], reason))


def record_failure(folder: Path, environment: str, failure: Failure | None) -> None:
    """Record the last proof of an environment that failed, or that none has failed since."""
    _change(folder, environment, lambda present: _text(map(_line, present.evidence), present.unresolved, failure))


def failure(machine: str, cause: str, of: str) -> Failure:
    return Failure(date=_today(), machine=machine, cause=cause, of=of)


def _today() -> str:
    return datetime.date.today().isoformat()


def _kind(item: Evidence) -> tuple[str, str | None, str | None]:
    return item.level, item.backend, None if item.devices is None else str(item.devices)


def _change(folder: Path, environment: str, text: Callable[[EnvironmentEvidence], str]) -> None:
    """Change the evidence of one environment in the file of its release, one process at a time."""
    release, _, name = environment.rpartition("/")
    relative = f"{EVIDENCE}{release}.yaml"
    with changing(folder):
        files = find_files(folder)
        present = decode_evidence({relative: files[relative]} if relative in files else {})
        texts = {
            key.rpartition("/")[2]: _text(map(_line, item.evidence), item.unresolved, item.failure)
            for key, item in present.items()
        }
        texts[name] = text(present.get(environment, EnvironmentEvidence()))
        parts = [f"  {key}:\n{texts[key]}" for key in sorted(texts)]
        written = "environments:\n" + "".join(parts)
        before = files[relative].path.read_text(encoding="utf-8") if relative in files else ""
        write_text(folder / relative, _with_lines_of(before, written))


def _with_lines_of(before: str, text: str) -> str:
    """Return the text with each item that was there before as it was written, whatever the order of its keys."""
    known = {_content(line): line for line in before.splitlines() if line.startswith(_ITEM)}
    lines = (known.get(_content(line), line) if line.startswith(_ITEM) else line for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines)


def _content(line: str) -> frozenset[tuple[str, str]]:
    import yaml

    # every scalar stays the text that it is
    return frozenset(yaml.load(line, Loader=yaml.BaseLoader)[0].items())  # noqa: S506  it makes no objects


def _line(item: Evidence) -> dict[str, str]:
    details = {name: value for name in DETAILS if (value := getattr(item, name)) is not None}
    return {"level": item.level, "date": item.date, "machine": item.machine, **{k: str(v) for k, v in details.items()}}


def _text(lines: Iterable[Mapping[str, str]], unresolved: str | None, failure: Failure | None = None) -> str:
    text = f"    unresolved: {json.dumps(unresolved, ensure_ascii=False)}\n" if unresolved else ""
    if failure is not None:
        text += f"    failure: {_flow(failure.__dict__)}\n"
    items = [f"    - {_flow(line)}\n" for line in lines]
    return text + (f"    evidence:\n{''.join(items)}" if items else "")


def _flow(line: Mapping[str, str]) -> str:
    words = (f"{key}: {json.dumps(value) if key in _PROSE else value}" for key, value in line.items())
    return f"{{{', '.join(words)}}}"
