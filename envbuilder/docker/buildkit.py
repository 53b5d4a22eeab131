"""Reads BuildKit's plain progress output into steps: the stage of each, its output and how it ended."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import IO, Protocol

_VERTEX = re.compile(r"^#(\d+) (.*)$")
_STEP = re.compile(r"^\[(\S+) +(\d+)/\d+\] ")
_DONE = re.compile(r"^DONE ([0-9.]+)s$")
_TIME = re.compile(r"^[0-9.]+ ")
_ERROR = re.compile(r'^ERROR: (?:executor failed running \[.*\]: |process ".*" did not complete successfully: )?(.*)$')
# 137 is the code of a process that was killed
_EXIT = re.compile(r"exit code: (?!137$)\d+$")
_DIGEST = re.compile(r"^sha256:[0-9a-f]{64}$")
_KEPT_LINES = 200


@dataclass
class StepResult:
    """One instruction, identified by its stage and its number in that stage."""

    stage: str
    number: int
    seconds: float = 0.0
    cached: bool = False
    failed: bool = False
    output: list[str] = field(default_factory=list)


class Listener(Protocol):
    def started(self, step: StepResult) -> None: ...
    def said(self, step: StepResult, line: str) -> None: ...
    def ended(self, step: StepResult) -> None: ...


class Silent(Listener):
    def started(self, step: StepResult) -> None: ...
    def said(self, step: StepResult, line: str) -> None: ...
    def ended(self, step: StepResult) -> None: ...


def follow(lines: Iterable[str], log: IO[str], listener: Listener) -> tuple[list[StepResult], list[str]]:
    """Return the steps that ran, and the lines that belong to no step. Every line is logged as it arrives."""
    steps: dict[str, StepResult] = {}
    began: dict[str, float] = {}
    rest: list[str] = []
    for line in lines:
        log.write(line)
        log.flush()
        match = _VERTEX.match(line.rstrip("\n"))
        if match is None:
            rest.append(line.rstrip("\n"))
            continue
        vertex, text = match.groups()
        named = _STEP.match(text)
        if named and vertex not in steps:
            steps[vertex] = StepResult(named[1], int(named[2]))
            began[vertex] = time.monotonic()
            listener.started(steps[vertex])
        elif vertex in steps:
            _advance(steps[vertex], text, began[vertex], listener)
        else:
            rest.append(text)
    return list(steps.values()), rest


def _advance(step: StepResult, text: str, began: float, listener: Listener) -> None:
    done = _DONE.match(text)
    if text == "CACHED" or done or text.startswith("ERROR"):
        step.cached, step.failed = text == "CACHED", text.startswith("ERROR")
        # all lines of a short step may arrive at once, so the clock alone would show too little
        step.seconds = 0.0 if step.cached else max(time.monotonic() - began, float(done[1]) if done else 0.0)
        if (error := _ERROR.match(text)) and not _EXIT.match(error[1]):
            # the engine has failed, and not the command, so the output shows no reason
            step.output.append(error[1])
        listener.ended(step)
    elif not (_STEP.match(text) or _DIGEST.match(text) or text == "CANCELED"):
        line = _TIME.sub("", text)
        step.output.append(line)
        del step.output[:-_KEPT_LINES]
        listener.said(step, line)
