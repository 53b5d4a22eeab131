"""The same plan as a script for a host, into a virtual environment under a prefix."""

from __future__ import annotations

from envbuilder.host import MISLEADING, installing_from
from envbuilder.plan import Plan
from envbuilder.render.text import outer


def render_script(plan: Plan) -> str:
    return outer("install.sh.j2").render(plan=plan, misleading=MISLEADING, installing_from=installing_from)
