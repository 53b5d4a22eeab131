"""Quotes the values in rendered text, each for its place.

Inside a step, shlex.quote is applied to every expression. Around the steps (`outer`) an expression needs a filter:
`word` for a Dockerfile value, `comment` for prose, `body` for a step. An expression without a filter is refused.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import jinja2

from envbuilder import paths
from envbuilder.errors import MatrixError, Problem, Where
from envbuilder.language import tr
from envbuilder.plan import Layer, Step

_PLAIN = re.compile(r"[A-Za-z0-9_./:@=+,-]+")
# values that every step of a source build gets, even if its template does not use them
_COMMON_VALUES = {"component", "into"}


class Quoted(str):
    """Text that is already quoted."""

    __slots__ = ()


def quoted(values: str | Iterable[str]) -> Quoted:
    """Return values as quoted shell words."""
    return Quoted(shlex.join([values] if isinstance(values, str) else values))


def word(value: str) -> Quoted:
    """Return one value of a Dockerfile instruction, without expansion and as a single word."""
    if _PLAIN.fullmatch(value):
        return Quoted(value)
    return Quoted('"' + re.sub(r'([\\"$])', r"\\\1", _one_line(value)) + '"')


def pairs(values: Mapping[str, str], indent: str) -> Quoted:
    """Return `name=value` pairs for one instruction of a Dockerfile, one per line."""
    return Quoted(f" \\\n{indent}".join(f"{comment(name)}={word(value)}" for name, value in values.items()))


def comment(value: str) -> Quoted:
    """Return prose for a comment, always on one line."""
    return Quoted(_one_line(value))


def _one_line(value: str) -> str:
    return " ".join("".join(character if character.isprintable() else " " for character in value).split())


def body(layer: Layer) -> Quoted:
    """Return the commands of a layer, joined by &&, one per line."""
    commands = (command for step in layer.steps for command in _commands(step))
    return Quoted(" && \\\n    ".join(commands))


def needs(layer: Layer) -> set[str]:
    """Return what the steps of a layer need, as their templates declare it: `network`, `uv`."""
    return {need for step in layer.steps for need in _step_template(step.kind).needs}


def document(text: str) -> Quoted:
    """Return the lines of a here-document, none of which may end it."""
    lines = text.splitlines()
    for line in lines:
        if line.startswith("END OF"):
            raise ValueError(f"'{line}' would end the here-document that it is in")
    return Quoted("".join(f"{line}\n" for line in lines))


def replacement(text: str, by: str) -> str:
    """Return the command of sed that replaces one fixed text by another."""
    # a delimiter that needs no escape is easiest to read; an escaped slash has no other meaning
    delimiter = next((sign for sign in "|/,@~%!" if sign not in text + by), "/")
    pattern = re.sub(rf"([\\.\[*^${delimiter}])", r"\\\1", text)
    # in the new text, & means the replaced text
    parts = [re.sub(rf"([\\&{delimiter}])", r"\\\1", part) for part in by.split(text)]
    return delimiter.join(("s", pattern, "&".join(parts), ""))


def _commands(step: Step) -> list[str]:
    """Return the commands of a step: the lines of its template, joined after a backslash."""
    template, parameters, _ = _step_template(step.kind)
    for problem in _mismatches(step, parameters):
        raise MatrixError([Problem(step.where or Where(f"templates/steps/{step.kind}.sh.j2"), problem)])
    rendered = template.render({**dict.fromkeys(parameters, ""), **step.values})
    joined = re.sub(r"\\\n\s*", "\\\\\n      ", rendered)
    return [line for line in re.split(r"(?<!\\)\n", joined) if line.strip()]


def _mismatches(step: Step, parameters: Mapping[str, str]) -> Iterator[str]:
    for name, value in step.values.items():
        kind = "text" if isinstance(value, str) else "list" if isinstance(value, tuple) else "map"
        wanted = parameters.get(name, "").rstrip("?")
        if wanted != kind and name not in _COMMON_VALUES:
            named = {"step": step.kind, "name": name, "kind": kind, "wanted": wanted}
            yield (
                tr("step '{step}': '{name}' is a {kind}, not a {wanted}", **named)
                if wanted
                else tr("step '{step}': '{name}' is not a parameter", **named)
            )
    for name, wanted in parameters.items():
        if name not in step.values and not wanted.endswith("?"):
            yield tr("step '{step}' needs the parameter '{name}'", step=step.kind, name=name)


def _quote_all(value: Any) -> Any:
    return value if isinstance(value, Quoted) else shlex.quote(str(value))


def _refuse_bare(value: Any) -> Any:
    if not isinstance(value, Quoted):
        raise TypeError(f"{value!r} is not quoted for a rendered file")
    return value


@lru_cache(maxsize=2)
def _environment(kind: str) -> jinja2.Environment:
    steps = kind == "steps"
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(paths.templates() / "steps" if steps else paths.templates()),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701  shell text, not HTML: `finalize` quotes every value
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_quote_all if steps else _refuse_bare,
    )
    filters = (quoted, word, pairs, comment, body, document)
    environment.filters.update({filter_.__name__: filter_ for filter_ in filters})
    environment.globals["replacement"] = replacement
    return environment


class _StepTemplate(NamedTuple):
    template: jinja2.Template
    parameters: Mapping[str, str]
    needs: tuple[str, ...]


@lru_cache(maxsize=64)
def _step_template(kind: str) -> _StepTemplate:
    """Return the template of a step; its first line declares `{# needs: network uv; name: text, other: list? #}`."""
    environment = _environment("steps")
    try:
        template = environment.get_template(f"{kind}.sh.j2")
    except jinja2.TemplateNotFound:
        known = sorted(path.name.removesuffix(".sh.j2") for path in (paths.templates() / "steps").glob("*.sh.j2"))
        problem = Problem(Where(f"templates/steps/{kind}.sh.j2"), tr("there is no step '{kind}'", kind=kind))
        raise MatrixError([problem], hint=tr("steps: {names}", names=", ".join(known))) from None
    first = Path(template.filename or "").read_text(encoding="utf-8").partition("\n")[0]
    needed = re.search(r"needs: ([a-z ]+);", first)
    parameters = dict(re.findall(r"(\w+): (text\??|list\??|map\??)", first))
    return _StepTemplate(template, parameters, tuple(needed[1].split()) if needed else ())


def outer(name: str, **filters: Callable[..., Any]) -> jinja2.Template:
    """Return a template around the steps, which may use these filters."""
    environment = _environment("outer")
    environment.filters.update(filters)
    return environment.get_template(name)
