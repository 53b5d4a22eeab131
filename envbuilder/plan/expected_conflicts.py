"""Patterns for the lines that `uv pip check` prints for a correct environment."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from envbuilder.environment import Environment
from envbuilder.plan.plan import SourceArchive


def expected_conflicts(
    environment: Environment, sources: Mapping[str, SourceArchive], unmet: Iterable[tuple[str, str]]
) -> tuple[str, ...]:
    """Return an extended regular expression for each expected line; a dot matches the quotes around names."""
    patterns = dict.fromkeys(_patterns(environment, sources))
    for component, name in unmet:
        patterns[_requires(_spelled(environment.distribution(component)), name, "")] = None
    return tuple(patterns)


def _patterns(environment: Environment, sources: Mapping[str, SourceArchive]) -> Iterator[str]:
    yield from (
        "^Using Python ",
        "^Checked [0-9]+ ",
        "^Found [0-9]+ incompatib",
        "^All installed packages are compatible",
    )
    for removed in (*sorted(environment.removed), *(item.name for item in environment.out_of_reach)):
        yield _requires("[^ ]+", removed, "it.s not installed")
    for name in environment.pins:
        component = environment.component(name)
        if component is not None and component.wrong_platform_tag:
            yield f"^The package .{_spelled(environment.distribution(name))}. was built for a different platform"
    for source in sources.values():
        component = environment.component(source.component)
        if source.kind == "sdist" and component and component.sdist and component.sdist.foreign_metadata:
            yield f"^The package .{_spelled(environment.distribution(source.component))}. requires "
    for forced in environment.lists["force"].values:
        yield _requires("[^ ]+", forced, ".[^ ]+ is installed")
    for conflict in environment.conflicts:
        if conflict.pin is not None:
            owner = _spelled(environment.distribution(conflict.owner))
            yield _requires(owner, conflict.requirement.name, ".[^ ]+ is installed")


def _requires(owner: str, name: str, but: str) -> str:
    return f"^The package .{owner}. requires .{_spelled(name)}[^A-Za-z0-9_.-].*, but {but}"


def _spelled(name: str) -> str:
    return "[-_.]".join(re.escape(part) for part in re.split(r"[-_.]", name))
