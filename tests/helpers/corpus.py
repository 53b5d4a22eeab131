"""Real samples in a folder beside the project, if it exists: each with its expected reading."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "corpus"


class Sample(NamedTuple):
    name: str
    text: str
    truth: dict[str, Any]
    entry: dict[str, Any]


def samples(kind: str) -> list[Any]:
    """Return the samples for a parametrised test, or one that is skipped if there are none."""
    index = FOLDER / kind / "INDEX.yaml"
    if not index.exists():
        skip = pytest.mark.skip(reason=f"needs the samples of ../shared/corpus/{kind}")
        return [pytest.param(Sample("absent", "", {}, {}), marks=skip)]
    return [
        Sample(entry["file"], (index.parent / entry["file"]).read_text(encoding="utf-8"), entry["truth"], entry)
        for entry in yaml.safe_load(index.read_text(encoding="utf-8"))
    ]
