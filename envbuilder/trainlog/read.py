"""Reads a log in any of the known formats, recognized by content and not by file name."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from envbuilder.errors import UsageError
from envbuilder.language import tr
from envbuilder.trainlog.console import read_steps
from envbuilder.trainlog.events import is_events, read_events
from envbuilder.trainlog.step import Log
from envbuilder.trainlog.tables import read_csv, read_jsonl, read_means


def read_log(content: bytes) -> Log:
    """Return the log of a file's content; content without any step is not an error, but a log without steps."""
    return _read(content)._replace(digest=hashlib.sha256(content).hexdigest())


def _read(content: bytes) -> Log:
    if is_events(content):
        return Log(tuple(read_events(content)))
    text = content.decode("utf-8-sig", errors="replace")
    if text.lstrip().startswith("{"):
        steps, unread = read_jsonl(text)
        if steps:
            return Log(tuple(steps), text=text, unread=unread)
    if steps := read_csv(text):
        return Log(tuple(steps), text=text)
    if steps := read_steps(text):
        return Log(tuple(steps), text=text)
    return Log(means=read_means(text), text=text)


def read_path(path: Path) -> Log:
    """Return the log of a file, or of a folder of TensorBoard event files."""
    if not path.is_dir():
        return read_log(path.read_bytes())
    logs = {file: read_log(file.read_bytes()) for file in sorted(path.rglob("*tfevents*")) if file.is_file()}
    _check_one_run(path, logs)
    digest = hashlib.sha256("".join(log.digest for log in logs.values()).encode()).hexdigest()
    return Log(tuple(step for log in logs.values() for step in log.steps), digest=digest)


def _check_one_run(path: Path, logs: Mapping[Path, Log]) -> None:
    """Refuse event files of several runs.

    A run that is resumed writes another file into the same folder; another run has a folder of its own.
    """
    folders: dict[tuple[int, str], Path] = {}
    for file, log in logs.items():
        for key in {(step.number, name) for step in log.steps for name in step.metrics}:
            other = folders.setdefault(key, file.parent)
            if other != file.parent:
                raise UsageError(
                    tr("{path} has several runs: {one} and {other}", path=path, one=other, other=file.parent),
                    hint=tr("name one of them"),
                )
