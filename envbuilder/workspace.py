"""A temporary folder that goes away even where its owner was killed: the next one clears it."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX = "envbuilder-build-"


@contextmanager
def workspace() -> Iterator[Path]:
    """A folder of our own. It is locked while we live, so that what is not locked was left behind."""
    _clear()
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as name, (Path(name) / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield Path(name)


def _clear() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            with (folder / "lock").open("r") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
        except OSError:
            continue  # somebody's who is alive, or another user's
