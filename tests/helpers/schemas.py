"""The schemas that projects publish for their files."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any


def published_schema(name: str) -> dict[str, Any]:
    """Return a schema from a package that contains those of many projects."""
    folder = files("check_jsonschema") / "builtin_schemas" / "vendor"
    found: dict[str, Any] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return found
