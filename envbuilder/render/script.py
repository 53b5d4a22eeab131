"""Renders plans as scripts that install into a virtual environment on a host."""

from __future__ import annotations

import json

from envbuilder import process
from envbuilder.network import UV_SETTINGS, installing_from
from envbuilder.plan import Plan
from envbuilder.plan.plan import TOOLS
from envbuilder.render.text import outer


def render_activation(plan: Plan) -> str:
    """Return the script that activates an installation, without the line that sets its prefix."""
    return outer("activate.sh.j2").render(plan=plan)


def render_installation(plan: Plan) -> str:
    """Return the description of an installation, with the same labels as an image."""
    return json.dumps({"environment": plan.environment, "labels": dict(plan.labels)}, indent=2)


def render_script(plan: Plan) -> str:
    return outer("install.sh.j2").render(
        plan=plan,
        tools=TOOLS,
        process=process,
        installing_from=installing_from,
        uv_settings=UV_SETTINGS,
        installation=render_installation(plan),
    )
