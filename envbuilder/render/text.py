"""How values enter rendered text. Nothing does without being quoted for the place it enters.

Inside a step every expression passes through shlex.quote by itself. Around the steps (`outer`) an expression
must say what it is: `word` for a Dockerfile value, `comment` for prose, `body` for a step; a bare one is refused.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import jinja2

from envbuilder import resources
from envbuilder.errors import MatrixError, Problem, Where
from envbuilder.plan import Layer, Step


class Quoted(str):
    """Text that may enter as it is."""

    __slots__ = ()


def quoted(values: str | Iterable[str]) -> Quoted:
    """Shell words."""
    return Quoted(shlex.join([values] if isinstance(values, str) else values))


def word(value: str) -> Quoted:
    """One value of a Dockerfile instruction: no expansion, no second word."""
    return Quoted('"' + re.sub(r'([\\"$])', r"\\\1", _one_line(value)) + '"')


def comment(value: str) -> Quoted:
    """Prose behind a #, on one line whatever it holds."""
    return Quoted(_one_line(value))


def _one_line(value: str) -> str:
    return " ".join("".join(character if character.isprintable() else " " for character in value).split())


def body(layer: Layer) -> Quoted:
    """The commands of a layer, one per line, each depending on the one before."""
    lines = [line for step in layer.steps for line in _commands(step)]
    return Quoted(" && \\\n    ".join(lines))


def _commands(step: Step) -> list[str]:
    """A line of a template is a command; one that ends in a backslash goes on in the next."""
    rendered = _step_template(step.kind).render(step.values)
    joined = re.sub(r"\\\n\s*", "\\\\\n      ", rendered)
    return [line for line in re.split(r"(?<!\\)\n", joined) if line.strip()]


def _quote_all(value: Any) -> Any:
    return value if isinstance(value, Quoted) else shlex.quote(str(value))


def _refuse_bare(value: Any) -> Any:
    if not isinstance(value, Quoted):
        raise TypeError(f"{value!r} enters a rendered file without being quoted")
    return value


@lru_cache(maxsize=2)
def _environment(kind: str) -> jinja2.Environment:
    steps = kind == "steps"
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(resources.templates() / "steps" if steps else resources.templates()),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701  shell text, not HTML: `finalize` quotes every value
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_quote_all if steps else _refuse_bare,
    )
    environment.filters.update(quoted=quoted, word=word, comment=comment, body=body)
    return environment


@lru_cache(maxsize=64)
def _step_template(kind: str) -> jinja2.Template:
    try:
        return _environment("steps").get_template(f"{kind}.sh.j2")
    except jinja2.TemplateNotFound:
        known = sorted(path.name.removesuffix(".sh.j2") for path in (resources.templates() / "steps").glob("*.sh.j2"))
        problem = Problem(Where(f"templates/steps/{kind}.sh.j2"), f"there is no step '{kind}'")
        raise MatrixError([problem], hint="steps: " + ", ".join(known)) from None


def outer(name: str) -> jinja2.Template:
    """A template around the steps."""
    return _environment("outer").get_template(name)
