"""The Dockerfile of a plan."""

from __future__ import annotations

from envbuilder.plan import Plan
from envbuilder.render.text import outer


def render_dockerfile(plan: Plan) -> str:
    return outer("Dockerfile.j2").render(plan=plan)
