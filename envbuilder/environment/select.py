"""Lists all environments, and selects those that a user names."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from envbuilder import versions
from envbuilder.errors import NoMatchError, UsageError
from envbuilder.matrix import Matrix
from envbuilder.matrix.model import Arch, Branch, Hardware


class Coordinates(NamedTuple):
    """The five dimensions of an environment. The identifier is built from them and never parsed."""

    framework: str
    branch: str
    engine: str
    hardware: str
    arch: Arch
    # the product of the hardware that a user named; every product has the same environments
    product: str | None = None
    # the operating system of the base image that a user named; all have the same lock
    system: str | None = None

    @property
    def id(self) -> str:
        return "-".join((self.framework, self.branch, self.engine, self.hardware, self.arch))


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
        return all(_has(matrix, coordinates, name, value) for name, value in self.given().items())


def environments(matrix: Matrix) -> list[Coordinates]:
    """Return every environment, frameworks by name, branches from old to new."""
    branches = sorted(matrix.branches, key=lambda branch: (branch.framework, versions.key(branch.name), branch.name))
    return [coordinates for branch in branches for coordinates in _of_branch(branch, matrix)]


def _of_branch(branch: Branch, matrix: Matrix) -> Iterator[Coordinates]:
    rehearsals = [name for name, hardware in matrix.hardware.items() if hardware.rehearsal]
    for engine, row in branch.engines.items():
        for hardware in dict.fromkeys((*row.hardware, *rehearsals)):
            for arch in matrix.hardware[hardware].arches:
                yield Coordinates(branch.framework, branch.name, engine, hardware, arch)


def select(matrix: Matrix, patterns: Sequence[str] = (), filters: Filters | None = None) -> list[Coordinates]:
    """Return all environments that match a pattern (any, without patterns) and the filters.

    A pattern is an identifier or a glob. One without a match is an error, so that a typo is not an empty result.
    """
    everything = environments(matrix)
    chosen = everything
    if patterns:
        named: dict[Coordinates, None] = {}
        for pattern in patterns:
            found = [item for item in everything if fnmatch.fnmatchcase(item.id, pattern)]
            found = found or list(_of_product(matrix, everything, pattern))
            if not found:
                raise _no_such(pattern, everything)
            named.update(dict.fromkeys(found))
        chosen = list(named)
    if filters is None:
        return chosen
    admitted = [item for item in chosen if filters.admits(item, matrix)]
    product, system = _product(matrix, filters.hardware), filters.os
    return [item._replace(product=product or item.product, system=system) for item in admitted]


def _of_product(matrix: Matrix, everything: Sequence[Coordinates], pattern: str) -> Iterator[Coordinates]:
    """Yield the environments of an identifier that names a product where its hardware belongs."""
    for name, hardware in matrix.hardware.items():
        for product in hardware.products:
            wanted = pattern.replace(f"-{product}-", f"-{name}-")
            if wanted != pattern:
                found = (item for item in everything if fnmatch.fnmatchcase(item.id, wanted))
                yield from (item._replace(product=product) for item in found if _is_sold(hardware, product, item.arch))


def _product(matrix: Matrix, wanted: str | None) -> str | None:
    products = [name for hardware in matrix.hardware.values() for name in hardware.products]
    return _spelled(wanted) if wanted and _spelled(wanted) in products else None


def _has(matrix: Matrix, coordinates: Coordinates, dimension: str, wanted: str) -> bool:
    if dimension == "os":
        return wanted in matrix.hardware[coordinates.hardware].systems
    if dimension != "hardware":
        return _matches(getattr(coordinates, dimension), wanted)
    hardware = matrix.hardware[coordinates.hardware]
    return any(_matches(name, wanted) for name in (coordinates.hardware, *hardware.aliases)) or any(
        _matches(name, wanted) and _is_sold(hardware, name, coordinates.arch) for name in hardware.products
    )


def _is_sold(hardware: Hardware, product: str, arch: Arch) -> bool:
    arches = hardware.products[product].arches
    return not arches or arch in arches


def pick(matrix: Matrix, pattern: str | None = None, filters: Filters | None = None) -> Coordinates:
    """Return the one environment that matches; the defaults of the matrix complete the filters."""
    filters = filters or Filters()
    candidates = select(matrix, [pattern] if pattern else (), filters)
    if not candidates:
        raise _no_combination(matrix, filters, pattern)
    if pattern:
        if len(candidates) > 1:
            raise UsageError(
                f"'{pattern}' names {len(candidates)} environments; this command takes one",
                hint="one of: "
                + ", ".join(item.id for item in candidates[:4])
                + (", ..." if len(candidates) > 4 else ""),
            )
        return candidates[0]
    defaults = matrix.root.defaults
    for dimension, preferred in (("framework", defaults.framework), ("hardware", defaults.hardware)):
        candidates = _prefer(candidates, dimension, preferred)
    # arches are in the order of the file of the hardware; the first is its default
    candidates = [item for item in candidates if item.arch == candidates[0].arch]
    return max(candidates, key=lambda item: rank(matrix, item))


class Rank(NamedTuple):
    """How well an environment is known, the most important first: of two, a user is given the greater one."""

    is_locked: bool
    # whether something was run in it
    is_proven: bool
    is_default_framework: bool
    version: versions.Key
    is_default_engine: bool


def rank(matrix: Matrix, coordinates: Coordinates) -> Rank:
    recorded, defaults = matrix.evidence.get(coordinates.id), matrix.root.defaults
    levels = {item.level for item in recorded.evidence} if recorded else set()
    return Rank(
        is_locked=matrix.locks.folder(coordinates.id) is not None,
        is_proven=bool(levels - {"resolved", "built"}),
        is_default_framework=coordinates.framework == defaults.framework,
        version=versions.key(coordinates.branch),
        is_default_engine=coordinates.engine == defaults.engine,
    )


def _prefer(candidates: list[Coordinates], dimension: str, preferred: str) -> list[Coordinates]:
    values = list(dict.fromkeys(getattr(item, dimension) for item in candidates))
    choice = preferred if preferred in values else values[0]
    return [item for item in candidates if getattr(item, dimension) == choice]


def _matches(value: str, wanted: str) -> bool:
    return fnmatch.fnmatchcase(value, _spelled(wanted))


def _spelled(wanted: str) -> str:
    # users write 'Atlas 800T A3' as the vendor does
    return wanted.strip().lower().replace(" ", "-")


def _no_such(pattern: str, everything: Sequence[Coordinates]) -> NoMatchError:
    import difflib

    identifiers = [item.id for item in everything]
    near = difflib.get_close_matches(pattern, identifiers, n=3, cutoff=0.3) or identifiers[:3]
    return NoMatchError(f"no environment is named '{pattern}'", hint="nearest: " + ", ".join(near))


def _no_combination(matrix: Matrix, filters: Filters, pattern: str | None) -> NoMatchError:
    import difflib

    everything = environments(matrix)
    for dimension, wanted in filters.given().items():
        if not any(_has(matrix, item, dimension, wanted) for item in everything):
            values = (
                list(matrix.root.systems)
                if dimension == "os"
                else list(dict.fromkeys(getattr(item, dimension) for item in everything))
            )
            near = difflib.get_close_matches(_spelled(wanted), [*values, *_other_names(matrix, dimension)], n=1)
            known = f"did you mean '{near[0]}'?" if near else "known: " + ", ".join(values)
            return NoMatchError(f"no environment has the {dimension} '{wanted}'", hint=known)
    wanted = " ".join(f"--{'hw' if name == 'hardware' else name} {value}" for name, value in filters.given().items())
    score = {
        item: sum(_has(matrix, item, name, value) for name, value in filters.given().items()) for item in everything
    }
    near = [item.id for item in sorted(everything, key=lambda item: -score[item])[:3]]
    return NoMatchError(
        f"no environment fits {' '.join(filter(None, (pattern, wanted)))}", hint="nearest: " + ", ".join(near)
    )


def _other_names(matrix: Matrix, dimension: str) -> list[str]:
    """Return the names of a dimension that are not in identifiers."""
    hardware = matrix.hardware.values() if dimension == "hardware" else ()
    return [name for item in hardware for name in (*item.aliases, *item.products)]
