"""Texts in the columns of a terminal, of which a Chinese character takes two."""

from __future__ import annotations

import re

# a Chinese character with the punctuation that may not begin a line, or a word
_WORD = r"[\u3000-\u9fff][，。；：！？、）”》]*\s?|[^\s\u3000-\u9fff]+[。、》]*\s?"


def columns(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
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
