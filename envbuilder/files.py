"""Files: atomic writes, temporary folders, locks between processes, digests, archives."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import IO, Any

from envbuilder.paths import state_folder

# an unfinished file this young may not be locked yet
_YOUNG_SECONDS = 60


# --- writing ---------------------------------------------------------------------------------------------


def write_text(path: Path, text: str) -> bool:
    """Write a file atomically, and return whether its content changed."""
    return write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> bool:
    if path.exists() and not path.is_file():
        # a device or a pipe is written in place, as replacing would destroy it
        path.write_bytes(content)
        return True
    if path.is_file() and path.read_bytes() == content:
        return False
    with replacing(path) as unfinished:
        unfinished.write_bytes(content)
    return True


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary file that replaces `path` when the block succeeds. Links and permissions are kept."""
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_unfinished(path)
    unfinished = path.with_name(f".{path.name}.{os.urandom(4).hex()}~")
    with unfinished.open("xb") as file:
        # without locks, as on some file systems, nothing is cleaned up either
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield unfinished
            if path.exists():
                unfinished.chmod(path.stat().st_mode & 0o777)
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)


def _remove_unfinished(path: Path) -> None:
    """Delete the temporary files of writers that were killed, which are no longer locked."""
    for item in list(path.parent.iterdir()):
        if not (item.name.startswith(f".{path.name}.") and item.name.endswith("~")):
            continue
        with suppress(OSError), item.open("rb") as file:
            if abs(time.time() - item.stat().st_mtime) > _YOUNG_SECONDS:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                item.unlink()


# --- locks between processes -----------------------------------------------------------------------------


@contextmanager
def locked(path: Path, waiting: Callable[[], None] | None = None) -> Iterator[int]:
    """Hold the lock of a file or folder; yield its descriptor, which a child process may inherit to hold it too.

    `waiting` is called once when another process holds the lock; without it the lock must be free (BlockingIOError).
    The lock is released when its owner exits, even if it is killed.
    """
    mode = os.O_RDONLY | os.O_DIRECTORY if path.is_dir() else os.O_RDWR | os.O_CREAT
    handle = os.open(path, mode, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting is None:
                raise
            waiting()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


@contextmanager
def turn(name: str, waiting: Callable[[], None]) -> Iterator[None]:
    """Let one process of this user at a time run the block of this name."""
    path = state_folder() / "turns" / hashlib.sha256(name.encode()).hexdigest()[:16]
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path, waiting):
        yield


# --- temporary folders -----------------------------------------------------------------------------------


def workspace() -> AbstractContextManager[Path]:
    """Return a temporary folder for one build."""
    return own_folder(Path(tempfile.gettempdir()), "envbuilder-build-")


@contextmanager
def own_folder(place: Path, prefix: str) -> Iterator[Path]:
    """Yield a new folder that is locked while its owner runs, and delete the folders of owners that have exited."""
    with ExitStack() as stack:
        # one process at a time, so that none deletes a folder between its creation and its lock
        with turn("workspaces", lambda: None):
            _remove_abandoned(place, prefix)
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=prefix, dir=place)))
            # NFS cannot lock folders; nothing is cleaned up on it either
            with suppress(OSError):
                stack.enter_context(locked(folder))
        yield folder


def _remove_abandoned(place: Path, prefix: str) -> None:
    for folder in place.glob(f"{prefix}*"):
        try:
            with locked(folder):
                shutil.rmtree(folder)
        except OSError:
            continue  # its owner still runs, or it belongs to another user


# --- digests and archives --------------------------------------------------------------------------------


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def digest_of_document(document: Mapping[str, Any]) -> str:
    return digest_of(json.dumps(document, sort_keys=True).encode())


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def digest_of_file(file: IO[bytes]) -> str:
    """Return the digest of the rest of an open file."""
    digest = hashlib.sha256()
    while part := file.read(2**20):
        digest.update(part)
    return f"sha256:{digest.hexdigest()}"


def add_file(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    add_stream(tar, name, BytesIO(content))


def add_stream(tar: tarfile.TarFile, name: str, file: IO[bytes]) -> None:
    """Add an open file from its beginning."""
    entry = tarfile.TarInfo(name)
    entry.size = file.seek(0, os.SEEK_END)
    file.seek(0)
    tar.addfile(entry, file)
