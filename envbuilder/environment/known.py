"""Finds the wheels of an environment that the matrices know by name and hash, without their index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envbuilder import versions
from envbuilder.environment.locks import LockedPackage
from envbuilder.matrix.model import KnownFile, KnownWheels
from envbuilder.requirements import normalize

if TYPE_CHECKING:
    from envbuilder.environment import Environment


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
    """Return a known file of which an index has another one, if there is such a file."""
    for package in packages:
        found = known_file(environment, package.name, package.version)
        if found is not None and package.hashes and found.sha256 not in package.hashes:
            return found
    return None
