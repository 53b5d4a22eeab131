"""Renders plans as Dockerfiles."""

from __future__ import annotations

from collections.abc import Iterator

from envbuilder.network import UV_SETTINGS
from envbuilder.plan import Layer, Plan, Stage, Step
from envbuilder.plan.plan import SOURCE_DATE_EPOCH
from envbuilder.render.text import Quoted, comment, needs, outer

DOCKERFILE = "Dockerfile"
# settings of uv, which installs into the Python of the image
_SETTINGS = " ".join(f"{name}={value}" for name, value in {"UV_SYSTEM_PYTHON": "1", **UV_SETTINGS}.items())
# an empty folder of every image
_FETCHED = "/mnt"
# the longest line of mounts
_LINE = 121


def render_dockerfile(plan: Plan) -> str:
    return outer("Dockerfile.j2", mounts=mounts).render(plan=plan, settings=_SETTINGS, epoch=str(SOURCE_DATE_EPOCH))


def build_context(plan: Plan) -> dict[str, str]:
    """Return all text files for `docker build` by their path in the build context."""
    return {DOCKERFILE: render_dockerfile(plan), **plan.files}


def render_packages(plan: Plan) -> str:
    """Return a Dockerfile that collects the packages of the distribution as a repository for apt-get."""
    layer = Layer("packages", (Step("gather-packages", {"packages": plan.system_packages}),))
    stage = Stage("packages", None, (layer,))
    return outer("packages.Dockerfile.j2", mounts=mounts).render(
        plan=plan, stage=stage, layer=layer, settings=_SETTINGS, epoch=str(SOURCE_DATE_EPOCH)
    )


def mounts(layer: Layer, plan: Plan) -> Quoted:
    """Return the mounts that the steps of a layer need, in lines of a readable length."""
    lines = [""]
    for mount in _mounts(layer, plan):
        if len(lines[-1]) + len(mount) > _LINE:
            lines.append("")
        lines[-1] += f"--mount=type={comment(mount)} "
    return Quoted("    ".join(f"{line}\\\n" for line in lines if line) + ("    " if lines[0] else ""))


def _mounts(layer: Layer, plan: Plan) -> Iterator[str]:
    wanted = needs(layer)
    if "network" in wanted:
        yield from (f"secret,id={name}" for name in ("network", "ca", *plan.more_secrets))
    if "network" in wanted and plan.offline:
        yield f"bind,source={plan.offline},target=/run/envbuilder/{plan.offline}"
    if "uv" in wanted:
        yield "cache,target=/root/.cache/uv"
    for folder in sorted({path.partition("/")[0] for path in layer.reads}):
        whole = {path for path in plan.files if path.startswith(f"{folder}/")}
        if whole and whole <= set(layer.reads):
            yield f"bind,source={folder},target={folder}"
            continue
        # a mounted file leaves the time of the build at its folder, unless that is a mount too
        yield f"tmpfs,target={folder}"
        yield from (f"bind,source={path},target={path}" for path in layer.reads if path.startswith(f"{folder}/"))
    if "fetched" in wanted:
        yield f"tmpfs,target={_FETCHED}"
    if layer == plan.last_layer and plan.kept_files:
        yield "tmpfs,target=in"
        yield from (f"bind,source={path},target=in/{path}" for path in plan.kept_files)
    if layer.wheels:
        yield "bind,from=wheels,target=wheels"
    if layer.after:
        yield f"bind,from={layer.after},source={_FETCHED},target={_FETCHED}"
