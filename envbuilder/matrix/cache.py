"""Caches the decoded built-in matrices between runs, as Python does with compiled modules.

The key is the version of envbuilder, the fields of the records, and the size and time of every file, so an edit takes
effect immediately. The cache is JSON, which runs no code, and only a file of this user that no other user can write
is read. Without a usable cache (no home, no space, a damaged file) the files are decoded.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from envbuilder import __version__, paths
from envbuilder.errors import Where
from envbuilder.matrix.matrix import Matrix, Rows
from envbuilder.matrix.record import Record
from envbuilder.matrix.sources import File, Locks

# the kind of a value that is no mapping; no key of the matrices has this character
_KIND, _VALUES = "\x7f", "v"
_TUPLE, _WHERE = "tuple", "Where"


def remembered(files: Mapping[str, File], locks: Locks) -> Matrix:
    """Return the matrix of these files, decoded now or in an earlier run."""
    path, key = _path(), _key(files)
    rows = _read(path, key) if path else None
    if rows is None:
        from envbuilder.matrix.decode import decode_rows

        rows = decode_rows(files)
        if path:
            _write(path, key, rows)
    return Matrix(**rows.__dict__, files=files, locks=locks)


def _path() -> Path | None:
    folder = paths.cache_folder()
    return folder / "matrix.json" if folder.is_absolute() else None


def _key(files: Mapping[str, File]) -> list[object]:
    stats = ((file.path, file.path.stat()) for file in files.values())
    kinds = {kind.__name__: list(kind.record_types) for kind in _kinds(Record)}
    return [__version__, kinds, *([str(path), stat.st_size, stat.st_mtime_ns] for path, stat in stats)]


def _kinds(kind: type[Record]) -> Iterator[type[Record]]:
    for each in kind.__subclasses__():
        yield each
        yield from _kinds(each)


def _read(path: Path, key: list[object]) -> Rows | None:
    kinds = {kind.__name__: kind for kind in _kinds(Record)}

    def value(found: dict[str, Any]) -> Any:
        kind = found.pop(_KIND, None)
        if kind is None:
            return found
        if kind in {_TUPLE, _WHERE}:
            return tuple(found[_VALUES]) if kind == _TUPLE else Where(*found[_VALUES])
        # as pickle does: the values were checked when they were decoded
        record = object.__new__(kinds[kind])
        record.__dict__.update(found)
        return record

    try:
        stored_key, rows = json.loads(_own(path), object_hook=value)
    except Exception:  # of a damaged file: no JSON, or other values than those that _write has written
        return None
    return rows if stored_key == key and isinstance(rows, Rows) else None


def _own(path: Path) -> bytes:
    """Return the content of a file that belongs to this user, and that no other user can write (OSError)."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb") as file:
        found = os.fstat(file.fileno())
        is_own = found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if not (is_own and stat.S_ISREG(found.st_mode)):
            raise PermissionError(path)
        return file.read()


def _write(path: Path, key: list[object], rows: Rows) -> None:
    from envbuilder.files import write_bytes

    text = json.dumps([key, _plain(rows)], ensure_ascii=False, separators=(",", ":"))
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_bytes(path, text.encode(), mode=0o600)


def _plain(value: Any) -> Any:
    """Return a value of the matrices as JSON has it."""
    if isinstance(value, Record):
        return {_KIND: type(value).__name__, **{name: _plain(item) for name, item in value.__dict__.items()}}
    if isinstance(value, tuple):
        return {_KIND: _WHERE if isinstance(value, Where) else _TUPLE, _VALUES: [_plain(item) for item in value]}
    return {name: _plain(item) for name, item in value.items()} if isinstance(value, Mapping) else value
