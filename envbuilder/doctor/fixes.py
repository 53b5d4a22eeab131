"""Writes the commands that help as a script. A person reads and runs it; envbuilder never does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from envbuilder.check import Finding

_PROGRAMS = "pip3?|sysctl|echo|apt-get|export|unset|source|docker|usermod|npu-smi|envbuilder|mkdir|systemctl"
_COMMAND = re.compile(rf"(?:{_PROGRAMS}) [^`;]+?(?=, (?:then|after|and|or) |;|$)")
_QUOTED = re.compile(rf"`((?:{_PROGRAMS}) [^`]+)`")


def script(findings: Sequence[Finding]) -> str:
    """Return a script with a comment and the commands for every fault."""
    lines = ["#!/usr/bin/env bash", "# commands that envbuilder suggests; read them before you run them"]
    for item in findings:
        if item.severity in {"error", "warning"} and item.hint:
            lines += ["", f"# {item.message}"]
            lines += list(commands(item.hint)) or [f"# no command does it: {item.hint}"]
    if len(lines) == 2:
        lines.append("# nothing is wrong")
    return "\n".join(lines)


def commands(hint: str) -> Iterator[str]:
    """Yield the commands in a hint: it may begin with one, or quote some."""
    quoted = _QUOTED.findall(hint)
    if quoted:
        yield from quoted
    elif match := _COMMAND.match(hint):
        yield match[0]
