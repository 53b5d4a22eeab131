"""Messages in the language of the user: templates with named fields, translated where a message is made.

The catalogues are those of gettext, read as text. Identifiers, codes and what programs read stay English.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

ENGLISH, CHINESE = "en", "zh"
_FOLDER = Path(__file__).with_name("locale")
# in the order in which gettext reads them
_VARIABLES = ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
_ENTRY = r'^msgid "((?:[^"\\]|\\.)+)"\nmsgstr "((?:[^"\\]|\\.)+)"$'
# languages that override the variables, the present one last; None is the language of the variables
_spoken: list[str | None] = []


class English(str):
    """A message in English, for files that stay English; `tr` translates it."""

    template: str
    fields: Mapping[str, object]


def tr(template: str, /, **fields: object) -> str:
    """Return the translation of a template, or the template itself, filled with the fields.

    A text without fields is not a template, so that it may have braces.
    """
    if isinstance(template, English):
        return tr(template.template, **template.fields)
    text = _texts().get(template, template)
    values = {name: tr(value) if isinstance(value, English) else value for name, value in fields.items()}
    return text.format_map(values) if fields else text


def english(template: str, /, **fields: object) -> English:
    """Return a message in English that can be translated later."""
    text = English(template.format_map(fields) if fields else template)
    text.template, text.fields = template, fields
    return text


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: 1 error, 2 errors."""
    several = f"{{number}} {noun}s"
    one = several if several in _texts() or number != 1 else f"{{number}} {noun}"
    return tr(one, number=number)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question with the most similar of the known names, and a space; empty if none is similar."""
    # the import is slow, and most runs have no error
    import difflib

    similar = difflib.get_close_matches(name, known, n=1)
    return tr("did you mean '{name}'? ", name=similar[0]) if similar else ""


def and_more(names: Sequence[str], number: int) -> str:
    """Return names, and the number of those that are not shown."""
    shown = ", ".join(names)
    return tr("{names} and {number} more", names=shown, number=number) if number > 0 else shown


def speak(language: str | None) -> None:
    """Use a language from now on instead of that of the variables; None is that of the variables."""
    _spoken.append(language)


@contextmanager
def speaking(language: str | None) -> Iterator[None]:
    """Use a language in the block. A `speak` inside the block also ends with it."""
    before = _spoken[:]
    speak(language)
    try:
        yield
    finally:
        _spoken[:] = before


@cache
def read(language: str) -> dict[str, str]:
    """Return the catalogue of a language: the texts of the code, each with its translation."""
    return {
        _unescaped(text): _unescaped(other)
        for file in sorted((_FOLDER / language / "LC_MESSAGES").glob("*.po"))
        for text, other in re.findall(_ENTRY, file.read_text(encoding="utf-8"), re.MULTILINE)
    }


def _texts() -> Mapping[str, str]:
    if _spoken and (language := _spoken[-1]):
        return read(language)
    value = next((os.environ[name] for name in _VARIABLES if os.environ.get(name)), "")
    language = re.split(r"[:_.@]", value)[0].lower()
    return read(language) if language.isalpha() else {}


def _unescaped(text: str) -> str:
    return text.replace('\\"', '"').replace("\\\\", "\\")
