"""Saves an image in one file, for sites without a network: an OCI layout that docker can load as well.

The blobs are those of the registry, byte for byte, so that the image in the file has the digest of the published one.
The signatures of the image are in the file, too.
"""

from __future__ import annotations

import base64
import json
import os
import re
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

from envbuilder.errors import EnvbuilderError
from envbuilder.files import add_file, add_stream, digest_of_file, replacing, write_text
from envbuilder.language import tr
from envbuilder.progress import Progress, bar
from envbuilder.registry.client import MANIFEST_TYPES, Registry
from envbuilder.registry.published import Published
from envbuilder.registry.reference import Reference
from envbuilder.registry.signatures import LONGEST_PAYLOAD, Signature, judge, signed_lines, stored_signatures
from envbuilder.registry.trust import Trust

_BLOBS = "blobs/sha256/"
_LAYOUT, _INDEX, _MANIFEST, _SIGNATURES = "oci-layout", "index.json", "manifest.json", "signatures.json"
_FILE = re.compile(rf"{_BLOBS}[0-9a-f]{{64}}|{_LAYOUT}|{_INDEX}|{_MANIFEST}|{_SIGNATURES}")
_NAME = "io.containerd.image.name"
_BLOCK = 512
# of bytes, in the digits of an entry's header; a larger one is binary, in the format of GNU
_LARGEST_NUMBER = 8**11
# documents have a few kB
_LONGEST = 2**24
_MOST_SIGNATURES = 64


class Archived(NamedTuple):
    """The image in an archive: its name, the digests of its manifest and its configuration, and its signatures."""

    name: str
    digest: str
    # its id in the engine
    id: str
    signatures: Sequence[Signature]


def checksum_file(archive: Path) -> Path:
    return archive.with_name(f"{archive.name}.sha256")


def save(registry: Registry, image: Published, name: str, archive: Path, progress: Progress) -> None:
    """Write the archive, whole or not at all, and next to it its checksum in the format of sha256sum."""
    document = image.manifest.document
    config, layers = document["config"], document["layers"]
    signatures = stored_signatures(registry, image.reference.repository, image.digest)
    # in this form an entry of any size is one header and its content
    with replacing(archive) as unfinished:
        with tarfile.open(unfinished, "w", format=tarfile.GNU_FORMAT) as tar:
            add_file(tar, _LAYOUT, b'{"imageLayoutVersion": "1.0.0"}')
            add_file(tar, _path(image.digest), image.manifest.content)
            progress.expect([_short(item) for item in layers])
            # an image may have a layer twice
            for item in {part["digest"]: part for part in (config, *layers)}.values():
                progress.started(_short(item))
                report = partial(_show, progress, item)
                with tempfile.TemporaryFile(dir=archive.parent) as file:
                    registry.download(image.reference.repository, item["digest"], file, item["size"], report)
                    add_stream(tar, _path(item["digest"]), file)
                progress.ended(_short(item), f"{item['size'] / 10**6:.0f} MB")
            add_file(tar, _INDEX, json.dumps(_index(image.manifest.descriptor, name)).encode())
            add_file(tar, _MANIFEST, json.dumps([_parts(document, name)]).encode())
            if found := [{key: _text(value) for key, value in item._asdict().items()} for item in signatures]:
                add_file(tar, _SIGNATURES, json.dumps(found).encode())
        with unfinished.open("rb") as file:
            digest = digest_of_file(file).partition(":")[2]
    write_text(checksum_file(archive), f"{digest}  {archive.name}\n")


