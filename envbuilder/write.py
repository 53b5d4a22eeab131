"""Files are written whole or not at all, and not touched where nothing changes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write_text(path: Path, text: str) -> bool:
    """Whether the file had to be written."""
    return write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> bool:
    if path.is_file() and path.read_bytes() == content:
        return False
    with replacing(path) as unfinished:
        unfinished.write_bytes(content)
    return True


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file beside it, which takes its place at the end unless something fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    unfinished = Path(name)
    try:
        yield unfinished
        unfinished.chmod(0o644)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
