"""Asks a machine: its files, and tools that only tell."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

_SECONDS = 20


def text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def output_of(command: Sequence[str]) -> tuple[int, str]:
    """The exit code and everything printed; -1 where it cannot be started or does not end."""
    try:
        done = subprocess.run(  # noqa: S603
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_SECONDS,
            check=False, text=True, errors="replace",
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return -1, str(error)
    return done.returncode, done.stdout
