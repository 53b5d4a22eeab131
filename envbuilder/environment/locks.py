"""A lock: every package of an environment with its version and hashes, in parts that are installed one by one.

    torch     torch with its libraries, and other large wheels that source builds need
    build     other packages that source builds need
    large     other large wheels
    settled   packages without a pin, which rarely change
    pins      the pins of the row
    unhashed  pins whose index could not be reached: their version is fixed, but not their files

A change in one part leaves the layers of the earlier parts unchanged. `origin` identifies the inputs of the lock.
`fallback` replaces packages of an index that may be out of reach, in environments without an NPU.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING

from envbuilder import versions
from envbuilder.errors import MatrixError, Where
from envbuilder.files import digest_of
from envbuilder.language import tr
from envbuilder.matrix.model import KnownFile, KnownWheels
from envbuilder.requirements import normalize

if TYPE_CHECKING:
    from envbuilder.environment import Environment

HASHED, UNHASHED = ("torch", "build", "large", "settled", "pins"), "unhashed"
PARTS = (*HASHED, UNHASHED)
ORIGIN, FALLBACK = "origin", "fallback"
_INPUTS = re.compile(r"^inputs: ([0-9a-f]{64})$", re.MULTILINE)
_SDIST = re.compile(r"^sdist: (\S+) sha256:([0-9a-f]{64})$", re.MULTILINE)
_PACKAGE = re.compile(r"^(\S+)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n?)+)", re.MULTILINE)
_UNHASHED = re.compile(r"^(\S+)==(\S+)()\n", re.MULTILINE)
_NOT_SEEN = "hash from public locks, file not seen"
_UNSEEN = re.compile(rf"^{_NOT_SEEN}: (\S+)$", re.MULTILINE)
_HASH = re.compile(r"sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class LockedPackage:
    name: str
    version: str
    # of the files that may be installed; empty if unknown
    hashes: tuple[str, ...]

    @property
    def text(self) -> str:
        lines = [f"{self.name}=={self.version}", *(f"    --hash=sha256:{item}" for item in self.hashes)]
        return " \\\n".join(lines) + "\n"


@dataclass(frozen=True)
class Lock:
    """The packages by part. `inputs` is the digest of the resolver's input, `sdists` are the source archives."""

    parts: Mapping[str, tuple[LockedPackage, ...]]
    inputs: str
    sdists: Mapping[str, str]
    resolver: str = ""
    # files with hashes from public lock files, as their index could not be reached
    unseen: tuple[str, ...] = ()
    # the packages that differ if all come from the package index
    fallback: tuple[LockedPackage, ...] = ()

    @property
    def packages(self) -> tuple[LockedPackage, ...]:
        return tuple(sorted((item for part in self.parts.values() for item in part), key=lambda item: item.name))

    @property
    def versions(self) -> dict[str, str]:
        return {item.name: item.version for item in self.packages}

    def part(self, name: str) -> str:
        """Return a part in the format of pip and uv."""
        return _text(self.parts[name])

    def only(self, names: Collection[str]) -> str:
        """Return the packages with these normalized names in the format of pip and uv."""
        return _text(item for item in self.packages if normalize(item.name) in names)

    @property
    def digest(self) -> str:
        return digest_of(_text(self.packages).encode())

    def from_package_index(self, names: Mapping[str, Collection[str]]) -> Lock:
        """Return the lock with the packages of `fallback` in place of those of other indexes, in the same parts."""
        packages = {item.name: item for item in (*self.packages, *self.fallback)}
        # libraries that only the torch of the package index needs
        added = {normalize(item.name) for item in self.fallback} - {normalize(item.name) for item in self.packages}
        parts = split_lock(packages.values(), {**names, "torch": {*names["torch"], *added}})
        return replace(self, parts=parts, unseen=(), fallback=())

    def files(self) -> dict[str, str]:
        """Return the texts of the lock by part, without empty parts."""
        lines = [f"resolver: {self.resolver}", f"inputs: {self.inputs}"]
        lines += [f"sdist: {name} sha256:{digest}" for name, digest in sorted(self.sdists.items())]
        lines += [f"{_NOT_SEEN}: {name}" for name in sorted(self.unseen)]
        texts = {name: self.part(name) for name in PARTS if self.parts[name]}
        texts |= {FALLBACK: _text(self.fallback)} if self.fallback else {}
        return {ORIGIN: "\n".join(lines) + "\n", **texts}


