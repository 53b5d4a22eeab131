"""Lists all environments, and selects those that a user names."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from envbuilder import versions
from envbuilder.errors import NoMatchError, UsageError
from envbuilder.matrix import Matrix
from envbuilder.matrix.model import Arch, Branch


class Coordinates(NamedTuple):
    """The five dimensions of an environment. The identifier is built from them and never parsed."""

    framework: str
    branch: str
    engine: str
    hardware: str
    arch: Arch

    @property
    def id(self) -> str:
        return "-".join(self)


class Filters(NamedTuple):
    """The dimensions that a user gives; None admits any value."""

    framework: str | None = None
    branch: str | None = None
    engine: str | None = None
    hardware: str | None = None
    arch: str | None = None

    def given(self) -> dict[str, str]:
        return {name: value for name, value in self._asdict().items() if value is not None}

    def admits(self, coordinates: Coordinates) -> bool:
        return all(_matches(getattr(coordinates, name), value) for name, value in self.given().items())


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
            if not found:
                raise _no_such(pattern, everything)
            named.update(dict.fromkeys(found))
        chosen = list(named)
    return chosen if filters is None else [item for item in chosen if filters.admits(item)]


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
    for dimension, preferred in (
        ("framework", defaults.framework),
        ("hardware", defaults.hardware),
        ("engine", defaults.engine),
    ):
        candidates = _prefer(candidates, dimension, preferred)
    newest = max(candidates, key=lambda item: versions.key(item.branch)).branch
    # arches are in the order of the file of the hardware; the first is its default
    return next(item for item in candidates if item.branch == newest)


def _prefer(candidates: list[Coordinates], dimension: str, preferred: str) -> list[Coordinates]:
    values = list(dict.fromkeys(getattr(item, dimension) for item in candidates))
    choice = preferred if preferred in values else values[0]
    return [item for item in candidates if getattr(item, dimension) == choice]


def _matches(value: str, wanted: str) -> bool:
    # users write 'Atlas 800T A3' as the vendor does
    return fnmatch.fnmatchcase(value, wanted.strip().lower().replace(" ", "-"))


def _no_such(pattern: str, everything: Sequence[Coordinates]) -> NoMatchError:
    import difflib

    identifiers = [item.id for item in everything]
    near = difflib.get_close_matches(pattern, identifiers, n=3, cutoff=0.3) or identifiers[:3]
    return NoMatchError(f"no environment is named '{pattern}'", hint="nearest: " + ", ".join(near))


def _no_combination(matrix: Matrix, filters: Filters, pattern: str | None) -> NoMatchError:
    import difflib

    everything = environments(matrix)
    for dimension, wanted in filters.given().items():
        values = list(dict.fromkeys(getattr(item, dimension) for item in everything))
        if not any(_matches(value, wanted) for value in values):
            near = difflib.get_close_matches(wanted, values, n=1)
            known = f"did you mean '{near[0]}'?" if near else "known: " + ", ".join(values)
            return NoMatchError(f"no environment has the {dimension} '{wanted}'", hint=known)
    wanted = " ".join(f"--{'hw' if name == 'hardware' else name} {value}" for name, value in filters.given().items())
    score = {
        item: sum(_matches(getattr(item, name), value) for name, value in filters.given().items())
        for item in everything
    }
    near = [item.id for item in sorted(everything, key=lambda item: -score[item])[:3]]
    return NoMatchError(
        f"no environment fits {' '.join(filter(None, (pattern, wanted)))}", hint="nearest: " + ", ".join(near)
    )
