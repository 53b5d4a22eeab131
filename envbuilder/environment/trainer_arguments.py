"""The settings of a trainer. A name may begin with a mark: `+` adds what a configuration does not have."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PLAIN = re.compile(r"[\w/\\+.$%*@?|: -]*", re.ASCII)


def bare(key: str) -> str:
    """The name without its mark."""
    return key.lstrip("+-")


def merged(base: Mapping[str, str], *changes: Mapping[str, str | None]) -> dict[str, str]:
    """Later ones win, whatever their marks; None takes a setting away."""
    found: dict[str, tuple[str, str]] = {}
    for settings in (base, *changes):
        for key, value in settings.items():
            if value is None:
                found.pop(bare(key), None)
            else:
                found[bare(key)] = key, value
    return dict(found.values())


def literal(style: str, text: str) -> str:
    """A text that is meant as it is written. Hydra reads more into most signs than a shell does."""
    if style != "assignment" or (_PLAIN.fullmatch(text) and text == text.strip()):
        return text
    # a backslash means itself, but before a quote
    escaped = re.sub(r"(\\*)('|\Z)", lambda found: found[1] * 2 + found[2].replace("'", "\\'"), text)
    return f"'{escaped}'"


def words_of(style: str, key: str, value: str) -> list[str]:
    """A setting as the trainer takes it."""
    if style == "assignment":
        return [f"{key}={value}"]
    return [f"--{key}", *([value] if value else [])]