def verify(archive: Path) -> Archived:
    """Compare every blob of an archive with its digest, and return the image in it.

    An engine loads everything in an archive, so this one must have the files of one image and no others; and it reads
    archives with another program, so no entry may have a form that can be read in two ways.
    """
    try:
        _check_sum(archive)
        with archive.open("rb") as file:
            _check_entries(file)
            file.seek(0)
            with tarfile.open(fileobj=file, mode="r:") as tar:
                for entry in tar:
                    if entry.name.startswith(_BLOBS):
                        _compare(entry.name, _content(tar, entry), archive)
                return _image(tar)
    except (OSError, tarfile.TarError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise EnvbuilderError(
            tr("{archive} is not an archive of an image: {reason}", archive=archive, reason=error)
        ) from error


def _check_entries(file: IO[bytes]) -> None:
    """Refuse any entry but plain files with the names of an image, each once, and anything after the last."""
    seen: set[str] = set()
    while (block := file.read(_BLOCK)) != bytes(_BLOCK):
        entry = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
        if entry.name in seen or not _FILE.fullmatch(entry.name) or not _is_plain(entry, block):
            raise ValueError(tr("its entry {name} is not one that `pull --save` writes", name=entry.name))
        seen.add(entry.name)
        file.seek(-(-entry.size // _BLOCK) * _BLOCK, os.SEEK_CUR)
    while part := file.read(2**20):
        if any(part):
            raise ValueError(tr("something follows its end"))


def _is_plain(entry: tarfile.TarInfo, block: bytes) -> bool:
    """Return whether a header states the name and the size of a file, and nothing else, in one of two formats."""
    plain = tarfile.TarInfo(entry.name)
    plain.size = entry.size
    if not 0 <= entry.size < _LARGEST_NUMBER:
        return entry.size > 0 and block == plain.tobuf(tarfile.GNU_FORMAT)
    return block in {plain.tobuf(tarfile.GNU_FORMAT), plain.tobuf(tarfile.USTAR_FORMAT)}


def _image(tar: tarfile.TarFile) -> Archived:
    """Return the image in an archive, whose documents must all say the same."""
    index = _read(tar, _INDEX)
    (item,) = index["manifests"]
    name, digest = str(item["annotations"][_NAME]), str(item["digest"])
    reference = Reference.parse(name)
    document = _read(tar, _path(digest))
    parts = _parts(document, name)
    described = {"mediaType": item["mediaType"], "digest": digest, "size": tar.getmember(_path(digest)).size}
    expected = {_LAYOUT, _INDEX, _MANIFEST, _path(digest), parts["Config"], *parts["Layers"]}
    same = (
        index == _index(described, name)
        and item["mediaType"] in MANIFEST_TYPES
        and _read(tar, _MANIFEST) == [parts]
        and set(tar.getnames()) - {_SIGNATURES} == expected
    )
    if not (same and reference.tag and reference.digest is None):
        raise ValueError(tr("its files are not exactly those of the image {name}", name=name))
    return Archived(name, digest, str(document["config"]["digest"]), _signatures(tar))


def _signatures(tar: tarfile.TarFile) -> list[Signature]:
    if _SIGNATURES not in tar.getnames():
        return []
    listed = _read(tar, _SIGNATURES)[:_MOST_SIGNATURES]
    found = [Signature(*(base64.b64decode(item[key], validate=True) for key in Signature._fields)) for item in listed]
    return [item for item in found if len(item.payload) <= LONGEST_PAYLOAD]


def trusted_image(archive: Path, trust: Trust, progress: Progress) -> Archived:
    """Verify an archive, and return the image in it if it has the signatures that its name needs."""
    image = verify(archive)
    name = Reference.parse(image.name)
    for keys in trust.demands(name):
        signed = judge(image.signatures, str(archive), image.digest, name, keys, tr("nothing was loaded"))
        for line in signed_lines(signed, image.digest):
            progress.say(line)
    progress.say(tr("{name}@{digest}: every byte matches its digest", name=image.name, digest=image.digest))
    return image


def _content(tar: tarfile.TarFile, entry: tarfile.TarInfo) -> IO[bytes]:
    found = tar.extractfile(entry)
    if found is None:
        raise ValueError(tr("{name} is not a file", name=entry.name))
    return found


def _read(tar: tarfile.TarFile, name: str) -> Any:
    entry = tar.getmember(name)
    if entry.size > _LONGEST:
        raise ValueError(tr("{name} is too long", name=name))
    return json.load(_content(tar, entry), object_pairs_hook=_unambiguous)


def _unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON, whose keys must differ in more than case: engines ignore it, and take the last one."""
    if len({key.lower() for key, _ in pairs}) < len(pairs):
        raise ValueError(tr("a key is there twice: {keys}", keys=", ".join(key for key, _ in pairs)))
    return dict(pairs)


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _check_sum(archive: Path) -> None:
    expected = checksum_file(archive)
    if not expected.exists():
        return
    with archive.open("rb") as file:
        found = digest_of_file(file).partition(":")[2]
    if expected.read_text(encoding="utf-8").split()[:1] != [found]:
        raise EnvbuilderError(
            tr("{archive} does not have the checksum in {file}", archive=archive, file=expected.name),
            hint=tr("copy it again"),
        )


def _compare(name: str, file: IO[bytes], archive: Path) -> None:
    found = digest_of_file(file)
    if _path(found) != name:
        raise EnvbuilderError(
            tr("{archive} was changed: {name} has the digest {found}", archive=archive, name=name, found=found),
            hint=tr("copy it again"),
        )


def _index(described: Mapping[str, Any], name: str) -> dict[str, object]:
    annotations = {_NAME: name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}
    return {"schemaVersion": 2, "manifests": [{**described, "annotations": annotations}]}


def _parts(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return what docker reads from an archive: the configuration, the name and the layers of the image."""
    layers = [_path(item["digest"]) for item in document["layers"]]
    return {"Config": _path(document["config"]["digest"]), "RepoTags": [name], "Layers": layers}


def _short(item: Mapping[str, Any]) -> str:
    return str(item["digest"])[7:19]


def _show(progress: Progress, item: Mapping[str, Any], done: int) -> None:
    progress.said(_short(item), bar(done, item["size"]))


def _path(digest: str) -> str:
    return _BLOBS + digest.partition(":")[2]
