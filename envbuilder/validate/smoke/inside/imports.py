"""Runs each check of a list in a process of its own, and prints each result as a line of JSON.

    python imports.py JOB

The processes are copies of one that has imported torch, which most modules import and which takes most of the time. So
a module that fails is named, and finds nothing that another one has imported, except for torch and what torch imports.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

# characters of a traceback, at its end, with those of its causes
_LAST = 20_000


class Started(NamedTuple):
    name: str
    errors: IO[bytes]
    at: float


def main() -> None:
    job: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    # modules are found as users find them, not beside this file
    sys.path.pop(0)
    if job["shared"]:
        try:
            __import__(job["shared"])
        except Exception as error:
            print(f"{job['shared']} is not shared: {error}", flush=True)
    failed = {}
    for answer in run(job["codes"], at_once=len(os.sched_getaffinity(0))):
        if answer["code"] == 0:
            report(answer)
        else:
            failed[answer["name"]] = job["codes"][answer["name"]]
    # many at once may have been too much for the machine: the second answer counts
    for answer in run(failed, at_once=1):
        report(answer)


def run(codes: dict[str, str], at_once: int) -> Iterator[dict[str, Any]]:
    """Run each code in a process, and yield the answer as soon as that has ended."""
    waiting = list(reversed(codes.items()))
    running: dict[int, Started] = {}
    while waiting or running:
        while waiting and len(running) < at_once:
            name, code = waiting.pop()
            started = Started(name, TemporaryFile(), time.monotonic())  # noqa: SIM115  closed after it is read
            process = os.fork()
            if process == 0:
                become(code, started.errors)
            running[process] = started
        process, status = os.wait()
        name, errors, at = running.pop(process)
        with errors:
            errors.seek(0)
            text = errors.read().decode(errors="replace").strip()
        yield {
            "name": name,
            "code": os.waitstatus_to_exitcode(status),
            "errors": text[-_LAST:],
            "seconds": round(time.monotonic() - at, 3),
        }


def become(code: str, errors: IO[bytes]) -> None:
    """Run code in this process, and end it as Python does: a module may still fail then."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(errors.fileno(), 2)
    exec(code, {"__name__": "__main__"})  # noqa: S102
    sys.exit()


def report(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
