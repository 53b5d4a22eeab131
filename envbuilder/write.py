"""Files are written whole or not at all, and not touched where nothing changes."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_JUST_NOW = 60


def write_text(path: Path, text: str) -> bool:
    """Whether the file had to be written."""
    return write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> bool:
    if path.exists() and not path.is_file():
        # a device or a pipe is written to, and stays what it is
        path.write_bytes(content)
        return True
    if path.is_file() and path.read_bytes() == content:
        return False
    with replacing(path) as unfinished:
        unfinished.write_bytes(content)
    return True


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file beside it, which takes its place at the end unless something fails. Links and permissions stay."""
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    _clear(path)
    unfinished = path.with_name(f".{path.name}.{os.urandom(4).hex()}~")
    with unfinished.open("xb") as file:
        # while its owner lives, where the file system can
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield unfinished
            if path.exists():
                unfinished.chmod(path.stat().st_mode & 0o777)
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)


def _clear(path: Path) -> None:
    """What those left who were killed; what was made just now may not be locked yet."""
    begun = [item for item in path.parent.iterdir() if item.name.startswith(f".{path.name}.") and item.name[-1] == "~"]
    for left in begun:
        with suppress(OSError), left.open("rb") as file:
            if time.time() - left.stat().st_mtime > _JUST_NOW:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                left.unlink()
