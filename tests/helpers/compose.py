"""The schema of compose files."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any


def compose_schema() -> dict[str, Any]:
    """Return the schema that the project publishes, from a package that contains it."""
    folder = files("check_jsonschema") / "builtin_schemas" / "vendor"
    found: dict[str, Any] = json.loads((folder / "compose-spec.json").read_text(encoding="utf-8"))
    return found
