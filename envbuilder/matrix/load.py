"""Loads the built-in matrices or those of a folder."""

from __future__ import annotations

from pathlib import Path

from envbuilder.matrix.matrix import Matrix
from envbuilder.matrix.sources import find_files, find_locks


def load(directory: Path | None = None, *, everything: bool = False) -> Matrix:
    """Return the matrix of a folder, by default the built-in one.

    With `everything` the compat tables, smoke runs, recipes and symptoms are decoded too, so that all problems are
    reported together.
    """
    files = find_files(directory)
    locks = find_locks(directory, files)
    if directory is None and not everything:
        # decoding YAML would take most of the time of `list`
        from envbuilder.matrix.cache import remembered

        return remembered(files, locks)
    from envbuilder.matrix.decode import decode_everything, decode_rows

    rows, more = decode_everything(files) if everything else (decode_rows(files), {})
    matrix = Matrix(**rows.__dict__, files=files, locks=locks)
    matrix.__dict__.update(more)
    return matrix
