"""Saves an image in one file, for sites without a network: an OCI layout that docker can load as well.

The blobs are those of the registry, byte for byte, so that the image in the file has the digest of the published one.
"""

from __future__ import annotations

import json
import tarfile
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any

from envbuilder.errors import EnvbuilderError
from envbuilder.files import add_file, add_stream, digest_of_file, replacing, write_text
from envbuilder.language import tr
from envbuilder.progress import Progress, bar
from envbuilder.registry.client import Registry
from envbuilder.registry.published import Published

_BLOBS = "blobs/sha256/"
_LAYOUT, _INDEX, _MANIFEST = "oci-layout", "index.json", "manifest.json"
_NAME = "io.containerd.image.name"


def checksum_file(archive: Path) -> Path:
    return archive.with_name(f"{archive.name}.sha256")


def save(registry: Registry, image: Published, name: str, archive: Path, progress: Progress) -> None:
    """Write the archive, whole or not at all, and next to it its checksum in the format of sha256sum."""
    document = image.manifest.document
    config, layers = document["config"], document["layers"]
    with replacing(archive) as unfinished:
        with tarfile.open(unfinished, "w") as tar:
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
            add_file(tar, _INDEX, json.dumps(_index(image, name)).encode())
            add_file(tar, _MANIFEST, json.dumps([_parts(document, name)]).encode())
        with unfinished.open("rb") as file:
            digest = digest_of_file(file).partition(":")[2]
    write_text(checksum_file(archive), f"{digest}  {archive.name}\n")


def verify(archive: Path) -> tuple[str, str]:
    """Compare every blob of an archive with its digest, and return the name and digest of the image in it.

    An engine loads everything in an archive, so this one must have the files of one image and no others.
    """
    try:
        _check_sum(archive)
        with tarfile.open(archive, "r:") as tar:
            for entry in tar:
                content = _content(tar, entry)
                if entry.name.startswith(_BLOBS):
                    _compare(entry.name, content, archive)
            (item,) = _read(tar, _INDEX)["manifests"]
            name, digest = str(item["annotations"][_NAME]), str(item["digest"])
            parts = _parts(_read(tar, _path(digest)), name)
            expected = {_LAYOUT, _INDEX, _MANIFEST, _path(digest), parts["Config"], *parts["Layers"]}
            if _read(tar, _MANIFEST) != [parts] or set(tar.getnames()) != expected:
                raise ValueError(tr("its files are not exactly those of the image {name}", name=name))
        return name, digest
    except (OSError, tarfile.TarError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise EnvbuilderError(
            tr("{archive} is not an archive of an image: {reason}", archive=archive, reason=error)
        ) from error


def _content(tar: tarfile.TarFile, entry: tarfile.TarInfo) -> IO[bytes]:
    found = tar.extractfile(entry) if entry.isfile() else None
    if found is None:
        raise ValueError(tr("{name} is not a file", name=entry.name))
    return found


def _read(tar: tarfile.TarFile, name: str) -> Any:
    return json.load(_content(tar, tar.getmember(name)))


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


def _index(image: Published, name: str) -> dict[str, object]:
    annotations = {_NAME: name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}
    return {"schemaVersion": 2, "manifests": [{**image.manifest.descriptor, "annotations": annotations}]}


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
