"""Reads files of a machine and runs its read-only tools."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from envbuilder.process import ProgramError, run

_SECONDS = 20


def text_of(path: Path) -> str:
    """Return the content of a file, or an empty text if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def output_of(command: Sequence[str]) -> tuple[int, str]:
    """Return the exit code and everything printed; -1 if the program cannot be started or does not end."""
    try:
        done = run(command, seconds=_SECONDS, merge=True)
    except ProgramError as error:
        return -1, error.message
    return done.code, done.text
