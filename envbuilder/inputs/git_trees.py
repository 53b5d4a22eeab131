"""Proves that an archive has the files of a commit.

git identifies a file, a folder and a commit by the SHA-1 of its content, and a commit contains the hash of its folder.
With the text of the commit, the files of an archive therefore have to give the hash of the commit, which the matrices
have in full.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import hashlib
import re
import tarfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple, TypeAlias

from envbuilder.errors import EnvbuilderError
from envbuilder.files import open_foreign_tar, plain_members
from envbuilder.language import tr

# the folder of the repository itself
ROOT = "."
_TREE = re.compile(rb"tree ([0-9a-f]{40})\n")
# ten times what the largest source tree has
_MOST_FILES, _MOST_BYTES = 100_000, 8 * 2**30
_LINK, _FILE, _PROGRAM, _FOLDER, _SUBMODULE = b"120000", b"100644", b"100755", b"40000", b"160000"
_UNREADABLE = (tarfile.TarError, OSError, EOFError, ValueError, LookupError, RecursionError)


class UnprovenError(EnvbuilderError):
    """An archive does not have the files of its commit."""


class Commits(NamedTuple):
    """The texts of a commit and of those of its submodules, by folder; of submodules that are left out, the hashes."""

    texts: Mapping[str, bytes]
    left_out: Mapping[str, str]

    def as_data(self) -> dict[str, Any]:
        texts = {path: base64.b64encode(text).decode() for path, text in self.texts.items()}
        return {"texts": texts, "left_out": dict(self.left_out)}

    @classmethod
    def of(cls, data: Any) -> Commits:
        """Return the commits in a document; ValueError if it has another form."""
        try:
            texts = {str(path): base64.b64decode(text, validate=True) for path, text in data["texts"].items()}
            return cls(texts, {str(path): str(found) for path, found in data["left_out"].items()})
        except (LookupError, TypeError, AttributeError, binascii.Error) as error:
            raise ValueError(str(error)) from error


class _Leaf(NamedTuple):
    """An entry of a folder in git that has no entries in this repository: a file, a link or a submodule."""

    mode: bytes
    hash: bytes


_Entries: TypeAlias = "dict[bytes, _Leaf | _Entries]"


def prove(archive: Path, commit: str, commits: Commits, unread: Collection[str], copy: Path | None = None) -> None:
    """Refuse an archive that does not have the files of a commit; only submodules that are `unread` may be left out.

    `copy` is written from the files that were compared, because programs can read one archive in different ways.
    """
    try:
        leaves = _leaves(archive, commits, copy)
        found = _commit(_entries(leaves, commits), ROOT, commits)
    except _UNREADABLE as error:
        raise _unproven(archive, commit) from error
    if found.hex() != commit or not set(commits.left_out) <= set(unread):
        raise _unproven(archive, commit)


def _unproven(archive: Path, commit: str) -> UnprovenError:
    return UnprovenError(
        tr("{archive} does not have the files of the commit {commit}", archive=archive.name, commit=commit),
        hint=tr("nothing of it was used"),
    )


def _leaves(archive: Path, commits: Commits, copy: Path | None) -> dict[str, _Leaf]:
    """Return the files and links of an archive by path, and copy them."""
    leaves: dict[str, _Leaf] = {}
    folders: set[str] = set()
    total = 0
    packed: Any
    with gzip.open(archive) as packed, open_foreign_tar(packed) as tar, _writing(copy) as write:
        for member in plain_members(tar, _MOST_FILES):
            path = PurePosixPath(member.name)
            total += member.size
            if str(path) != member.name or path.is_absolute() or ".." in path.parts or total > _MOST_BYTES:
                raise ValueError(member.name)
            if member.isdir():
                folders.add(member.name)
                continue
            if member.name in leaves:
                raise ValueError(member.name)
            leaves[member.name] = _leaf(tar, member, write)
    inside = (*leaves, *(f"{path}/" for path in commits.left_out))
    if other := folders - {path[:at] for path in inside for at, sign in enumerate(path) if sign == "/"}:
        raise ValueError(min(other))
    return leaves


_Write: TypeAlias = Callable[[tarfile.TarInfo, "IO[bytes] | None"], None]


@contextmanager
def _writing(copy: Path | None) -> Iterator[_Write]:
    """Yield a function that adds a file to a new archive, or only reads it."""
    if copy is None:
        yield lambda _, content: _exhaust(content)
        return
    # equal files give equal bytes
    with (
        copy.open("wb") as raw,
        gzip.GzipFile("", "wb", 1, raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        yield tar.addfile


def _exhaust(content: IO[bytes] | None) -> None:
    while content is not None and content.read(2**20):
        pass


def _leaf(tar: tarfile.TarFile, member: tarfile.TarInfo, write: _Write) -> _Leaf:
    new = tarfile.TarInfo(member.name)
    new.mtime = min(max(int(member.mtime), 0), 2**32)
    if member.issym():
        new.type, new.linkname = tarfile.SYMTYPE, member.linkname
        write(new, None)
        return _Leaf(_LINK, _object(b"blob", _bytes(member.linkname)))
    is_program = bool(member.mode & 0o100)
    new.size, new.mode = member.size, 0o775 if is_program else 0o664
    content: Any = _GitHashed(tar.extractfile(member), member.size)
    write(new, content)
    return _Leaf(_PROGRAM if is_program else _FILE, content.hash)


class _GitHashed:
    """A file that git's hash is made of while it is read."""

    def __init__(self, content: IO[bytes] | None, size: int) -> None:
        assert content is not None  # noqa: S101  it is a file
        self._content = content
        self._sha1 = _sha1(b"blob %d\0" % size)

    def read(self, size: int) -> bytes:
        part = self._content.read(size)
        self._sha1.update(part)
        return part

    @property
    def hash(self) -> bytes:
        return self._sha1.digest()


