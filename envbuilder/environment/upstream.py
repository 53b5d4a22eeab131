"""The images that the project of a framework publishes, and how they differ from an environment."""

from __future__ import annotations

from typing import NamedTuple

from envbuilder import versions
from envbuilder.environment.environment import Environment
from envbuilder.matrix.model import UpstreamTag


class UpstreamImage(NamedTuple):
    name: str
    # whether the release, the engine and the chips are those of the environment
    is_of_row: bool
    differences: tuple[str, ...]


def upstream_images(environment: Environment) -> list[UpstreamImage]:
    """Return all published images of the framework, those of the row first and then the nearer ones."""
    published = environment.framework.upstream
    found = [_compared(environment, published.image, tag) for tag in published.tags] if published else []
    return sorted(found, key=lambda item: (not item.is_of_row, len(item.differences)))


def _compared(environment: Environment, image: str, tag: UpstreamTag) -> UpstreamImage:
    release = environment.framework.component
    theirs = {"engine": tag.engine, "chips": tag.family, release: "of its development branch", **tag.versions}
    own = {"engine": environment.coordinates.engine, "chips": environment.hardware.family}
    ours = {name: own.get(name) or environment.version(name) or "none" for name in theirs}
    different = {name for name in theirs if not versions.same(theirs[name], ours[name])}
    return UpstreamImage(
        name=f"{image}:{tag.tag}",
        is_of_row=not different & {"engine", "chips", release},
        differences=tuple(f"{name} {theirs[name]}, not {ours[name]}" for name in theirs if name in different),
    )
