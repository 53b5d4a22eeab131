"""What `uv pip check` says of an environment although everything is as it should be."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from envbuilder.environment.packages import conflicts, distribution, removed_names
from envbuilder.environment.resolve import Environment
from envbuilder.matrix import Matrix
from envbuilder.plan.plan import Source, Step


def consistency(
    matrix: Matrix, environment: Environment, sources: Mapping[str, Source], unmet: Iterable[tuple[str, str]]
) -> Step:
    """Compares them with what uv says."""
    patterns = dict.fromkeys(_patterns(matrix, environment, sources))
    for component, name in unmet:
        patterns[_requires(_spelled(distribution(matrix, component)), name, "")] = None
    return Step("pip-check", {"allowed": tuple(patterns)})


def _patterns(matrix: Matrix, environment: Environment, sources: Mapping[str, Source]) -> Iterator[str]:
    """Extended regular expressions; a dot stands for the quotes that uv puts around names."""
    yield from (
        "^Using Python ",
        "^Checked [0-9]+ ",
        "^Found [0-9]+ incompatib",
        "^All installed packages are compatible",
    )
    for removed in sorted(removed_names(environment)):
        yield _requires("[^ ]+", removed, "it.s not installed")
    for name in environment.pins:
        component = matrix.components.get(name)
        if component is not None and component.wrong_platform_tag:
            yield f"^The package .{_spelled(distribution(matrix, name))}. was built for a different platform"
    for source in sources.values():
        archive = matrix.components[source.component].sdist
        if source.kind == "sdist" and archive is not None and archive.foreign_metadata:
            yield f"^The package .{_spelled(distribution(matrix, source.component))}. requires "
    for forced in environment.lists["force"].values:
        yield _requires("[^ ]+", forced, ".[^ ]+ is installed")
    for conflict in conflicts(matrix, environment):
        if conflict.pin is not None:
            owner = _spelled(distribution(matrix, conflict.owner))
            yield _requires(owner, conflict.requirement.name, ".[^ ]+ is installed")


def _requires(owner: str, name: str, but: str) -> str:
    return f"^The package .{owner}. requires .{_spelled(name)}[^A-Za-z0-9_.-].*, but {but}"


def _spelled(name: str) -> str:
    return "[-_.]".join(re.escape(part) for part in re.split(r"[-_.]", name))
