"""The same plan as a script for a host, into a virtual environment under a prefix."""

from __future__ import annotations

from envbuilder.plan import Plan
from envbuilder.render.text import outer


def render_script(plan: Plan) -> str:
    return outer("install.sh.j2").render(plan=plan)
