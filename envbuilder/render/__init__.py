"""Renders a plan as text. A renderer is a function of a plan; a new one is a module and an entry in FORMATS."""

from __future__ import annotations

from collections.abc import Callable

from envbuilder.plan import Layer, Plan
from envbuilder.render.dockerfile import build_context, render_dockerfile, render_packages
from envbuilder.render.script import render_activation, render_installation, render_script
from envbuilder.render.text import body

FORMATS: dict[str, Callable[[Plan], str]] = {"dockerfile": render_dockerfile, "script": render_script}


def commands_of(layer: Layer) -> str:
    """Return the shell commands of a layer, which are the same in every format."""
    return str(body(layer))


__all__ = [
    "FORMATS",
    "build_context",
    "commands_of",
    "render_activation",
    "render_dockerfile",
    "render_installation",
    "render_packages",
    "render_script",
]
