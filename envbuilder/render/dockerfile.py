"""Renders plans as Dockerfiles."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import replace

from envbuilder.network import UV_SETTINGS
from envbuilder.plan import Layer, Plan, Stage, Step
from envbuilder.render.text import Quoted, comment, needs, outer

DOCKERFILE = "Dockerfile"
# for every command of a build: it has no device, byte code would only make layers larger, and uv, which installs into
# the Python of the image, has its cache on another file system
_SETTINGS = {
    "BASH_ENV": "/run/secrets/network",
    "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "UV_SYSTEM_PYTHON": "1",
    "UV_LINK_MODE": "copy",
    **UV_SETTINGS,
}
# the instructions that BuildKit counts as steps of a stage
_STEPS = re.compile(r"^(?:FROM (?P<parent>\S+) AS (?P<stage>\S+)|(?P<run>RUN)|(?:COPY|WORKDIR)) ?")


def render_dockerfile(plan: Plan, kept: Collection[str] = ()) -> str:
    """Return the Dockerfile; the build context has the wheels of the stages in `kept`."""
    if plan.project is not None:
        return outer("project.Dockerfile.j2", mounts=mounts).render(
            plan=plan, stage=plan.stages[-1], settings=_SETTINGS
        )
    ends = [stage for stage in plan.stages if stage.makes_wheels or stage == plan.stages[-1]]
    used = {stage.name for end in ends if end.name not in kept for stage in plan.lineage(end)}
    stages = [stage for stage in plan.stages if stage.name in {*used, *kept}]
    return outer("Dockerfile.j2", mounts=mounts).render(plan=plan, stages=stages, kept=kept, settings=_SETTINGS)


def build_context(plan: Plan, kept: Collection[str] = ()) -> dict[str, str]:
    """Return all text files for `docker build` by their path in the build context."""
    return {DOCKERFILE: render_dockerfile(plan, kept), **plan.files}


def build_steps(plan: Plan, dockerfile: str) -> dict[tuple[str, int], Layer]:
    """Return the layers by the stage and number that BuildKit gives to their steps."""
    layers = {stage.name: iter(stage.layers) for stage in plan.stages}
    found: dict[tuple[str, int], Layer] = {}
    stage, number = "", 0
    for match in filter(None, map(_STEPS.match, dockerfile.splitlines())):
        if match["stage"]:
            # BuildKit counts FROM only in a stage that begins with the base image
            stage, number = match["stage"], int(match["parent"] == "${BASE_IMAGE}")
            continue
        number += 1
        layer = next(layers.get(stage, iter(())), None) if match["run"] else None
        if layer is not None:
            found[stage, number] = layer
    return found


def render_packages(plan: Plan) -> str:
    """Return a Dockerfile that collects the packages of the distribution as a repository for apt-get."""
    layer = Layer("packages", (Step("gather-packages", {"packages": plan.system_packages}),))
    stage = Stage("packages", None, (layer,))
    # they are for a build without a network, but are collected with one
    online = replace(plan, offline=None)
    return outer("packages.Dockerfile.j2", mounts=mounts).render(
        plan=online, stage=stage, layer=layer, settings=_SETTINGS
    )


def mounts(layer: Layer, plan: Plan) -> Quoted:
    """Return the mounts that the steps of a layer need: the secrets in one line, and one line for each other mount."""
    wanted = needs(layer)
    secrets = [f"secret,id={name}" for name in plan.secrets] if "network" in wanted else []
    lines = [secrets, *([item] for item in _mounts(layer, plan, wanted))]
    texts = (" ".join(f"--mount=type={comment(item)}" for item in line) for line in lines if line)
    return Quoted("".join(f"{text} \\\n    " for text in texts))


def _mounts(layer: Layer, plan: Plan, wanted: set[str]) -> Iterator[str]:
    if "network" in wanted and plan.offline:
        yield f"bind,source={plan.offline},target=/run/envbuilder/{plan.offline}"
    if "uv" in wanted:
        yield "cache,target=/root/.cache/uv"
    for path in layer.reads:
        yield f"bind,source={path},target={path}"
    if layer.wheels:
        yield "bind,from=wheels,target=wheels"
