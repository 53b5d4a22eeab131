"""Widths of texts on a terminal, where a Chinese character takes two columns."""

from __future__ import annotations

import re

# a Chinese character with the punctuation that may not begin a line, or a word
_WORD = r"[\u3000-\u9fff][，。；：！？、）”》]*\s?|[^\s\u3000-\u9fff]+[。、》]*\s?"


def columns(text: str) -> int:
    """Return the width of a text in columns of a terminal."""
    if text.isascii():
        return len(text)
    # it loads slowly, and most texts are ASCII
    import unicodedata

    return sum(1 + (unicodedata.east_asian_width(sign) in "WF") for sign in text)


def padded(text: str, width: int) -> str:
    return text + " " * (width - columns(text))


def lines(text: str, width: int) -> list[str]:
    """Return a text as lines of at most `width` columns; a line ends after a word or a Chinese character."""
    found = [""]
    for word in re.findall(_WORD, " ".join(text.split())):
        if columns(found[-1] + word.rstrip()) > width and found[-1].strip():
            found.append("")
        found[-1] += word
    return [line.rstrip() for line in found]
