"""Finds the symptoms of the matrices in a text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from envbuilder.matrix.model import Symptom


class Seen(NamedTuple):
    """A symptom, and where a text shows it."""

    symptom: Symptom
    at: int


def seen_in(symptoms: Iterable[Symptom], text: str) -> Iterator[Seen]:
    """Yield the symptoms that a text shows, each at its first place."""
    for symptom in symptoms:
        places = [match.start() for match in _matches(symptom.patterns, text)]
        if places and not any(_matches(symptom.unless, text)):
            yield Seen(symptom, min(places))


def _matches(patterns: Iterable[str], text: str) -> Iterator[re.Match[str]]:
    for pattern in patterns:
        if match := re.search(pattern, text, re.IGNORECASE):
            yield match
