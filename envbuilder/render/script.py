"""The same plan as a script for a host, into a virtual environment under a prefix."""

from __future__ import annotations

import json

from envbuilder import process
from envbuilder.network import UV_SETTINGS, installing_from
from envbuilder.plan import Plan
from envbuilder.render.text import outer


def render_activation(plan: Plan) -> str:
    """What a shell sources to use the installation, but for the line that says where that is."""
    return outer("activate.sh.j2").render(plan=plan)


def render_installation(plan: Plan) -> str:
    """What an installation says of itself, in the words of an image's labels."""
    return json.dumps({"environment": plan.environment, "labels": dict(plan.labels)}, indent=2)


def render_script(plan: Plan) -> str:
    return outer("install.sh.j2").render(
        plan=plan,
        process=process,
        installing_from=installing_from,
        uv_settings=UV_SETTINGS,
        installation=render_installation(plan),
    )
