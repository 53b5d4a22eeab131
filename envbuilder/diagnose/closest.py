"""The environment that a report is nearest to."""

from __future__ import annotations

from collections.abc import Mapping

from envbuilder import versions
from envbuilder.doctor.chips import family_of
from envbuilder.environment import Catalog, Environment

# what tells rows apart beside framework and engine, and how well
_FRAMEWORK, _ENGINE = 4, 6
_WEIGHTS = {"torch_npu": 4, "cann": 4, "torch": 3, "transformers": 2, "triton_ascend": 1, "python": 1}
# Python alone tells nothing
_TELLING = _WEIGHTS["python"]


def closest(catalog: Catalog, facts: Mapping[str, str]) -> Environment | None:
    """By the versions that are seen; of equals one that at least resolves, and the newest. None where nothing tells."""
    family = family_of(catalog.chips, facts["chip"]) if "chip" in facts else None
    candidates = [
        environment
        for environment in catalog.environments
        if not environment.hardware.rehearsal
        and (family is None or environment.hardware.family == family)
        and facts.get("arch", environment.coordinates.arch) == environment.coordinates.arch
    ]
    engines = {x.engine.engine for x in candidates if {x.engine.engine, x.engine.plugin} & facts.keys()}
    frameworks = {x.framework.component for x in candidates if x.framework.component in facts}
    candidates = [x for x in candidates if not engines or x.engine.engine in engines]
    candidates = [x for x in candidates if not frameworks or x.framework.component in frameworks]
    scored = [(_score(environment, facts), environment) for environment in candidates]
    best = max((score for score, _ in scored), default=0.0)
    if best <= _TELLING and family is None:
        return None

    def rank(environment: Environment) -> tuple[bool, bool, versions.Key]:
        branch = environment.coordinates.branch
        return environment.is_default_framework, bool(environment.evidence), versions.key(branch)

    return max((x for score, x in scored if score == best), key=rank, default=None)


def _score(environment: Environment, facts: Mapping[str, str]) -> float:
    found = 0.0
    own = {environment.framework.component: _FRAMEWORK, environment.engine.engine: _ENGINE}
    for name, weight in {**_WEIGHTS, **own, environment.engine.plugin: _ENGINE}.items():
        pin, seen = environment.version(name), facts.get(name)
        if pin is not None and seen is not None:
            found += weight * likeness(pin, seen)
    return found


def likeness(left: str, right: str) -> float:
    """1 for one release, less for builds around it and for the same series, nothing for another one."""
    if versions.same(left, right):
        return 1.0
    ours, theirs = (versions.public(version).split(".") for version in (left, right))
    return 0.6 if ours[:3] == theirs[:3] else 0.3 if ours[:2] == theirs[:2] else 0.0
