"""Compares two images of the engine by their layers and by their files."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from envbuilder.docker.engine import Docker
from envbuilder.docker.saved import saved
from envbuilder.files import digest_of_file

# the prefix of a file that hides the one without it in lower layers, and the name of one that hides a whole folder
HIDDEN, ALL_HIDDEN = ".wh.", ".wh..wh..opq"


class Entry(NamedTuple):
    """The properties of a path of an image; `content` is the digest of a file, or the target of a link."""

    kind: str
    mode: int
    owner: tuple[int, int]
    size: int
    content: str
    time: int

    @property
    def without_time(self) -> Entry:
        return self._replace(time=0)


class Contents(NamedTuple):
    """The digests of an image's layers, the paths that each of them writes or hides, and the image's files by path."""

    layers: list[str]
    written: list[dict[str, Entry]]
    files: dict[str, Entry]


class Difference(NamedTuple):
    """A path that differs: in content, owner or mode, only in its time, only in one image, or only in a layer."""

    path: str
    how: str
    size: int


class ImageDifferences(NamedTuple):
    """The differences of two images; a layer is equal if all of its bytes are."""

    layers: tuple[int, int]
    equal_layers: int
    files: tuple[int, int]
    differences: tuple[Difference, ...]

    def of(self, how: str) -> list[Difference]:
        return [item for item in self.differences if item.how == how]


CONTENT, TIME, FIRST, SECOND, COVERED = "content", "time", "only in A", "only in B", "covered"


def compare_images(docker: Docker, first: str, second: str) -> ImageDifferences:
    """Compare two images of the engine."""
    return compare_contents(contents_of(docker, first), contents_of(docker, second))


def compare_contents(one: Contents, two: Contents) -> ImageDifferences:
    equal = sum(ours == theirs for ours, theirs in zip(one.layers, two.layers, strict=False))
    found = {item.path: item for item in _differences(one.files, two.files)}
    if len(one.layers) == len(two.layers):
        found = {**_covered(one, two), **found}
    ordered = tuple(sorted(found.values(), key=lambda item: (-item.size, item.path)))
    return ImageDifferences((len(one.layers), len(two.layers)), equal, (len(one.files), len(two.files)), ordered)


def _covered(one: Contents, two: Contents) -> dict[str, Difference]:
    """Return the differences of layers; a later layer may cover one, so that the files of the image are equal."""
    return {
        item.path: item._replace(how=COVERED)
        for ours, theirs in zip(one.written, two.written, strict=True)
        for item in _differences(ours, theirs)
    }


def contents_of(docker: Docker, name: str) -> Contents:
    written: list[dict[str, Entry]] = []
    files: dict[str, Entry] = {}
    with saved(docker, name) as image:
        for layer in image.layers():
            with tarfile.open(fileobj=layer) as tar:
                written.append(_lay(tar, files))
        return Contents(image.layer_digests, written, files)


def path_of(name: str) -> str:
    """Return the path of a name in a layer; engines write names with and without `./` and a slash at the end."""
    return name.removeprefix("./").strip("/")


def _lay(tar: tarfile.TarFile, files: dict[str, Entry]) -> dict[str, Entry]:
    """Apply a layer to the files of those below it, and return the entries that it writes or hides."""
    written: dict[str, Entry] = {}
    for item in tar:
        path, entry = path_of(item.name), _entry(tar, item, files)
        folder, _, base = path.rpartition("/")
        if base == ALL_HIDDEN:
            _remove(files, f"{folder}/")
        elif base.startswith(HIDDEN):
            hidden = f"{folder}/{base[len(HIDDEN) :]}".lstrip("/")
            files.pop(hidden, None)
            _remove(files, f"{hidden}/")
        elif path:
            files[path] = entry
        written[path] = entry
    return written


def _remove(files: dict[str, Entry], prefix: str) -> None:
    for path in [path for path in files if path.startswith(prefix)]:
        del files[path]


def _entry(tar: tarfile.TarFile, item: tarfile.TarInfo, files: Mapping[str, Entry]) -> Entry:
    owner, time = (item.uid, item.gid), int(item.mtime)
    if item.islnk():
        target = files.get(path_of(item.linkname))
        if target is not None:
            return target
    content = tar.extractfile(item) if item.isfile() else None
    if content is not None:
        return Entry("file", item.mode, owner, item.size, digest_of_file(content), time)
    kind = "folder" if item.isdir() else "link" if item.issym() else f"type {item.type!r}"
    return Entry(kind, item.mode, owner, 0, item.linkname, time)


def _differences(one: Mapping[str, Entry], two: Mapping[str, Entry]) -> Iterator[Difference]:
    for path, ours in one.items():
        theirs = two.get(path)
        if theirs is None:
            yield Difference(path, FIRST, ours.size)
        elif ours.without_time != theirs.without_time:
            yield Difference(path, CONTENT, max(ours.size, theirs.size))
        elif ours.time != theirs.time:
            yield Difference(path, TIME, ours.size)
    yield from (Difference(path, SECOND, item.size) for path, item in two.items() if path not in one)


def document_of(found: ImageDifferences) -> dict[str, Any]:
    return {**found._asdict(), "differences": [item._asdict() for item in found.differences]}
