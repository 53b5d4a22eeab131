"""Finds the environment that is closest to a report."""

from __future__ import annotations

from collections.abc import Mapping

from envbuilder import versions
from envbuilder.environment import Catalog, Environment
from envbuilder.machine.chips import family_of

# how strongly an equal version of a component points to a row
_FRAMEWORK, _ENGINE = 4, 6
_WEIGHTS = {"torch_npu": 4, "cann": 4, "torch": 3, "transformers": 2, "triton_ascend": 1, "python": 1}
# an equal version of Python is not enough to choose a row
_TOO_LITTLE = _WEIGHTS["python"]


def closest(catalog: Catalog, facts: Mapping[str, str]) -> Environment | None:
    """Return the environment whose versions are most like those of a report, or None if the report has too few.

    Among equals the default framework, environments with evidence, and newer branches are preferred.
    """
    family = family_of(catalog.chips, facts["chip"]) if "chip" in facts else None
    rows = [
        row
        for row in catalog.environments
        if not row.hardware.cpu_only
        and (family is None or row.hardware.family == family)
        and facts.get("arch", row.coordinates.arch) == row.coordinates.arch
    ]
    engines = {row.engine.engine for row in rows if {row.engine.engine, row.engine.plugin} & facts.keys()}
    frameworks = {row.framework.component for row in rows if row.framework.component in facts}
    rows = [row for row in rows if not engines or row.engine.engine in engines]
    rows = [row for row in rows if not frameworks or row.framework.component in frameworks]
    scores = [_score(row, facts) for row in rows]
    best = max(scores, default=0.0)
    if best <= _TOO_LITTLE and family is None:
        return None

    def rank(row: Environment) -> tuple[bool, bool, versions.Key]:
        return row.is_default_framework, bool(row.evidence), versions.key(row.coordinates.branch)

    return max((row for row, score in zip(rows, scores, strict=True) if score == best), key=rank, default=None)


def _score(row: Environment, facts: Mapping[str, str]) -> float:
    own = {row.framework.component: _FRAMEWORK, row.engine.engine: _ENGINE, row.engine.plugin: _ENGINE}
    return sum(
        weight * _likeness(pin, facts[name])
        for name, weight in {**_WEIGHTS, **own}.items()
        if name in facts and (pin := row.version(name)) is not None
    )


def _likeness(left: str, right: str) -> float:
    """Return 1 for the same release, less for another build of it and for the same series, and 0 otherwise."""
    if versions.same(left, right):
        return 1.0
    if versions.series(left, 3) == versions.series(right, 3):
        return 0.6
    return 0.3 if versions.series(left) == versions.series(right) else 0.0
