"""Runs each check of a list in a process of its own, and prints each result as a line of JSON.

    python imports.py JOB

The processes are copies of one that has imported what most modules import, such as torch, which takes most of the time.
So a module that fails is named, and finds nothing that another one has imported, except for these.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

# characters of a traceback, at its end, with those of its causes
_LAST = 20_000


class Started(NamedTuple):
    name: str
    errors: int
    at: float


def main() -> None:
    groups: list[dict[str, Any]] = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["groups"]
    if len(sys.argv) > 2:
        group = groups[int(sys.argv[2])]
        # a process that starts anew shares fewer modules
        most = int(sys.argv[3]) if len(sys.argv) > 3 else None
        import_group(group["shared"][:most], group["codes"])
        return
    # side by side: while one imports what its copies share, the others use the other processors
    with ThreadPoolExecutor(len(groups)) as pool:
        codes = list(pool.map(start_group, range(len(groups)), (group["variables"] for group in groups)))
    sys.exit(max(codes))


def start_group(number: int, variables: dict[str, str]) -> int:
    """Import a group in a process of its own, pass its lines on, and return how it ended."""
    command = [sys.executable, *sys.argv, str(number)]
    with subprocess.Popen(command, env={**os.environ, **variables}, stdout=subprocess.PIPE) as process:  # noqa: S603
        assert process.stdout is not None  # noqa: S101
        for line in process.stdout:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
    # a shell adds 128 to the number of a signal
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def import_group(shared: list[str], codes: dict[str, str]) -> None:
    """Import what the processes of a group share, and run each code in a copy of this one."""
    # modules are found as users find them, not beside this file
    sys.path.pop(0)
    for number, module in enumerate(shared):
        # one that cannot be imported has a check of its own
        try:
            __import__(module)
        except Exception as error:
            print(f"{module} is not shared: {error}", flush=True)
            # half of a module would be left behind, with which the copies fail in other ways
            if not isinstance(error, ModuleNotFoundError) or not f"{module}.".startswith(f"{error.name}."):
                os.execv(sys.executable, [sys.executable, *sys.argv[:3], str(number)])  # noqa: S606
    # a copy that looks through what is shared copies it
    gc.freeze()
    failed = {}
    for answer in run(codes, at_once=len(os.sched_getaffinity(0))):
        if answer["code"] == 0:
            report(answer)
        else:
            failed[answer["name"]] = codes[answer["name"]]
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
            # not a file object: a copy that ends would warn of it, below the error
            started = Started(name, os.memfd_create(name), time.monotonic())
            process = os.fork()
            if process == 0:
                become(code, started.errors)
            running[process] = started
        process, status = os.wait()
        name, errors, at = running.pop(process)
        with os.fdopen(errors, "rb") as file:
            file.seek(0)
            text = file.read().decode(errors="replace").strip()
        yield {
            "name": name,
            "code": os.waitstatus_to_exitcode(status),
            "errors": text[-_LAST:],
            "seconds": round(time.monotonic() - at, 3),
        }


def become(code: str, errors: int) -> None:
    """Run code in this process, and end it as Python does: a module may still fail then."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(errors, 2)
    exec(code, {"__name__": "__main__"})  # noqa: S102
    sys.exit()


def report(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
