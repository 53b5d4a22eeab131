"""Records each part of an installation before and after it is done, so that it can be interrupted at any moment."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from envbuilder.errors import UsageError
from envbuilder.files import locked
from envbuilder.language import tr
from envbuilder.process import run

_JOURNAL, _TURN = "journal.jsonl", "turn"


class Journal:
    """The journal of an installation, a file under the prefix. Incomplete lines are ignored."""

    def __init__(self, prefix: Path) -> None:
        self._file = prefix / _JOURNAL
        self.done: list[str] = []
        # the packages that were installed when the last part ended
        self.packages: frozenset[str] = frozenset()
        # the part that has begun and not ended
        self.begun: str | None = None
        for line in self._lines():
            if line.get("state") == "done" and line.get("key") == self.begun:
                self.done.append(str(line["key"]))
                self.packages = frozenset(map(str, line.get("packages", ())))
                self.begun = None
            elif line.get("state") == "begun":
                self.begun = str(line.get("key"))

    def _lines(self) -> Iterator[dict[str, Any]]:
        if not self._file.is_file():
            return
        for line in self._file.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict):
                yield found

    def begin(self, key: str, title: str) -> None:
        self.begun = key
        self._write({"state": "begun", "key": key, "title": title})

    def end(self, key: str, title: str, packages: Iterable[str]) -> None:
        self.packages = frozenset(packages)
        # a part that is recorded as done must be on the disk even after a power failure
        run(["sync", "--file-system", str(self._file)])
        self._write({"state": "done", "key": key, "title": title, "packages": sorted(self.packages)})
        self.done.append(key)
        self.begun = None

    def _write(self, line: dict[str, Any]) -> None:
        # the newline first, because the line before may be incomplete
        with self._file.open("a", encoding="utf-8") as file:
            file.write("\n" + json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def forget(self) -> None:
        # the file stays, because it marks the folder as an installation
        self._file.write_text("", encoding="utf-8")
        self.done, self.begun, self.packages = [], None, frozenset()


def check_prefix(prefix: Path) -> None:
    """Refuse a folder with files of something other than an installation, so that none of them is changed."""
    if prefix.exists() and not prefix.is_dir():
        raise UsageError(tr("{prefix} is a file", prefix=prefix), hint=tr("name a folder with --prefix"))
    if prefix.is_dir() and any(prefix.iterdir()) and not (prefix / _JOURNAL).is_file():
        raise UsageError(
            tr("{prefix} is not empty, and no installation has begun in it", prefix=prefix),
            hint=tr("name another folder with --prefix"),
        )


@contextmanager
def alone(prefix: Path, waiting: Callable[[], None]) -> Iterator[int]:
    """Hold the lock of a folder, so that one installation runs in it at a time, and yield the lock's descriptor.

    Processes that inherit it hold the lock too, so the next installation waits for those that outlive this one.
    """
    prefix.mkdir(parents=True, exist_ok=True)
    (prefix / _JOURNAL).touch()
    with locked(prefix / _TURN, waiting) as turn:
        yield turn
