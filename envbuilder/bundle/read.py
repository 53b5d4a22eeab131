"""Reads and unpacks a bundle, and refuses one that is not of its environment, or was changed after it was written.

Without a key a bundle proves what the repository of the matrices states: wheels by the hashes of the lock, sources by
their commits or hashes. A signature is needed for the rest: the base image and the packages of its distribution.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from envbuilder.environment import Environment
from envbuilder.environment.locks import LockedPackage
from envbuilder.environment.packages import built_components
from envbuilder.errors import EnvbuilderError, ValidationError
from envbuilder.files import open_foreign_tar, plain_members
from envbuilder.inputs.git_trees import Commits
from envbuilder.inputs.source_archives import check_sources, prove_sources
from envbuilder.language import tr
from envbuilder.network import OFFLINE, UV_CONFIG, UV_WITHOUT_INDEX
from envbuilder.plan import SourceArchive
from envbuilder.plan.plan import SOURCES
from envbuilder.project.trees import keep_commit
from envbuilder.signing.keys import PublicKey

DESCRIPTION, CHECKSUM, SIGNATURE = "bundle.json", "bundle.json.sha256", "bundle.json.sig"
BASE_IMAGE = "base-image.tar"
WHEELS, DEBS = f"{OFFLINE}/wheels", f"{OFFLINE}/debs"
SETTINGS = f"{OFFLINE}/{UV_CONFIG}"
_READ = (f"{OFFLINE}/", f"{SOURCES}/")
SCHEMA_VERSION = 5
_MOST_FILES, _LONGEST_DESCRIPTION = 20_000, 2**24
# so that the engine replaces no image of another name
_BASE_NAME = re.compile(r"envbuilder/base:[0-9a-f]{12}")
_BROKEN = (tarfile.TarError, ValueError, LookupError, TypeError, AttributeError, EOFError, RecursionError)


class Needed(NamedTuple):
    """What a bundle must be of: an environment, the digest of its lock, and the hashes of the wheels it installs."""

    environment: str
    lock: str
    hashes: frozenset[str]
    # the digest of the lock of a project
    project: str | None = None

    @classmethod
    def of(cls, environment: Environment) -> Needed:
        lock, added = environment.lock, environment.additions
        packages = (*(lock.packages if lock else ()), *(added.packages if added else ()), *environment.tools)
        return cls(
            environment.id, lock.digest if lock else "", hashes_of(packages), added.lock_digest if added else None
        )


def hashes_of(packages: Sequence[LockedPackage]) -> frozenset[str]:
    return frozenset(found for package in packages for found in package.hashes)


@dataclass(frozen=True)
class Bundle:
    """A bundle that fits its environment. Its files are compared with their digests when they are unpacked."""

    file: Path
    folder: Path
    sources: Mapping[str, SourceArchive]
    # what proves the sources that are commits
    commits: Mapping[str, Commits]
    # the commits that a project has in place of sources of the row
    own: Mapping[str, tuple[SourceArchive, Commits]]
    # the name of the base image; None in a bundle that is only for installing
    base_image: str | None
    # the key that has signed it
    key: PublicKey | None

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

    def trust(self, *, for_build: bool) -> str:
        """Return in one line what is known of the bundle."""
        if self.key is not None:
            return tr("{file} is signed with {key}", file=self.file, key=self.key.file)
        if for_build:
            return tr(
                "{file} was compared with the lock and the commits; no --verify-key: its base image and system "
                "packages are trusted as they are",
                file=self.file,
            )
        return tr("{file} was compared with the lock and the commits, and with no key (--verify-key)", file=self.file)


def open_bundle(
    file: Path, folder: Path, wanted: Needed, keys: Sequence[PublicKey] = (), *, for_build: bool, unpack: bool = True
) -> Bundle:
    """Open a bundle. Its signature, environment, lock and use are checked before anything is unpacked."""
    with _reading(file) as opened:
        try:
            key = _verified(file, opened, keys) if keys else None
            description = opened.description
            _check(file, description, wanted, for_build=for_build)
            expected: dict[str, str] = description["files"]
            if set(opened.members) - {SIGNATURE} != {*expected, DESCRIPTION, CHECKSUM}:
                raise EnvbuilderError(
                    tr("the files in {file} are not those that its description lists", file=file),
                    hint=tr("copy it again"),
                )
            for name, digest in expected.items():
                _check_name(file, name, digest, wanted)
            for name, digest in expected.items() if unpack else ():
                if for_build or not (name == BASE_IMAGE or name.startswith(f"{DEBS}/")):
                    _unpack(opened, name, digest, folder, file)
            items = description["sources"]
            sources = {item["component"]: _source(item, expected, folder) for item in items}
            commits = {item["component"]: Commits.of(item["commits"]) for item in items if item["kind"] == "git"}
            own = {
                item["component"]: (_source(item, expected, folder), Commits.of(item["commits"]))
                for item in description["own_sources"]
            }
            return Bundle(file, folder, sources, commits, own, description["base_image"], key)
        except _BROKEN as error:
            raise _not_a_bundle(file, error) from error


def bundle_of(
    environment: Environment, file: Path, folder: Path, keys: Sequence[PublicKey], *, for_build: bool,
    unpack: bool = True,
) -> Bundle:  # fmt: skip
    """Open the bundle of an environment, and check that its sources are those of the row."""
    bundle = open_bundle(file, folder, Needed.of(environment), keys, for_build=for_build, unpack=unpack)
    check_sources(environment, built_components(environment), bundle.sources, str(file))
    if unpack:
        prove_sources(environment, bundle.sources, bundle.commits)
        _keep_own(environment, bundle)
    return bundle


def _keep_own(environment: Environment, bundle: Bundle) -> None:
    """Put the commits of a project into the cache, where a build and an installation look first."""
    for name, source in environment.additions.sources.items() if environment.additions else ():
        if source.folder is None:
            if name not in bundle.own:
                raise _not_a_bundle(bundle.file, ValueError(source.shown))
            archive, commits = bundle.own[name]
            keep_commit(source, archive.archive, commits)


def as_bundled(environment: Environment, file: Path) -> Environment:
    """Return the environment, with builds of the package index if the bundle was made from them."""
    if environment.has_fallback:
        other = environment.from_package_index()
        with _reading(file) as opened:
            if other.lock and opened.description.get("lock") == other.lock.digest:
                return other
    return environment


def environment_in(file: Path) -> str:
    """Return the id of a bundle's environment; only the description is read."""
    with _reading(file) as opened:
        return str(opened.description.get("environment"))


