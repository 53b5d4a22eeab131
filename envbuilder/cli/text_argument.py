"""Texts that a user names by a file, or gives on standard input."""

from __future__ import annotations

import sys
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from contextlib import nullcontext
from io import StringIO
from pathlib import Path

from envbuilder.errors import UsageError
from envbuilder.language import tr

# a report with its logs; a longer text is refused
_MOST_MB, _SAMPLE = 20, 1000


def text_of(name: str) -> str:
    """Return the content of a file, or of standard input for `-`."""
    try:
        with nullcontext(sys.stdin.buffer) if name == "-" else Path(name).open("rb") as file:
            content = file.read(_MOST_MB * 10**6 + 1)
    except (OSError, ValueError) as error:  # such as a pipe that can only be written, or a name with a zero byte
        reason = getattr(error, "strerror", None) or error
        raise UsageError(tr("{file} cannot be read: {reason}", file=name, reason=reason)) from error
    if len(content) > _MOST_MB * 10**6:
        message = tr("{file} has more than {size} MB", file=name, size=_MOST_MB)
        raise UsageError(message, hint=tr("give the part with the first error, such as its end: tail -c 1M"))
    return StringIO(_decoded(content), newline=None).read()


def _decoded(content: bytes) -> str:
    """Return a text in UTF-8, or in UTF-16, in which PowerShell writes what it redirects."""
    start = content[:_SAMPLE]
    encoding = "utf-16" if start[:2] in {BOM_UTF16_LE, BOM_UTF16_BE} else "utf-8-sig"
    # without a mark: every second byte of ASCII is zero
    for name, half in (("utf-16-le", start[1::2]), ("utf-16-be", start[::2])):
        if encoding != "utf-16" and half.count(0) * 2 > len(half):
            encoding = name
    return content.decode(encoding, errors="replace")
