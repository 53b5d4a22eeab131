"""Finds the symptoms of the matrices in a text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from envbuilder.matrix.model import Symptom


def seen_in(symptoms: Iterable[Symptom], text: str) -> Iterator[Symptom]:
    """Yield the symptoms that a text shows."""
    for symptom in symptoms:
        if _any(symptom.patterns, text) and not _any(symptom.unless, text):
            yield symptom


def _any(patterns: Iterable[str], text: str) -> bool:
    return any(re.search(pattern, text, re.IGNORECASE) for pattern in patterns)
