"""Reads and unpacks a bundle, and refuses one that was changed after it was written."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from envbuilder.environment import Environment
from envbuilder.environment.packages import built_components
from envbuilder.errors import EnvbuilderError
from envbuilder.inputs.source_archives import check_sources
from envbuilder.language import tr
from envbuilder.network import OFFLINE
from envbuilder.plan import SourceArchive

DESCRIPTION, CHECKSUM, BASE_IMAGE = "bundle.json", "bundle.json.sha256", "base-image.tar"
WHEELS, DEBS = f"{OFFLINE}/wheels", f"{OFFLINE}/debs"
SCHEMA_VERSION = 3
_BROKEN = (tarfile.TarError, ValueError, LookupError, TypeError, AttributeError, EOFError, RecursionError)


@dataclass(frozen=True)
class Bundle:
    """A bundle that fits its environment. Its files are compared with their digests when they are unpacked."""

    folder: Path
    sources: Mapping[str, SourceArchive]
    # the name of the base image; None in a bundle that is only for installing
    base_image: str | None

    @property
    def offline(self) -> Path:
        return self.folder / OFFLINE

    @property
    def wheels(self) -> Path:
        return self.folder / WHEELS

    @property
    def base_archive(self) -> Path:
        return self.folder / BASE_IMAGE

    def lay_out(self, context: Path) -> None:
        """Move the files that a build installs from into its context."""
        self.offline.rename(context / OFFLINE)


def open_bundle(
    file: Path, folder: Path, environment: str, lock: str, *, for_build: bool, unpack: bool = True
) -> Bundle:
    """Open a bundle. Its environment, lock and use are checked before anything is unpacked."""
    with _reading(file) as (tar, description):
        try:
            _check(file, description, environment, lock, for_build=for_build)
            expected: dict[str, str] = description["files"]
            if sorted(tar.getnames()) != sorted([*expected, DESCRIPTION, CHECKSUM]):
                raise EnvbuilderError(
                    tr("the files in {file} are not those that its description lists", file=file),
                    hint=tr("copy it again"),
                )
            for name, digest in expected.items() if unpack else ():
                if for_build or not (name == BASE_IMAGE or name.startswith(DEBS)):
                    _unpack(tar, name, digest, folder, file)
            sources = {item["component"]: _source(item, expected, folder) for item in description["sources"]}
            return Bundle(folder, sources, description["base_image"])
        except _BROKEN as error:
            raise _not_a_bundle(file, error) from error


def bundle_of(environment: Environment, file: Path, folder: Path, *, for_build: bool, unpack: bool = True) -> Bundle:
    """Open the bundle of an environment, and check that its sources are those of the row."""
    lock = environment.lock.digest if environment.lock else ""
    bundle = open_bundle(file, folder, environment.id, lock, for_build=for_build, unpack=unpack)
    check_sources(environment, built_components(environment), bundle.sources, str(file))
    return bundle


def as_bundled(environment: Environment, file: Path) -> Environment:
    """Return the environment, with builds of the package index if the bundle was made from them."""
    if environment.has_fallback:
        other = environment.from_package_index()
        with _reading(file) as (_, description):
            if other.lock and description.get("lock") == other.lock.digest:
                return other
    return environment


def environment_in(file: Path) -> str:
    """Return the id of a bundle's environment; only the description is read."""
    with _reading(file) as (_, description):
        return str(description.get("environment"))


def _check(file: Path, description: dict[str, Any], environment: str, lock: str, *, for_build: bool) -> None:
    found = str(description["environment"])
    if found != environment or description["lock"] != lock:
        raise EnvbuilderError(
            tr("{file} is a bundle of {found}, made from another lock", file=file, found=found)
            if found == environment
            else tr("{file} is a bundle of {found}", file=file, found=found),
            hint=tr(
                "envbuilder bundle {environment} writes the one that is needed, with this version of envbuilder",
                environment=environment,
            ),
        )
    if for_build and description["base_image"] is None:
        raise EnvbuilderError(
            tr("{file} is only for installing: it has no base image", file=file),
            hint=tr(
                "envbuilder bundle {environment} --for-build writes one with a base image", environment=environment
            ),
        )


@contextmanager
def _reading(file: Path) -> Iterator[tuple[tarfile.TarFile, dict[str, Any]]]:
    try:
        tar = tarfile.open(file, "r:")  # noqa: SIM115  closed below
    except (OSError, *_BROKEN) as error:
        raise _not_a_bundle(file, error) from error
    with tar:
        yield tar, _described(tar, file)


def _described(tar: tarfile.TarFile, file: Path) -> dict[str, Any]:
    try:
        text = _member(tar, DESCRIPTION).read()
        if hashlib.sha256(text).hexdigest().encode() != _member(tar, CHECKSUM).read():
            raise _changed(file, DESCRIPTION)
        description: dict[str, Any] = json.loads(text)
        if description["schema_version"] != SCHEMA_VERSION:
            raise EnvbuilderError(
                tr("{file} was written by another version of envbuilder", file=file),
                hint=tr("write it again with this one"),
            )
        return description
    except _BROKEN as error:
        raise _not_a_bundle(file, error) from error


def _not_a_bundle(file: Path, error: Exception) -> EnvbuilderError:
    return EnvbuilderError(
        tr("{file} is not a bundle: {reason}", file=file, reason=error), hint=tr("envbuilder bundle writes one")
    )


def _member(tar: tarfile.TarFile, name: str) -> IO[bytes]:
    found = tar.extractfile(name)
    if found is None:
        raise LookupError(tr("{name} is not a file", name=name))
    return found


def _unpack(tar: tarfile.TarFile, name: str, digest: str, folder: Path, file: Path) -> None:
    place = (folder / name).resolve()
    if not place.is_relative_to(folder.resolve()):
        raise EnvbuilderError(tr("{file} contains a path that leads out of the bundle: {name}", file=file, name=name))
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
    return EnvbuilderError(
        tr("{file} was changed: {name} is not what was bundled", file=file, name=name), hint=tr("copy it again")
    )


def _source(item: Mapping[str, Any], files: Mapping[str, str], folder: Path) -> SourceArchive:
    if files[item["archive"]] != item["sha256"]:
        raise ValueError(tr("{archive} has two different digests", archive=item["archive"]))
    return SourceArchive(
        component=item["component"], kind=item["kind"], reference=item["reference"], archive=folder / item["archive"],
        sha256=item["sha256"], strip=int(item["strip"]), into=item["into"],
    )  # fmt: skip
