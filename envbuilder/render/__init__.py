"""From a plan to text. A renderer is a function of a plan; a new one is a module and a line in FORMATS."""

from __future__ import annotations

from collections.abc import Callable

from envbuilder.plan import Plan
from envbuilder.render.dockerfile import render_dockerfile
from envbuilder.render.script import render_script

FORMATS: dict[str, Callable[[Plan], str]] = {"dockerfile": render_dockerfile, "script": render_script}

__all__ = ["FORMATS", "render_dockerfile", "render_script"]
