"""Where the data that ships with envbuilder lies: in the wheel, or at the top of a checkout."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

MATRICES_VARIABLE = "ENVBUILDER_MATRICES"


@lru_cache(maxsize=1)
def _data_root() -> Path:
    package = Path(__file__).resolve().parent
    packaged = package / "_data"
    return packaged if packaged.is_dir() else package.parent


def matrices() -> Path:
    """The built-in matrices."""
    return _data_root() / "matrices"


def templates() -> Path:
    """The templates of every renderer."""
    return _data_root() / "templates"
