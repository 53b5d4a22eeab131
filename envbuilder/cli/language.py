"""Help and messages in the language of the user, from catalogues of gettext; {} in one of them stands for a value.

Identifiers, codes, and everything that programs read stay as they are.
"""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

_FOLDER = Path(__file__).parents[1] / "locale"
# in the order in which gettext asks them
_VARIABLES = ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
_ENTRY = re.compile(r'^msgid "(?P<text>(?:[^"\\]|\\.)+)"\nmsgstr "(?P<other>(?:[^"\\]|\\.)*)"$', re.MULTILINE)


class Catalogue(NamedTuple):
    texts: dict[str, str]
    # texts with values, the most specific first
    patterns: list[tuple[re.Pattern[str], str]]


def translated(text: str) -> str:
    """Return a text in the language of the user, or as it is where the catalogue does not have it."""
    found = _catalogue(_language())
    if found is None or not text:
        return text
    exact = found.texts.get(" ".join(text.split()))
    if exact is not None:
        return exact
    for pattern, other in found.patterns:
        if match := pattern.fullmatch(text):
            return other.format(*match.groups())
    return text


def read(language: str) -> dict[str, str]:
    """Return the catalogue of a language: the texts of the code, each with its translation."""
    file = _FOLDER / language / "LC_MESSAGES" / "envbuilder.po"
    if not file.is_file():
        return {}
    entries = _ENTRY.finditer(file.read_text(encoding="utf-8"))
    return {_unescaped(entry["text"]): _unescaped(entry["other"]) for entry in entries}


@cache
def _catalogue(language: str) -> Catalogue | None:
    texts = read(language) if language.isalpha() else {}
    if not texts:
        return None
    templates = sorted((text for text in texts if "{}" in text), key=len, reverse=True)
    patterns = [(re.compile(re.escape(text).replace(r"\{\}", "(.+)"), re.DOTALL), texts[text]) for text in templates]
    return Catalogue(texts, patterns)


def _language() -> str:
    value = next((os.environ[name] for name in _VARIABLES if os.environ.get(name)), "")
    return re.split(r"[:_.@]", value)[0].lower()


def _unescaped(text: str) -> str:
    return text.replace('\\"', '"').replace("\\\\", "\\")
