"""Generates JSON Schemas for editors from the model, so that they always agree with the loader."""

from __future__ import annotations

from typing import Any

from envbuilder.matrix.model import (
    Branch,
    Chips,
    Component,
    Engine,
    EvidenceFile,
    Framework,
    Hardware,
    Host,
    KnownWheels,
    Recipe,
    Root,
    SmokeRun,
    Symptoms,
)
from envbuilder.matrix.record import Record
from envbuilder.matrix.types import record_of

KINDS: dict[str, type[Record]] = {
    "matrix": Root,
    "chips": Chips,
    "hardware": Hardware,
    "compat": Component,
    "engine": Engine,
    "framework": Framework,
    "branch": Branch,
    "evidence": EvidenceFile,
    "smoke": SmokeRun,
    "recipe": Recipe,
    "host": Host,
    "symptoms": Symptoms,
    "wheels": KnownWheels,
}


def schema(kind: str) -> dict[str, Any]:
    definitions: dict[str, Any] = {}
    reference = record_of(KINDS[kind]).schema(definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"envbuilder {kind}",
        **reference,
        "$defs": definitions,
    }
