"""Finds releases on the package index, and in repositories, that are newer than those in the matrices."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from envbuilder import versions
from envbuilder.environment import Environment
from envbuilder.environment.packages import requirements_of, source_components
from envbuilder.files import write_text
from envbuilder.lock.index import Index
from envbuilder.matrix import Matrix
from envbuilder.matrix.model import Component
from envbuilder.upstream.git import names_of

_VERSION = re.compile(r"v?\d+(\.\d+)*(\.?(post|rc)\.?\d+)*")
_RELEASE = re.compile(r"- \{?version: '?([^',}]+)")


@dataclass(frozen=True)
class Newer:
    """Releases of a component that are newer than any of their series in the compat tables."""

    component: str
    known: str
    newer: tuple[str, ...]


@dataclass(frozen=True)
class Allowed:
    """A pin for which the index has a newer version that no component of the row forbids."""

    row: str
    package: str
    pinned: str
    newest: str


def newer_releases(
    matrix: Matrix, index: Index, tagged: Callable[[Component], Iterable[str]] = lambda _: ()
) -> Iterator[Newer]:  # fmt: skip
    """Yield the releases without a row or without their pairings; `tagged` has those of components on no index.

    A candidate of a compat table has no pairings yet, so that it is reported until a person has looked them up.
    """
    for component in matrix.components.values():
        if component.kind == "vendor" or not component.releases:
            continue
        ordered = sorted(_known(matrix, component), key=versions.key)
        newest = {versions.series(version): version for version in ordered}
        floor = min(_pinned(matrix, component) or ordered[-1:], key=versions.key)
        # a series that is not in the table was left out on purpose, unless it is newer than the whole table
        found = [
            version
            for version in (index.versions(component.index_name) if component.on_index else tagged(component))
            if versions.key(version) > versions.key(newest.get(versions.series(version), ordered[-1]))
            and versions.key(version) > versions.key(floor)
            and ".dev" not in version
            and "+" not in version
        ]
        if found:
            yield Newer(component.name, ordered[-1], tuple(sorted(found, key=versions.key)))


def _known(matrix: Matrix, component: Component) -> list[str]:
    """Return the releases that have what a row needs; those of a framework have a row."""
    rows = [
        branch.name for branch in matrix.branches if matrix.frameworks[branch.framework].component == component.name
    ]
    known = [release.version for release in component.releases if release.status == "known"]
    return rows or known or [release.version for release in component.releases]


def _pinned(matrix: Matrix, component: Component) -> list[str]:
    parts = (part for branch in matrix.branches for part in (branch, *branch.engines.values(), *branch.overrides))
    return [part.pins[component.name].version for part in parts if component.name in part.pins]


def tagged_releases(component: Component, mirror: str | None) -> list[str]:
    """Return the releases of a component by the tags of its repository, or by its release branches."""
    if component.repository is None:
        return []
    prefix = component.branch_prefix or component.tag_prefix or ""
    names = names_of(component.repository, mirror, "heads" if component.branch_prefix else "tags")
    own = (name.removeprefix(prefix) for name in names if name.startswith(prefix))
    return [name for name in own if _VERSION.fullmatch(name)]


def allowed_upgrades(environments: Iterable[Environment], index: Index) -> Iterator[Allowed]:
    """Yield newer versions that the components of a row allow, except for packages with a compat table."""
    seen = set()
    for environment in environments:
        row = f"{environment.branch.title} with {environment.engine.engine}"
        limits: dict[str, list[str]] = {}
        for _, release in source_components(environment):
            for requirement in requirements_of(release, environment):
                limits.setdefault(requirement.name, []).append(requirement.specifier)
        for name, pin in environment.pins.items():
            # skipped: packages with a compat table, pins with a reason, and packages that no component limits
            skipped = environment.component(name) is not None or pin.because is not None or name not in limits
            if (row, name) in seen or skipped or not environment.is_wheel(name):
                continue
            seen.add((row, name))
            fitting = [
                version
                for version in index.versions(environment.distribution(name))
                if not versions.is_prerelease(version)
                and all(versions.satisfies(version, limit) for limit in limits[name])
            ]
            if fitting and versions.key(fitting[-1]) > versions.key(pin.version):
                yield Allowed(row, name, pin.version, fitting[-1])


def write_candidates(folder: Path, matrix: Matrix, found: Newer) -> bool:
    """Add candidates to a compat table, in the order of versions, and return whether the file changed."""
    name = f"compat/{found.component}.yaml"
    lines = matrix.files[name].path.read_text(encoding="utf-8").splitlines()
    prefix = "v" if found.known.startswith("v") else ""
    table = matrix.components[found.component]
    for version in (item.removeprefix("v") for item in found.newer if table.release(item) is None):
        later = (
            number
            for number, line in enumerate(lines)
            if (release := _RELEASE.match(line)) and versions.key(release[1]) > versions.key(version)
        )
        lines.insert(next(later, len(lines)), f"- {{version: {prefix}{version}, status: candidate}}")
    return write_text(folder / name, "\n".join(lines) + "\n")
