"""What an installation has done, written down before and after each part, so that it can be cut off at any moment."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from envbuilder.errors import UsageError
from envbuilder.files import locked
from envbuilder.process import run

_JOURNAL, _TURN = "journal.jsonl", "turn"


class Journal:
    """Lines of a file under the prefix; a line that was cut off counts as not written."""

    def __init__(self, prefix: Path) -> None:
        self._file = prefix / _JOURNAL
        self.done: list[str] = []
        # what was whole when the last part ended
        self.packages: frozenset[str] = frozenset()
        # the part that was begun and not ended
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
        # what is said to be done is still there after a power cut
        run(["sync", "--file-system", str(self._file)])
        self._write({"state": "done", "key": key, "title": title, "packages": sorted(self.packages)})
        self.done.append(key)
        self.begun = None

    def _write(self, line: dict[str, Any]) -> None:
        # a line that was cut off must not swallow this one
        with self._file.open("a", encoding="utf-8") as file:
            file.write("\n" + json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def forget(self) -> None:
        # the file stays: it says that the folder is ours
        self._file.write_text("", encoding="utf-8")
        self.done, self.begun, self.packages = [], None, frozenset()


def check_prefix(prefix: Path) -> None:
    """An empty folder, or one that an installation has begun: nothing of anybody else's is touched."""
    if prefix.exists() and not prefix.is_dir():
        raise UsageError(f"{prefix} is a file", hint="--prefix names a folder")
    if prefix.is_dir() and any(prefix.iterdir()) and not (prefix / _JOURNAL).is_file():
        raise UsageError(f"{prefix} is not empty, and no installation has begun in it", hint="--prefix names another")


@contextmanager
def alone(prefix: Path, waiting: Callable[[], None]) -> Iterator[int]:
    """One installation at a time. The processes that it starts hold its turn too, so those that outlive it are waited
    for."""
    prefix.mkdir(parents=True, exist_ok=True)
    (prefix / _JOURNAL).touch()
    with locked(prefix / _TURN, waiting) as turn:
        yield turn
