"""Files: atomic writes, temporary folders, locks between processes, digests, archives."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import stat
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import IO, Any

from envbuilder.errors import EnvbuilderError
from envbuilder.language import tr
from envbuilder.paths import state_folder

# an unfinished file this young may not be locked yet
_YOUNG_SECONDS = 60
# for a file that must not exist, not even as a link
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL


# --- writing ---------------------------------------------------------------------------------------------


def write_text(path: Path, text: str, *, mode: int | None = None) -> bool:
    """Write a file atomically, and return whether its content changed."""
    return write_bytes(path, text.encode(), mode=mode)


def write_bytes(path: Path, content: bytes, *, mode: int | None = None) -> bool:
    _refuse_planted_links(path)
    if path.exists() and not path.is_file():
        # a device or a pipe is written in place, as replacing would destroy it
        path.write_bytes(content)
        return True
    if path.is_file() and path.read_bytes() == content and mode in {None, path.stat().st_mode & 0o777}:
        return False
    with replacing(path, mode=mode) as unfinished:
        unfinished.write_bytes(content)
    return True


@contextmanager
def replacing(path: Path, *, mode: int | None = None) -> Iterator[Path]:
    """Yield a temporary file that replaces `path` when the block succeeds.

    Links are kept, and so are permissions if no `mode` is given.
    """
    _refuse_planted_links(path)
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_unfinished(path)
    unfinished = path.with_name(f".{path.name}.{os.urandom(4).hex()}~")
    with os.fdopen(os.open(unfinished, _NEW, 0o666 if mode is None else mode), "wb") as file:
        # without locks, as on some file systems, nothing is cleaned up either
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield unfinished
            if mode is None and path.exists():
                unfinished.chmod(path.stat().st_mode & 0o777)
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)


def write_new(path: Path, content: bytes, mode: int) -> None:
    """Write a whole new file, or none; an existing file is an error, and no link is followed."""
    unfinished = path.with_name(f".{path.name}.{os.urandom(4).hex()}~")
    with os.fdopen(os.open(unfinished, _NEW, mode), "wb") as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            # unlike a rename, a link never replaces a file
            os.link(unfinished, path)
        finally:
            unfinished.unlink()


def _refuse_planted_links(path: Path) -> None:
    """Refuse a link of another user in a folder that everybody can write: it may lead to any file of this user."""
    for place in (path.absolute(), *path.absolute().parents):
        is_foreign = place.is_symlink() and place.lstat().st_uid not in {0, os.geteuid()}
        if is_foreign and place.parent.stat().st_mode & stat.S_IWOTH:
            raise EnvbuilderError(
                tr("{file} is a link that another user has made, in a folder that everybody can write", file=place),
                hint=tr("delete the link, or write into a folder of your own"),
            )


def _remove_unfinished(path: Path) -> None:
    """Delete the temporary files of writers that were killed, which are no longer locked."""
    for item in list(path.parent.iterdir()):
        if not (item.name.startswith(f".{path.name}.") and item.name.endswith("~")):
            continue
        with suppress(OSError), item.open("rb") as file:
            if abs(time.time() - item.stat().st_mtime) > _YOUNG_SECONDS:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                item.unlink()


# --- reading ---------------------------------------------------------------------------------------------


def parse_toml(text: str) -> dict[str, Any]:
    """Return a document of TOML; raise ValueError with the reason if it is none."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib  # the same module for Python 3.10

    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError(tr("it is nested too deeply")) from None


def read_regular(path: Path, limit: int) -> bytes:
    """Return the content of a regular file: a pipe would block, and a device may never end (OSError)."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(0, tr("this is not a file"))
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(0, tr("it has more than {size} MB", size=limit // 10**6))
    return content


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


@contextmanager
def changing(folder: Path) -> Iterator[None]:
    """Let one process at a time read, change and write files of a folder, whoever runs it."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        stack.enter_context(turn(f"files of {folder.resolve()}", lambda: None))
        # of other users, and of processes with another folder for their state; NFS cannot lock folders
        with suppress(OSError):
            stack.enter_context(locked(folder, lambda: None))
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


# --- archives that others wrote --------------------------------------------------------------------------

# the longest name that a header may announce is far shorter
_MOST_AT_ONCE = 2**24


class _InParts:
    """A file that is read in parts: the length that a header of an archive announces can be any."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int) -> bytes:
        if not 0 <= size <= _MOST_AT_ONCE:
            raise tarfile.ReadError(tr("a header announces {size} bytes", size=size))
        return self._file.read(size)


def open_foreign_tar(file: IO[bytes]) -> tarfile.TarFile:
    """Open an uncompressed archive that may have been made to exhaust the reader."""
    parts: Any = _InParts(file)
    return tarfile.open(fileobj=parts, mode="r:")


def plain_members(tar: tarfile.TarFile, most: int) -> Iterator[tarfile.TarInfo]:
    """Yield files, folders and links, each with all of its bytes in the archive; ReadError at anything else."""
    for number, member in enumerate(tar, 1):
        if number > most:
            raise tarfile.ReadError(tr("it has more than {most} files", most=most))
        is_plain = member.isreg() or member.isdir() or member.issym()
        if not is_plain or member.issparse() or member.size < 0 or (member.size and not member.isreg()):
            raise tarfile.ReadError(tr("{name} is not a plain file", name=member.name))
        yield member
