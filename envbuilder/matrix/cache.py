"""Caches the decoded built-in matrices between runs, as Python does with compiled modules.

The key is the version of envbuilder and of Python and the size and time of every file, so an edit takes
effect immediately. Without a usable cache (no home, no space, a damaged file) the files are decoded.
"""

from __future__ import annotations

import contextlib
import pickle
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from envbuilder import __version__, paths
from envbuilder.matrix.matrix import Matrix
from envbuilder.matrix.sources import File, Locks

Key: TypeAlias = tuple[object, ...]


def remembered(files: Mapping[str, File], locks: Locks) -> Matrix:
    """Return the matrix of these files, decoded now or in an earlier run."""
    path, key = _path(), _key(files)
    matrix = _read(path, key) if path else None
    if matrix is None:
        from envbuilder.matrix.decode import decode_rows

        matrix = Matrix(**decode_rows(files).__dict__, files=files, locks=locks)
        if path:
            _write(path, key, matrix)
    return matrix


def _path() -> Path | None:
    folder = paths.cache_folder()
    return folder / "matrix.pickle" if folder.is_absolute() else None


def _key(files: Mapping[str, File]) -> Key:
    stats = ((file.path, file.path.stat()) for file in files.values())
    return (__version__, sys.version, *((str(path), stat.st_size, stat.st_mtime_ns) for path, stat in stats))


def _read(path: Path, key: Key) -> Matrix | None:
    try:
        # _write wrote it for this user only, as Python does with .pyc files
        stored_key, matrix = pickle.loads(path.read_bytes())  # noqa: S301
    except Exception:  # pickle raises nearly any exception on a damaged file
        return None
    return matrix if stored_key == key and isinstance(matrix, Matrix) else None


def _write(path: Path, key: Key, matrix: Matrix) -> None:
    from envbuilder.files import write_bytes

    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_bytes(path, pickle.dumps((key, matrix), protocol=pickle.HIGHEST_PROTOCOL))
