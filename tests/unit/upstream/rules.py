"""A rule of reading for tests."""

from __future__ import annotations

from typing import Any

from envbuilder.errors import Where
from envbuilder.matrix.model.reads import Read


def rule(reader: Any, **values: Any) -> Read:
    return Read(name="x", reader=reader, files=("x",), where=Where("x"), **values)
