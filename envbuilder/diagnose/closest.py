"""Finds the environment that is closest to a report."""

from __future__ import annotations

from collections.abc import Mapping

from envbuilder import versions
from envbuilder.environment import Catalog, Environment
from envbuilder.machine.chips import family_of

# how strongly an equal version of a component points to a row
_FRAMEWORK, _ENGINE = 4, 6
_WEIGHTS = {"torch_npu": 4, "cann": 4, "torch": 3, "transformers": 2, "triton_ascend": 1, "python": 1}
# the version of Python alone is not enough to choose a row
_TOO_LITTLE = _WEIGHTS["python"]


def closest(catalog: Catalog, facts: Mapping[str, str]) -> Environment | None:
    """Return the environment whose versions are most like those of a report, or None if the report has too few.

    Among equals the default framework, environments with evidence, and newer branches are preferred.
    """
    family = family_of(catalog.chips, facts["chip"]) if "chip" in facts else None
    candidates = [
        environment
        for environment in catalog.environments
        if not environment.hardware.cpu_only
        and (family is None or environment.hardware.family == family)
        and facts.get("arch", environment.coordinates.arch) == environment.coordinates.arch
    ]
    engines = {x.engine.engine for x in candidates if {x.engine.engine, x.engine.plugin} & facts.keys()}
    frameworks = {x.framework.component for x in candidates if x.framework.component in facts}
    candidates = [x for x in candidates if not engines or x.engine.engine in engines]
    candidates = [x for x in candidates if not frameworks or x.framework.component in frameworks]
    scored = [(_score(environment, facts), environment) for environment in candidates]
    best = max((score for score, _ in scored), default=0.0)
    if best <= _TOO_LITTLE and family is None:
        return None

    def rank(environment: Environment) -> tuple[bool, bool, versions.Key]:
        branch = environment.coordinates.branch
        return environment.is_default_framework, bool(environment.evidence), versions.key(branch)

    return max((x for score, x in scored if score == best), key=rank, default=None)


def _score(environment: Environment, facts: Mapping[str, str]) -> float:
    score = 0.0
    own = {environment.framework.component: _FRAMEWORK, environment.engine.engine: _ENGINE}
    for name, weight in {**_WEIGHTS, **own, environment.engine.plugin: _ENGINE}.items():
        pin, seen = environment.version(name), facts.get(name)
        if pin is not None and seen is not None:
            score += weight * likeness(pin, seen)
    return score


def likeness(left: str, right: str) -> float:
    """Return 1 for the same release, less for another build of it and for the same series, and 0 otherwise."""
    if versions.same(left, right):
        return 1.0
    if versions.series(left, 3) == versions.series(right, 3):
        return 0.6
    return 0.3 if versions.series(left) == versions.series(right) else 0.0
