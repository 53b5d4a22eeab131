"""Writes the suggested commands as a script. A person reads and runs it; envbuilder never does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from envbuilder.check import Finding

_PROGRAMS = "pip3?|sysctl|echo|apt-get|export|unset|source|docker|usermod|npu-smi|envbuilder|mkdir|systemctl"
_COMMAND = re.compile(rf"(?:{_PROGRAMS}) [^`;]+?(?=, (?:then|after|and|or) |;|$)")
_QUOTED = re.compile(rf"`((?:{_PROGRAMS}) [^`]+)`")


def script(findings: Sequence[Finding]) -> str:
    """Return a script with a comment and the commands for every error and warning."""
    lines: list[str] = []
    for item in findings:
        if item.severity in {"error", "warning"} and item.hint:
            lines += ["", f"# {item.message}"]
            lines += list(commands(item.hint)) or [f"# no command does it: {item.hint}"]
    head = ["#!/usr/bin/env bash", "# commands that envbuilder suggests; read them before you run them"]
    return "\n".join([*head, *(lines or ["# nothing is wrong"])])


def commands(hint: str) -> Iterator[str]:
    """Yield the commands in a hint: those in backquotes, or else the one that it begins with."""
    if quoted := _QUOTED.findall(hint):
        yield from quoted
    elif match := _COMMAND.match(hint):
        yield match[0]