def _entries(leaves: Mapping[str, _Leaf], commits: Commits) -> _Entries:
    """Return the folders of files by path; a submodule that is left out is an entry without files."""
    left_out = {path: _Leaf(_SUBMODULE, bytes.fromhex(found)) for path, found in commits.left_out.items()}
    root: _Entries = {}
    for path, leaf in (*leaves.items(), *left_out.items()):
        *parents, name = _bytes(path).split(b"/")
        folder = root
        for parent in parents:
            found = folder.setdefault(parent, {})
            if isinstance(found, _Leaf):
                raise ValueError(path)
            folder = found
        if name in folder:
            raise ValueError(path)
        folder[name] = leaf
    return root


def _commit(folder: _Entries, path: str, commits: Commits) -> bytes:
    """Return the hash of the commit of a folder, whose text must be of this folder."""
    text = commits.texts[path]
    tree = _TREE.match(text)
    if tree is None or bytes.fromhex(tree[1].decode()) != _tree(folder, path, commits):
        raise ValueError(path)
    return _object(b"commit", text)


def _tree(folder: _Entries, path: str, commits: Commits) -> bytes:
    found: dict[bytes, _Leaf] = {}
    for name, item in folder.items():
        if isinstance(item, _Leaf):
            found[name] = item
            continue
        text = name.decode(errors="surrogateescape")
        place = text if path == ROOT else f"{path}/{text}"
        is_module = place in commits.texts
        own = (_commit if is_module else _tree)(item, place, commits)
        found[name] = _Leaf(_SUBMODULE if is_module else _FOLDER, own)
    # git sorts a folder as if its name ended with a slash
    names = sorted(found, key=lambda name: name + b"/" if found[name].mode == _FOLDER else name)
    return _object(b"tree", b"".join(b"%b %b\0%b" % (found[name].mode, name, found[name].hash) for name in names))


def _object(kind: bytes, content: bytes) -> bytes:
    return _sha1(b"%b %d\0%b" % (kind, len(content), content)).digest()


def _sha1(content: bytes) -> hashlib._Hash:
    return hashlib.sha1(content, usedforsecurity=False)


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")
