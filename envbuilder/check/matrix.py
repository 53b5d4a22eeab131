"""Rules on the matrices as a whole."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from envbuilder import versions
from envbuilder.check.finding import Finding
from envbuilder.check.rule import matrix_rule
from envbuilder.errors import Where
from envbuilder.matrix import Matrix


@matrix_rule("duplicate")
def duplicate(matrix: Matrix) -> Iterator[Finding]:
    """A release is listed twice, a row names one hardware twice, or two branches are the same version."""
    for component in matrix.components.values():
        releases: dict[Hashable, Where] = {}
        for release in component.releases:
            yield from _repeated(
                releases,
                versions.key(release.version),
                release.where,
                f"{component.title} {release.version}",
                component.name,
            )
    branches: dict[Hashable, Where] = {}
    for branch in matrix.branches:
        yield from _repeated(
            branches,
            (branch.framework, versions.key(branch.name)),
            branch.where,
            branch.title,
            branch.framework,
        )
        for engine, row in branch.engines.items():
            hardware: dict[Hashable, Where] = {}
            for name in row.hardware:
                yield from _repeated(hardware, name, row.where, f"{name} in {branch.title} with {engine}", name)


def _repeated(seen: dict[Hashable, Where], key: Hashable, where: Where, what: str, component: str) -> Iterator[Finding]:
    if key in seen:
        yield Finding("error", f"{what} is listed twice", f"first at {seen[key]}", components=(component,), where=where)
    seen.setdefault(key, where)