def _check(file: Path, description: dict[str, Any], wanted: Needed, *, for_build: bool) -> None:
    found, environment = str(description["environment"]), wanted.environment
    if found != environment or description["lock"] != wanted.lock:
        raise EnvbuilderError(
            tr("{file} is a bundle of {found}, made from another lock", file=file, found=found)
            if found == environment
            else tr("{file} is a bundle of {found}", file=file, found=found),
            hint=tr(
                "envbuilder bundle {environment} writes the one that is needed, with this version of envbuilder",
                environment=environment,
            ),
        )
    if wanted.project is not None and description.get("project") != wanted.project:
        raise EnvbuilderError(
            tr("{file} does not have what the project adds, by its present lock", file=file),
            hint=tr("envbuilder bundle, in the folder of the project, writes one that has it"),
        )
    base = description["base_image"]
    if base is not None and not _BASE_NAME.fullmatch(base):
        raise ValueError(base)
    if for_build and base is None:
        raise EnvbuilderError(
            tr("{file} is only for installing: it has no base image", file=file),
            hint=tr(
                "envbuilder bundle {environment} --for-build writes one with a base image", environment=environment
            ),
        )


def _check_name(file: Path, name: str, digest: str, wanted: Needed) -> None:
    """Refuse a file that an installation must not find: a wheel that is not locked, or other settings."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or str(path) != name:
        raise EnvbuilderError(tr("{file} contains a path that leads out of the bundle: {name}", file=file, name=name))
    if not name.startswith(f"{OFFLINE}/"):
        return
    is_locked = str(path.parent) == WHEELS and digest in wanted.hashes
    is_setting = name == SETTINGS and digest == hashlib.sha256(UV_WITHOUT_INDEX.encode()).hexdigest()
    if not (is_locked or is_setting or str(path.parent) == DEBS):
        raise EnvbuilderError(
            tr(
                "{name} in {file} is not what the lock of {environment} names",
                name=name,
                file=file,
                environment=wanted.environment,
            ),
            hint=tr("nothing of it was used"),
        )


class _Opened(NamedTuple):
    """An open bundle: its files by name, and its description, as bytes and decoded."""

    tar: tarfile.TarFile
    members: Mapping[str, tarfile.TarInfo]
    text: bytes
    description: dict[str, Any]


@contextmanager
def _reading(file: Path) -> Iterator[_Opened]:
    with ExitStack() as stack:
        try:
            content = stack.enter_context(file.open("rb"))
            tar = stack.enter_context(open_foreign_tar(content))
            members = _members(tar, os.fstat(content.fileno()).st_size)
            text = _content(tar, members[DESCRIPTION])
            if hashlib.sha256(text).hexdigest().encode() != _content(tar, members[CHECKSUM]):
                raise _changed(file, DESCRIPTION)
            description = json.loads(text)
            if description["schema_version"] != SCHEMA_VERSION:
                raise EnvbuilderError(
                    tr("{file} was written by another version of envbuilder", file=file),
                    hint=tr("write it again with this one"),
                )
        except (OSError, *_BROKEN) as error:
            raise _not_a_bundle(file, error) from error
        yield _Opened(tar, members, text, description)


def _members(tar: tarfile.TarFile, size: int) -> dict[str, tarfile.TarInfo]:
    """Return the files of a bundle, which together are not larger than it is."""
    found: dict[str, tarfile.TarInfo] = {}
    for member in plain_members(tar, _MOST_FILES):
        size -= member.size
        if member.name in found or not member.isreg() or size < 0:
            raise ValueError(tr("{name} is not a plain file", name=member.name))
        found[member.name] = member
    return found


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    """Return a small file of a bundle."""
    content = tar.extractfile(member)
    if content is None or member.size > _LONGEST_DESCRIPTION:
        raise ValueError(tr("{name} is too long", name=member.name))
    return content.read()


def _not_a_bundle(file: Path, error: Exception) -> EnvbuilderError:
    return EnvbuilderError(
        tr("{file} is not a bundle: {reason}", file=file, reason=error), hint=tr("envbuilder bundle writes one")
    )


def _unpack(opened: _Opened, name: str, digest: str, folder: Path, file: Path) -> None:
    """Compare a file with its digest, and write it if an installation or a build reads it."""
    content = opened.tar.extractfile(opened.members[name])
    assert content is not None  # noqa: S101  every member is a file
    # scripts are for sites without envbuilder
    place = folder / name if name.startswith(_READ) or name == BASE_IMAGE else Path(os.devnull)
    place.parent.mkdir(parents=True, exist_ok=True)
    found = hashlib.sha256()
    with place.open("wb") as target:
        while part := content.read(2**20):
            found.update(part)
            target.write(part)
    if found.hexdigest() != digest:
        raise _changed(file, name)


def _verified(file: Path, opened: _Opened, keys: Sequence[PublicKey]) -> PublicKey:
    """Return the key that has signed the description of a bundle, and so the digests of all files."""
    names = ", ".join(key.file for key in keys)
    if SIGNATURE not in opened.members:
        message = tr("{file} has no signature, and must have one of {keys}", file=file, keys=names)
        raise ValidationError(message, hint=tr("nothing of it was used; envbuilder bundle --sign-key FILE signs one"))
    signature = base64.b64decode(_content(opened.tar, opened.members[SIGNATURE]), validate=True)
    key = next((key for key in keys if key.accepts(signature, opened.text)), None)
    if key is None:
        message = tr("the signature of {file} is not of {keys}", file=file, keys=names)
        raise ValidationError(message, hint=tr("nothing of it was used"))
    return key


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
