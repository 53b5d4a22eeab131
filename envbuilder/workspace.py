"""What builds on one machine share: a temporary folder each, and turns at an engine."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from envbuilder.resources import state_folder

_PREFIX = "envbuilder-build-"


@contextmanager
def workspace() -> Iterator[Path]:
    """A folder of our own. It is locked while we live, so that what is not locked was left behind."""
    with ExitStack() as stack:
        # one at a time, so that nobody clears a folder between its making and its locking
        with turn("workspaces", lambda: None):
            _clear()
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=_PREFIX)))
            stack.enter_context(_locked(folder))
        yield folder


@contextmanager
def turn(name: str, waiting: Callable[[], None]) -> Iterator[None]:
    """One at a time under this name; who has to wait is told so. A turn ends with its owner, however that ends."""
    place = state_folder() / "turns" / hashlib.sha256(name.encode()).hexdigest()[:16]
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """The folder itself, as a file in it would not be there yet when its owner is killed right after making it."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def _clear() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            with _locked(folder):
                shutil.rmtree(folder)
        except OSError:
            continue  # somebody's who is alive, or another user's
