"""Writes the suggested commands as a script. A person reads and runs it; envbuilder never does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from envbuilder.check import Finding

_PROGRAMS = "pip3?|sysctl|echo|apt-get|export|unset|source|docker|usermod|npu-smi|envbuilder|mkdir|systemctl"
_QUOTED = re.compile(rf"`((?:{_PROGRAMS}) [^`]+)`")


def script(findings: Sequence[Finding]) -> str:
    """Return a script with a comment and the commands for every error and warning."""
    lines: list[str] = []
    for item in findings:
        if item.severity in {"error", "warning"} and item.hint:
            # texts of the machine in it may have several lines, which would be commands
            message, hint = (" ".join(text.split()) for text in (item.message, item.hint))
            lines += ["", f"# {message}", *(list(commands(hint)) or [f"# no command does it: {hint}"])]
    head = ["#!/usr/bin/env bash", "# commands that envbuilder suggests; read them before you run them"]
    return "\n".join([*head, *(lines or ["# nothing is wrong"])])


def commands(hint: str) -> Iterator[str]:
    """Yield the commands in a hint, which are in backquotes: other words of a hint may look like commands."""
    yield from _QUOTED.findall(hint)
