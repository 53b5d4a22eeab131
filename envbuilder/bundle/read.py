"""A bundle is unpacked, and refused where a byte of it is not what was written."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from envbuilder.errors import EnvbuilderError
from envbuilder.plan import Source

DESCRIPTION, CHECKSUM, BASE_IMAGE, WHEELS, DEBS = (
    "bundle.json",
    "bundle.json.sha256",
    "base-image.tar",
    "wheels",
    "debs",
)
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Bundle:
    """A bundle that was unpacked, every byte compared."""

    folder: Path
    environment: str
    lock: str
    sources: Mapping[str, Source]
    # what the base image is called; None in a bundle that is only for installing
    base_image: str | None

    @property
    def wheels(self) -> Path:
        return self.folder / WHEELS

    @property
    def base_archive(self) -> Path:
        return self.folder / BASE_IMAGE

    def lay_out(self, folder: Path) -> None:
        """What a build installs from goes into a folder of its context."""
        folder.mkdir(parents=True)
        for name in (WHEELS, DEBS):
            (self.folder / name).rename(folder / name)


def open_bundle(file: Path, folder: Path, environment: str, lock: str | None) -> Bundle:
    """The bundle of this environment, unpacked into a folder."""
    with _reading(file) as (tar, description):
        expected: dict[str, str] = description["files"]
        if sorted(tar.getnames()) != sorted([*expected, DESCRIPTION, CHECKSUM]):
            raise EnvbuilderError(f"{file} is not what its description says", hint="copy it again")
        for name, digest in expected.items():
            _unpack(tar, name, digest, folder, file)
        found = Bundle(
            folder,
            environment=str(description["environment"]),
            lock=(folder / "lock.txt").read_text(encoding="utf-8"),
            sources={item["component"]: _source(item, folder) for item in description["sources"]},
            base_image=description["base_image"],
        )
    if found.environment != environment or found.lock != lock:
        raise EnvbuilderError(
            f"{file} is a bundle of {found.environment}"
            + ("" if found.environment != environment else ", made from another lock"),
            hint=f"envbuilder bundle {environment} writes the one that is needed, with this version of envbuilder",
        )
    return found


def environment_in(file: Path) -> str:
    """Which environment it is for, read without looking at the rest."""
    with _reading(file) as (_, description):
        return str(description["environment"])


@contextmanager
def _reading(file: Path) -> Iterator[tuple[tarfile.TarFile, dict[str, Any]]]:
    try:
        with tarfile.open(file) as tar:
            text = _member(tar, DESCRIPTION).read()
            if hashlib.sha256(text).hexdigest().encode() != _member(tar, CHECKSUM).read():
                raise _changed(file, DESCRIPTION)
            description = json.loads(text)
            if description["schema_version"] != SCHEMA_VERSION:
                raise EnvbuilderError(f"{file} is of another version of envbuilder", hint="write it anew with this one")
            yield tar, description
    except (OSError, tarfile.TarError, ValueError, LookupError, TypeError) as error:
        raise EnvbuilderError(f"{file} is not a bundle: {error}", hint="envbuilder bundle writes one") from error


def _member(tar: tarfile.TarFile, name: str) -> IO[bytes]:
    found = tar.extractfile(name)
    if found is None:
        raise LookupError(f"{name} is no file")
    return found


def _unpack(tar: tarfile.TarFile, name: str, digest: str, folder: Path, file: Path) -> None:
    place = (folder / name).resolve()
    if not place.is_relative_to(folder.resolve()):
        raise EnvbuilderError(f"{file} has a file outside of itself: {name}")
    place.parent.mkdir(parents=True, exist_ok=True)
    found = hashlib.sha256()
    content = _member(tar, name)
    with place.open("wb") as target:
        while part := content.read(2**20):
            found.update(part)
            target.write(part)
    if found.hexdigest() != digest:
        raise _changed(file, name)


def _changed(file: Path, name: str) -> EnvbuilderError:
    return EnvbuilderError(f"{file} was changed: {name} is not what was bundled", hint="copy it again")


def _source(item: Mapping[str, Any], folder: Path) -> Source:
    return Source(
        component=item["component"], kind=item["kind"], reference=item["reference"], archive=folder / item["archive"],
        sha256=item["sha256"], strip=int(item["strip"]), into=item["into"],
    )  # fmt: skip
