"""What builds on one machine share: folders of their own that do not stay behind, and turns at an engine."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

from envbuilder.resources import state_folder

_PREFIX = "envbuilder-build-"


def workspace() -> AbstractContextManager[Path]:
    return own_folder(Path(tempfile.gettempdir()), _PREFIX)


@contextmanager
def own_folder(place: Path, prefix: str) -> Iterator[Path]:
    """A folder of our own. It is locked while we live, so that what is not locked was left behind."""
    with ExitStack() as stack:
        # one at a time, so that nobody clears a folder between its making and its locking
        with turn("workspaces", lambda: None):
            _clear(place, prefix)
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=prefix, dir=place)))
            # where a file system has no locks, as NFS for folders, nobody clears either
            with suppress(OSError):
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


def _clear(place: Path, prefix: str) -> None:
    for folder in place.glob(f"{prefix}*"):
        try:
            with _locked(folder):
                shutil.rmtree(folder)
        except OSError:
            continue  # somebody's who is alive, or another user's
