"""Which of the forms a file has: told by what is in it, as names say little."""

from __future__ import annotations

import hashlib
from pathlib import Path

from envbuilder.trainlog.console import read_steps
from envbuilder.trainlog.events import is_events, read_events
from envbuilder.trainlog.step import Log
from envbuilder.trainlog.tables import is_csv, read_csv, read_jsonl, read_means


def read_log(content: bytes) -> Log:
    """Nothing of it is an error: a file that tells of no step gives a log without any."""
    return _read(content)._replace(digest=hashlib.sha256(content).hexdigest())


def _read(content: bytes) -> Log:
    if is_events(content):
        return Log(tuple(read_events(content)))
    text = content.decode("utf-8-sig", errors="replace")
    if text.lstrip().startswith("{"):
        steps, unread = read_jsonl(text)
        if steps:
            return Log(tuple(steps), text=text, unread=unread)
    if is_csv(text) and (steps := read_csv(text)):
        return Log(tuple(steps), text=text)
    if steps := read_steps(text):
        return Log(tuple(steps), text=text)
    return Log(means=read_means(text), text=text)


def read_path(path: Path) -> Log:
    """A file, or a folder in which TensorBoard's writers have left one file each."""
    if not path.is_dir():
        return read_log(path.read_bytes())
    logs = [read_log(item.read_bytes()) for item in sorted(path.rglob("*tfevents*")) if item.is_file()]
    digest = hashlib.sha256("".join(log.digest for log in logs).encode()).hexdigest()
    return Log(tuple(step for log in logs for step in log.steps), digest=digest)
