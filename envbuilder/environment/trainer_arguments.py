"""The settings of a trainer. A name may begin with a mark: `+` adds a key that the configuration lacks."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PLAIN = re.compile(r"[\w/\\+.$%*@?|: -]*", re.ASCII)


def bare(key: str) -> str:
    """Return the name without its mark."""
    return key.lstrip("+-")


def merged(base: Mapping[str, str], *changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return all settings; later ones replace earlier ones, whatever their marks, and None removes a setting."""
    found: dict[str, tuple[str, str]] = {}
    for settings in (base, *changes):
        for key, value in settings.items():
            if value is None:
                found.pop(bare(key), None)
            else:
                found[bare(key)] = key, value
    return dict(found.values())


def literal(style: str, text: str) -> str:
    """Return a value with quotes if the trainer needs them: Hydra gives a meaning to most punctuation."""
    if style != "assignment" or (_PLAIN.fullmatch(text) and text == text.strip()):
        return text
    # a backslash is literal, except before a quote
    escaped = re.sub(r"(\\*)('|\Z)", lambda found: found[1] * 2 + found[2].replace("'", "\\'"), text)
    return f"'{escaped}'"


def words_of(style: str, key: str, value: str) -> list[str]:
    """Return the arguments of the trainer for a setting."""
    if style == "assignment":
        return [f"{key}={value}"]
    return [f"--{key}", *([value] if value else [])]
