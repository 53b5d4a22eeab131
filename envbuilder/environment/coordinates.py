"""The dimensions of environments, and the names that users give for them."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from typing import NamedTuple

from envbuilder import platforms, versions
from envbuilder.matrix import Matrix
from envbuilder.matrix.model import Arch, Branch, Hardware

# the first part of the names of images, where a user gives no registry
USUAL_REGISTRY = "envbuilder"


class Coordinates(NamedTuple):
    """The five dimensions of an environment. The identifier is built from them and never parsed."""

    framework: str
    branch: str
    engine: str
    hardware: str
    arch: Arch
    # the product of the hardware that a user named; all products have the same environments
    product: str | None = None
    # the operating system of the base image that a user named; all have the same lock
    system: str | None = None

    @property
    def id(self) -> str:
        return "-".join((self.framework, self.branch, self.engine, self.hardware, self.arch))

    @property
    def folder(self) -> str:
        """Return the folder of its build context, and of its lock, below that of all environments."""
        return f"{self.framework}/{self.branch}/{self.engine}-{self.hardware}-{self.arch}"


class Filters(NamedTuple):
    """The dimensions that a user gives; None admits any value."""

    framework: str | None = None
    branch: str | None = None
    engine: str | None = None
    hardware: str | None = None
    arch: str | None = None
    os: str | None = None

    def given(self) -> dict[str, str]:
        return {name: value for name, value in self._asdict().items() if value is not None}

    def admits(self, coordinates: Coordinates, matrix: Matrix) -> bool:
        return all(has(matrix, coordinates, name, value) for name, value in self.given().items())


def environments(matrix: Matrix) -> list[Coordinates]:
    """Return every environment, frameworks by name, branches from old to new."""
    branches = sorted(matrix.branches, key=lambda branch: (branch.framework, versions.key(branch.name), branch.name))
    return [coordinates for branch in branches for coordinates in _of_branch(branch, matrix)]


def _of_branch(branch: Branch, matrix: Matrix) -> Iterator[Coordinates]:
    cpu_only = [name for name, hardware in matrix.hardware.items() if hardware.cpu_only]
    for engine, row in branch.engines.items():
        for hardware in dict.fromkeys((*row.hardware, *cpu_only)):
            for arch in row.arches.get(hardware, tuple(matrix.hardware[hardware].arches)):
                yield Coordinates(branch.framework, branch.name, engine, hardware, arch)


def has(matrix: Matrix, coordinates: Coordinates, dimension: str, wanted: str) -> bool:
    """Return whether an environment has a value, or one that a glob matches, in a dimension."""
    wanted = spelled(wanted)
    if dimension == "hardware":
        hardware = matrix.hardware[coordinates.hardware]
        names = (coordinates.hardware, *hardware.aliases, *products_of(hardware, coordinates.arch))
    elif dimension == "os":
        names = matrix.hardware[coordinates.hardware].systems
    elif dimension == "arch":
        names, wanted = (coordinates.arch,), platforms.arch(wanted)
    elif dimension == "branch":
        names = (coordinates.branch, coordinates.branch.removeprefix("v"))
    else:
        names = (getattr(coordinates, dimension),)
    return any(fnmatch.fnmatchcase(name, wanted) for name in names)


def names_of(matrix: Matrix, dimension: str) -> dict[str, tuple[str, ...]]:
    """Return the values of a dimension as in identifiers, each with its other names."""
    if dimension == "hardware":
        return {name: (*item.aliases, *item.products) for name, item in matrix.hardware.items()}
    if dimension == "os":
        return dict.fromkeys(matrix.root.systems, ())
    return dict.fromkeys((getattr(item, dimension) for item in environments(matrix)), ())


def products_of(hardware: Hardware, arch: Arch) -> tuple[str, ...]:
    """Return the products of a hardware that are sold with an architecture."""
    return tuple(name for name, item in hardware.products.items() if not item.arches or arch in item.arches)


def product_named(matrix: Matrix, wanted: str | None) -> str | None:
    name = spelled(wanted or "")
    return name if any(name in hardware.products for hardware in matrix.hardware.values()) else None


def spelled(wanted: str) -> str:
    # users write 'Atlas 800T A3' as the vendor does
    return wanted.strip().lower().replace(" ", "-")
