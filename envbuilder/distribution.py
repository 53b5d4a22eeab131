"""How envbuilder was installed, so that every hint names what exists in that installation."""

from __future__ import annotations

import sys

from envbuilder import paths

# the name on the package index; `envbuilder` is another project there
NAME = "ascend-envbuilder"
# in the paths of the environments that these tools make, and what installs one anew
_TOOLS = {"/uv/tools/": "uv tool install --force", "/pipx/": "pipx install --force"}


def with_extra(extra: str) -> str:
    """Return the command that adds an extra to this installation."""
    if paths.is_checkout():
        return f"pip install --editable '.[{extra}]', in the checkout"
    install = next((command for place, command in _TOOLS.items() if place in f"{sys.prefix}/"), "pip install")
    return f"{install} '{NAME}[{extra}]'"


def starts_an_engine() -> str:
    """Return the hint for a machine on which no docker engine answers."""
    more = "; tools/engine.sh starts a private one" if paths.is_checkout() else ""
    return f"start one (systemctl start docker), or set DOCKER_HOST{more}"
