"""Renders HTML pages from templates, with every value escaped."""

from __future__ import annotations

from typing import Any

import jinja2

from envbuilder import paths


def render_page(name: str, **values: Any) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(paths.templates()), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    return environment.get_template(name).render(values)
