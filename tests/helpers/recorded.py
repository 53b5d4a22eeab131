"""What is judged of the logs of real training runs: `make controls` records it, and unit tests judge it again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from envbuilder.environment import Environment
from envbuilder.trainlog import read_steps

FOLDER = Path(__file__).parents[1] / "recorded"
# the line of `tokens.py` with the answers of transformers and of the engine
ANSWERS = '{"wanted"'
by_hand = pytest.mark.skipif("CONTROLS" not in os.environ, reason="its recorded log is judged: make controls trains it")


def recorded(log: Path, row: Environment, name: str) -> None:
    """Keep the metrics of each step that a recipe names, and the answers of an engine."""
    if "CONTROLS" not in os.environ:
        return
    assert row.smoke_run is not None
    text = log.read_text(encoding="utf-8")
    names = {spelling for spellings in row.smoke_run.metrics.values() for spelling in spellings}
    lines = [line for line in text.splitlines() if line.startswith(ANSWERS)]
    for step in read_steps(text):
        metrics = (f"{metric}:{value!r}" for metric, value in step.metrics.items() if metric in names)
        lines.append(f"step:{step.number} - {' - '.join(metrics)}")
    place = row.coordinates
    file = FOLDER / f"{place.framework}-{place.branch}-{place.engine}-{place.hardware}" / f"{name}.log"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
