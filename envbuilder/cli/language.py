"""Help and messages in the language of the user, from catalogues of gettext; {} in one of them stands for a value.

Identifiers, codes, and everything that programs read stay as they are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

_FOLDER = Path(__file__).parents[1] / "locale"
# in the order in which gettext asks them
_VARIABLES = ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
# a Chinese character with the punctuation that may not begin a line, or a word
_WORD = r"[\u3000-\u9fff][，。；：！？、）”》]*\s?|[^\s\u3000-\u9fff]+[。、》]*\s?"
CHINESE = "zh"
_spoken: list[str] = []
_PLURAL = r"\{\} (?P<noun>\w+)s"
_ENTRY = r'^msgid "(?P<text>(?:[^"\\]|\\.)+)"\nmsgstr "(?P<other>(?:[^"\\]|\\.)*)"$'


class Template(NamedTuple):
    """A text with values: its first words, what it looks like, and its translation."""

    begins: str
    pattern: re.Pattern[str]
    other: str


class Catalogue(NamedTuple):
    texts: dict[str, str]
    # the longest first
    templates: list[Template]


def translated(text: str) -> str:
    """Return a text in the language of the user, or as it is where the catalogue does not have it."""
    found = _catalogue(_language())
    if found is None or not text:
        return text
    exact = found.texts.get(" ".join(text.split()))
    if exact is not None:
        return exact
    # a value may be a message itself, such as the cause of another one: the words of the outer message come first,
    # unless a value is known as a whole
    ordered = sorted(found.templates, key=lambda item: text.find(item.begins))
    fitting = [(item, match.groups()) for item in ordered if (match := item.pattern.fullmatch(text))]
    if not fitting:
        return text
    template, values = min(fitting, key=lambda item: not found.texts.keys() & set(item[1]))
    return template.other.format(*map(translated, values))


def columns(text: str) -> int:
    """Return how many columns of a terminal a text takes: a Chinese character takes two."""
    if text.isascii():
        return len(text)
    # it takes a while to load, and most texts are plain
    import unicodedata

    return sum(1 + (unicodedata.east_asian_width(sign) in "WF") for sign in text)


def padded(text: str, width: int) -> str:
    return text + " " * (width - columns(text))


def lines(text: str, width: int) -> list[str]:
    """Return a text as lines of at most so many columns; it may end a line after a word or a Chinese character."""
    found = [""]
    for word in re.findall(_WORD, " ".join(text.split())):
        if columns(found[-1] + word.rstrip()) > width and found[-1].strip():
            found.append("")
        found[-1] += word
    return [line.rstrip() for line in found]


def read(language: str) -> dict[str, str]:
    """Return the catalogue of a language: the texts of the code, each with its translation."""
    return {
        _unescaped(entry["text"]): _unescaped(entry["other"])
        for file in sorted((_FOLDER / language / "LC_MESSAGES").glob("*.po"))
        for entry in re.finditer(_ENTRY, file.read_text(encoding="utf-8"), re.MULTILINE)
    }


@cache
def _catalogue(language: str) -> Catalogue | None:
    texts = read(language) if language.isalpha() else {}
    if not texts:
        return None
    longest_first = sorted((text for text in texts if "{}" in text), key=len, reverse=True)
    templates = [Template(_first_words(text), _pattern(text), texts[text]) for text in longest_first]
    return Catalogue(texts, templates)


def _first_words(template: str) -> str:
    return next((part for part in template.split("{}") if re.search("[a-z]", part)), "")


def _pattern(template: str) -> re.Pattern[str]:
    """Return what a text with values looks like; that of a number and a noun fits one and several."""
    if plural := re.fullmatch(_PLURAL, template):
        return re.compile(rf"(\d+) {plural['noun']}s?")
    return re.compile(re.escape(template).replace(r"\{\}", "(.+?)"), re.DOTALL)


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """Use a language for a while, whatever the variables say."""
    _spoken.append(language)
    try:
        yield
    finally:
        _spoken.pop()


def _language() -> str:
    if _spoken:
        return _spoken[-1]
    value = next((os.environ[name] for name in _VARIABLES if os.environ.get(name)), "")
    return re.split(r"[:_.@]", value)[0].lower()


def _unescaped(text: str) -> str:
    return text.replace('\\"', '"').replace("\\\\", "\\")
