"""Runs a script on a target, and follows its output until it ends or takes too long."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envbuilder.language import english
from envbuilder.validate.smoke.judge import Verdict
from envbuilder.validate.target import Target


@dataclass(frozen=True)
class Ended:
    """A script that has ended; with a `limit`, it was stopped because it took longer than these seconds."""

    code: int
    text: str
    limit: float | None

    def verdict(self, what: str) -> Verdict:
        if self.limit is not None:
            minutes = f"{self.limit / 60:.0f}"
            message = english("the {what} was stopped after {limit} minutes", what=what, limit=minutes)
            return Verdict("process", False, message)
        if self.code == 0:
            return Verdict("process", True, english("the {what} ended without an error", what=what))
        # a shell adds 128 to the number of a signal, and subprocess negates it
        signal = -self.code if self.code < 0 else self.code - 128
        lines = [line.strip() for line in self.text.splitlines() if line.strip()]
        # lines such as `raise RuntimeError(` and "see root cause above" name no cause
        errors = [line for line in lines if re.search(r"Error\b(?!\()", line) and "root cause above" not in line]
        last = (errors or lines or [""])[-1][-300:] or english("it printed nothing")
        if signal > 0:
            message = english("the {what} was killed by signal {signal}: {last}", what=what, signal=signal, last=last)
        else:
            message = english("the {what} ended with code {code}: {last}", what=what, code=self.code, last=last)
        return Verdict("process", False, message)


def follow(
    target: Target, script: str, job: Mapping[str, Any], variables: Mapping[str, str], limit: float, log: Path,
    seen: Callable[[str, str], None] | None = None,
) -> Ended:  # fmt: skip
    """Run a script with a job, and write its output to a log. `seen` gets each line and the text up to it."""
    place = target.place
    command = ["python3", f"{place.code}/{script}", str(Path(place.folder).with_name("job.json"))]
    process = target.start(command, variables, json.dumps(job))
    assert process.stdout is not None  # noqa: S101
    late = threading.Event()

    def give_up() -> None:
        late.set()
        target.stop(process)

    limit *= target.slowness
    timer = threading.Timer(limit, give_up)
    timer.start()
    text = ""
    log.parent.mkdir(parents=True, exist_ok=True)
    try:
        with process.stdout as lines, log.open("a", encoding="utf-8") as file:
            for line in lines:
                file.write(line)
                text += line
                if seen is not None:
                    seen(line, text)
        code = process.wait()
    except BaseException:
        target.stop(process)
        raise
    finally:
        timer.cancel()
    return Ended(code, text, limit if late.is_set() else None)
