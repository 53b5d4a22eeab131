"""Dockerfiles of a plan."""

from __future__ import annotations

from envbuilder.plan import Layer, Plan, Stage, Step
from envbuilder.render.text import outer


def render_dockerfile(plan: Plan) -> str:
    return outer("Dockerfile.j2").render(plan=plan)


def render_packages(plan: Plan) -> str:
    """One that leaves the packages of the distribution, as files that apt-get installs from."""
    layer = Layer("packages", (Step("gather-packages", {"packages": plan.system_packages}),))
    return outer("packages.Dockerfile.j2").render(plan=plan, stage=Stage("packages", None, (layer,)), layer=layer)