def _text(packages: Iterable[LockedPackage]) -> str:
    return "".join(item.text for item in packages)


def read_lock(files: Mapping[str, str], folder: str = "locks") -> Lock | None:
    """Return the lock in these files by name, None if there are none. `folder` is for messages."""
    if not files:
        return None
    origin = files.get(ORIGIN, "")
    inputs, resolver = _INPUTS.search(origin), re.search(r"^resolver: (.+)$", origin, re.MULTILINE)
    return Lock(
        {
            name: _packages(files.get(name, ""), f"{folder}/{name}.txt", _UNHASHED if name == UNHASHED else _PACKAGE)
            for name in PARTS
        },
        inputs[1] if inputs else "",
        dict(_SDIST.findall(origin)),
        resolver[1] if resolver else "",
        tuple(_UNSEEN.findall(origin)),
        _packages(files.get(FALLBACK, ""), f"{folder}/{FALLBACK}.txt", _PACKAGE),
    )


def split_lock(
    packages: Iterable[LockedPackage], names: Mapping[str, Collection[str]]
) -> dict[str, tuple[LockedPackage, ...]]:
    """Return packages by part; `names` has the normalized names of each part except `settled`."""
    parts: dict[str, list[LockedPackage]] = {name: [] for name in PARTS}
    for item in sorted(packages, key=lambda item: item.name):
        name = normalize(item.name)
        part = next((part for part, members in names.items() if name in members), "settled")
        parts[part if item.hashes else UNHASHED].append(item)
    return {name: tuple(items) for name, items in parts.items()}


def _packages(text: str, file: str, form: re.Pattern[str]) -> tuple[LockedPackage, ...]:
    found = tuple(
        LockedPackage(name, version, tuple(_HASH.findall(hashes))) for name, version, hashes in form.findall(text)
    )
    understood = _text(found)
    # a package on an unreadable line would silently not be installed
    if text != understood:
        lines = zip_longest(text.splitlines(keepends=True), understood.splitlines(keepends=True))
        wrong = next(number for number, (line, expected) in enumerate(lines, 1) if line != expected)
        hint = tr("restore the file, or delete its folder and lock the environment again")
        raise MatrixError.of(tr("the lock is damaged: expected packages with hashes"), Where(file, wrong), hint)
    return found


def known_wheels(environment: Environment) -> dict[str, KnownWheels]:
    """Return the known wheels of the indexes of an environment, by the name of the package."""
    known = environment.matrix.known_wheels
    return {
        normalize(environment.distribution(name)): known[name]
        for name, index in environment.indexes.items()
        if name in known and known[name].index.rstrip("/") == index.rstrip("/")
    }


def known_file(environment: Environment, name: str, version: str) -> KnownFile | None:
    """Return the known file of a package for the Python and the processor of an environment."""
    wheels = known_wheels(environment).get(normalize(name))
    python = f"-cp{environment.version('python') or ''}-".replace(".", "")
    arch = f"_{environment.coordinates.arch}.whl"
    for release in wheels.releases if wheels else ():
        if versions.key(release.version) == versions.key(version):
            return next((item for item in release.files if python in item.file and item.file.endswith(arch)), None)
    return None


def contradicted(environment: Environment, packages: tuple[LockedPackage, ...]) -> KnownFile | None:
    """Return the first known file whose hash differs from those of its index, if there is one."""
    for package in packages:
        found = known_file(environment, package.name, package.version)
        if found is not None and package.hashes and found.sha256 not in package.hashes:
            return found
    return None
