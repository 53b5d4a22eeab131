"""Rewrites the layers of an image, so that the same files give the same bytes, whichever engine has built them.

Engines differ in the order of files, in the folders that they list, and in how they mark what a layer removes; builds
differ in times, byte code and logs.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import IO, NamedTuple

from envbuilder.docker.contents import ALL_HIDDEN, HIDDEN, path_of

# 1980-01-01, the earliest time that a zip file can have
TIME = 315532800
# files that differ in every build: logs, caches of installers, and the lock files of uv, whose names are random
_TRACES = (
    "var/log/*", "var/cache/ldconfig/aux-cache", "var/cache/debconf/*-old", "var/lib/dpkg/*-old", "tmp/uv-*.lock",
)  # fmt: skip
_BYTE_CODE = "__pycache__"
_ATTRIBUTE = "SCHILY.xattr."


class _Kind(NamedTuple):
    """The properties of a path by which a folder is the same in two layers."""

    is_folder: bool
    mode: int
    owner: tuple[int, int]
    attributes: tuple[tuple[str, str], ...]


class _Entries(NamedTuple):
    """The entries of a layer by path, the paths that it hides, and the folders that it empties first."""

    entries: dict[str, tarfile.TarInfo]
    hidden: set[str]
    emptied: set[str]


class LayerWriter:
    """Writes the layers of one image, the lowest first."""

    def __init__(self) -> None:
        # the files of all layers so far, by path
        self._files: dict[str, _Kind] = {}

    def write(self, layer: IO[bytes], target: IO[bytes]) -> None:
        """Write a layer, which is read from a seekable file."""
        with (
            tarfile.open(fileobj=layer, mode="r:") as source,
            tarfile.open(fileobj=target, mode="w|", format=tarfile.PAX_FORMAT) as made,
        ):
            found, before = _read(source), self._files
            self._files = {**_kept(before, found), **{path: _kind(entry) for path, entry in found.entries.items()}}
            files = _names(found.entries)
            marks = {mark: tarfile.TarInfo(mark) for mark in _marks(before, self._files)}
            for path, entry in sorted({**found.entries, **marks}.items()):
                # some engines list the folder of each file, others only a folder that has changed
                if not (entry.isdir() and before.get(path) == _kind(entry)):
                    _copy(source, made, path, files.get(path, entry))


def _read(source: tarfile.TarFile) -> _Entries:
    found = _Entries({}, set(), set())
    for entry in source:
        path = path_of(entry.name)
        folder, _, name = path.rpartition("/")
        if name == ALL_HIDDEN:
            found.emptied.add(folder)
        elif name.startswith(HIDDEN):
            found.hidden.add(_joined(folder, name[len(HIDDEN) :]))
        elif path and not _is_trace(path, entry):
            found.entries[path] = entry
    return found


def _kept(before: Mapping[str, _Kind], layer: _Entries) -> dict[str, _Kind]:
    """Return the paths of the lower layers that this layer keeps."""
    # a file in place of a folder removes what was in it
    covered = {
        path for path, entry in layer.entries.items() if not entry.isdir() and path in before and before[path].is_folder
    }
    removed = layer.hidden | layer.emptied | covered
    if not removed:
        return dict(before)
    return {
        path: kind
        for path, kind in before.items()
        if path not in layer.hidden and removed.isdisjoint(_parents(path))
    }  # fmt: skip


def _marks(before: Mapping[str, _Kind], after: Mapping[str, _Kind]) -> Iterator[str]:
    """Yield the marks of removed files; the mark of a folder removes everything in it."""
    for path in before.keys() - after.keys():
        folder, _, name = path.rpartition("/")
        above = after.get(folder)
        if not folder or (above is not None and above.is_folder):
            yield _joined(folder, f"{HIDDEN}{name}")


def _names(entries: Mapping[str, tarfile.TarInfo]) -> dict[str, tarfile.TarInfo]:
    """Return the entries of files with several names: the first name in order has the content, the others are links.

    Engines give the content to the name that they read first.
    """
    links: dict[str, list[str]] = {}
    for path, entry in entries.items():
        if entry.islnk():
            links.setdefault(path_of(entry.linkname), []).append(path)
    found: dict[str, tarfile.TarInfo] = {}
    for holder, others in links.items():
        if holder not in entries:
            continue
        first, *rest = sorted((holder, *others))
        content = found[first] = entries[holder]
        for path in rest:
            link = found[path] = tarfile.TarInfo(path)
            link.type, link.linkname = tarfile.LNKTYPE, first
            link.mode, link.uid, link.gid = content.mode, content.uid, content.gid
    return found


def _copy(source: tarfile.TarFile, target: tarfile.TarFile, path: str, entry: tarfile.TarInfo) -> None:
    made = tarfile.TarInfo(path)
    made.type = tarfile.REGTYPE if entry.isreg() else entry.type
    made.mode, made.uid, made.gid, made.mtime = entry.mode & 0o7777, entry.uid, entry.gid, TIME
    made.linkname, made.devmajor, made.devminor = entry.linkname, entry.devmajor, entry.devminor
    made.pax_headers = dict(_attributes(entry))
    if not entry.isreg():
        target.addfile(made)
        return
    made.linkname, made.size = "", entry.size
    # a mark has no content, and does not come from the source
    target.addfile(made, source.extractfile(entry) if entry.size else None)


def _kind(entry: tarfile.TarInfo) -> _Kind:
    return _Kind(entry.isdir(), entry.mode & 0o7777, (entry.uid, entry.gid), _attributes(entry))


def _attributes(entry: tarfile.TarInfo) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(item for item in entry.pax_headers.items() if item[0].startswith(_ATTRIBUTE)))


def _is_trace(path: str, entry: tarfile.TarInfo) -> bool:
    if _BYTE_CODE in path.split("/"):
        return True
    return not entry.isdir() and any(fnmatchcase(path, pattern) for pattern in _TRACES)


def _parents(path: str) -> Iterator[str]:
    while path:
        path = path.rpartition("/")[0]
        yield path


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}".lstrip("/")
