"""Writes commands as text for a shell: every value quoted, one option on a line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

# expands to the interface of the default route, for users who name none
DEFAULT_ROUTE = "$(awk '$2 == \"00000000\" {print $1; exit}' /proc/net/route)"
_HOME = re.compile(r"(\$HOME)(?![A-Za-z0-9_])")
_END = "END_OF_PROGRAM"


def quoted(word: str) -> str:
    """Return a word quoted for a shell, which expands only $HOME and DEFAULT_ROUTE in it."""
    if word == DEFAULT_ROUTE:
        return f'"{word}"'
    pieces = [piece for piece in _HOME.split(word) if piece]
    return "".join('"$HOME"' if piece == "$HOME" else shlex.quote(piece) for piece in pieces) or "''"


def line(words: Iterable[str]) -> str:
    return " ".join(map(quoted, words))


def command(first: Sequence[str], options: Iterable[Sequence[str]] = ()) -> str:
    return " \\\n  ".join(map(line, (first, *options)))


def program(words: Sequence[str], source: str) -> str:
    """Return a command whose interpreter reads its program from standard input, so that no file is needed."""
    return f"{line(words)} <<'{_END}'\n{source.rstrip()}\n{_END}"


def exports(variables: Mapping[str, str]) -> str:
    return "".join(f"export {name}={quoted(value)}\n" for name, value in variables.items())
