"""How values enter rendered text. Nothing does without being quoted for the place it enters.

Inside a step every expression passes through shlex.quote by itself. Around the steps (`outer`) an expression
must say what it is: `word` for a Dockerfile value, `comment` for prose, `body` for a step; a bare one is refused.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2

from envbuilder import paths
from envbuilder.errors import MatrixError, Problem, Where
from envbuilder.plan import Layer, Step

_LOCK_LINE = re.compile(
    r"# [ -~]*|[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9._+!-]+ \\|    --hash=sha256:[0-9a-f]{64}( \\)?"
)
# what every step of a source build is told, whether it needs it or not
_ALWAYS_GIVEN = {"component", "into"}


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
    return commands(layer.steps)


def commands(steps: Iterable[Step]) -> Quoted:
    lines = [line for step in steps for line in _commands(step)]
    return Quoted(" && \\\n    ".join(lines))


def lock(text: str) -> Quoted:
    """A lock inside a here-document: only lines that a lock has, so that none can end the document."""
    for number, line in enumerate(text.splitlines(), 1):
        if _LOCK_LINE.fullmatch(line) is None:
            raise MatrixError([Problem(Where("lock", number), f"'{line[:60]}' is not a line of a lock")])
    return Quoted(text.rstrip("\n"))


def _commands(step: Step) -> list[str]:
    """A line of a template is a command; one that ends in a backslash goes on in the next."""
    template, parameters = _step_template(step.kind)
    for problem in _mismatches(step, parameters):
        raise MatrixError([Problem(step.where or Where(f"templates/steps/{step.kind}.sh.j2"), problem)])
    rendered = template.render({**dict.fromkeys(parameters, ""), **step.values})
    joined = re.sub(r"\\\n\s*", "\\\\\n      ", rendered)
    return [line for line in re.split(r"(?<!\\)\n", joined) if line.strip()]


def _mismatches(step: Step, parameters: Mapping[str, str]) -> Iterator[str]:
    for name, value in step.values.items():
        kind = "text" if isinstance(value, str) else "list" if isinstance(value, tuple) else "map"
        wanted = parameters.get(name, "").rstrip("?")
        if wanted != kind and name not in _ALWAYS_GIVEN:
            yield f"step '{step.kind}': '{name}' is {f'a {kind}, not a {wanted}' if wanted else 'no parameter of it'}"
    for name, wanted in parameters.items():
        if name not in step.values and not wanted.endswith("?"):
            yield f"step '{step.kind}' needs the parameter '{name}'"


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
        loader=jinja2.FileSystemLoader(paths.templates() / "steps" if steps else paths.templates()),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701  shell text, not HTML: `finalize` quotes every value
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_quote_all if steps else _refuse_bare,
    )
    filters = (quoted, word, comment, body, commands, lock)
    environment.filters.update({filter_.__name__: filter_ for filter_ in filters})
    return environment


@lru_cache(maxsize=64)
def _step_template(kind: str) -> tuple[jinja2.Template, Mapping[str, str]]:
    """A step's template, and the parameters that its first line declares: `{# name: text, other: list? #}`."""
    environment = _environment("steps")
    try:
        template = environment.get_template(f"{kind}.sh.j2")
    except jinja2.TemplateNotFound:
        known = sorted(path.name.removesuffix(".sh.j2") for path in (paths.templates() / "steps").glob("*.sh.j2"))
        problem = Problem(Where(f"templates/steps/{kind}.sh.j2"), f"there is no step '{kind}'")
        raise MatrixError([problem], hint="steps: " + ", ".join(known)) from None
    first = Path(template.filename or "").read_text(encoding="utf-8").partition("\n")[0]
    return template, dict(re.findall(r"(\w+): (text\??|list\??|map\??)", first))


def outer(name: str) -> jinja2.Template:
    """A template around the steps."""
    return _environment("outer").get_template(name)
