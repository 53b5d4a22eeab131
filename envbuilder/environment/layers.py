"""The source builds of an environment: the layers of its engine and its framework that its hardware allows."""

from __future__ import annotations

from dataclasses import dataclass

from envbuilder.environment.environment import Environment
from envbuilder.matrix.model import LayerSpec


@dataclass(frozen=True)
class LeftOut:
    """A layer that an environment does without, and the reason."""

    title: str
    reason: str


def built_components(environment: Environment) -> tuple[str, ...]:
    """Return the components that are built from source."""
    return tuple(dict.fromkeys(spec.component for spec in source_builds(environment)[0]))


def source_builds(environment: Environment) -> tuple[list[LayerSpec], list[LeftOut]]:
    """Return the layers of this environment, and those that are left out."""
    specs: list[LayerSpec] = []
    left_out: list[LeftOut] = []
    for spec in (*environment.engine.layers, *environment.framework.layers):
        if spec.when is not None and not environment.holds(spec.when):
            continue
        if any(other.title in spec.instead_of for other in specs):
            continue
        reason = _reason_against(spec, environment)
        if reason is None:
            specs.append(spec)
        elif reason:
            left_out.append(LeftOut(spec.title, reason))
    return specs, left_out


def _reason_against(spec: LayerSpec, environment: Environment) -> str | None:
    """Return why a layer is left out; an empty reason if the layer that it replaces says the same."""
    missing = [name for name in spec.needs if name not in environment.provides]
    if missing:
        needed = f"needs {' and '.join(missing)}, which {environment.provider} does not provide"
        return "" if spec.instead_of else needed
    for text in spec.defined:
        if not environment.defines(text):
            lacking = text.strip("${}").rpartition(".")[2]
            return f"{spec.component} {environment.version(spec.component)} has no {lacking}"
    return None
