"""Reads metric files: one JSON document per step, a table with a column per metric, or a baseline of means."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from envbuilder.errors import UsageError
from envbuilder.language import tr
from envbuilder.trainlog.console import NUMBER
from envbuilder.trainlog.step import LoggedStep

# names of the step number in trackers, in lower case
_STEP_NAMES = ("step", "global_step", "training/global_step", "train/global_step", "_step", "iteration")
# trackers name a column `run - metric`, and add columns with the range of the values behind each point
_RUN = re.compile(r"^.* - (?=\S+$)")
_RANGE = re.compile(r"__(?:MIN|MAX)$")
_MEAN = re.compile(rf"\s*([\w./()@-]+)\s*:\s*(?:[a-z]+\.?\w*\()?({NUMBER})\)?\s*", re.IGNORECASE)


def read_jsonl(text: str) -> tuple[list[LoggedStep], int]:
    """Return the steps, and how many lines are not JSON; the last line may be cut and is not counted.

    A line is `{"step": 1, "data": {...}}`, or has everything in one mapping.
    """
    lines = [line.strip().rstrip(",") for line in text.splitlines() if line.strip()]
    found = [_json(line) for line in lines]
    steps = [step for item in found if isinstance(item, dict) and (step := _json_step(item)) is not None]
    return steps, sum(item is None for item in found[:-1])


def _json(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _json_step(found: dict[str, Any]) -> LoggedStep | None:
    nested = found.get("data")
    if not isinstance(nested, dict):
        return _step(found)
    # verl writes NaN as null
    return _step({**found, **{name: math.nan if value is None else value for name, value in nested.items()}})


def read_csv(text: str) -> list[LoggedStep]:
    """Return the steps of a table, or none if the first line does not name columns, with the step as one of them."""
    lines = text.splitlines()
    rows = csv.DictReader(lines, delimiter=max(",;\t", key=next(iter(lines), "").count))
    try:
        names = rows.fieldnames or ()
        metrics = {_column(name).lower() for name in names}
        if len(metrics) < 2 or metrics.isdisjoint(_STEP_NAMES):
            return []
        _check_columns([name for name in names if not _RANGE.search(name)])
        found = [_step({_column(name): value for name, value in row.items()}) for row in rows]
    except csv.Error:
        return []
    return [step for step in found if step is not None]


def _check_columns(names: Sequence[str]) -> None:
    for name in {_column(item) for item in names}:
        columns = [item for item in names if _column(item) == name]
        if len(columns) > 1:
            raise UsageError(
                tr("the table has {name} of several runs: {columns}", name=name, columns=", ".join(columns)),
                hint=tr("export only one run"),
            )


def _column(name: str | None) -> str:
    """Return the metric that a column is named after; range columns keep their suffix, which marks them."""
    return _RUN.sub("", (name or "").strip())


def _step(values: Mapping[str, Any]) -> LoggedStep | None:
    """Return the step of a row, or None if the row has no step number."""
    lower = {name.lower(): value for name, value in values.items()}
    number = next((found for name in _STEP_NAMES if (found := _number(lower.get(name))) is not None), None)
    if number is None or not math.isfinite(number) or number != int(number):
        return None
    numbers = {name: _number(value) for name, value in values.items() if not _RANGE.search(name)}
    return LoggedStep(int(number), {name: value for name, value in numbers.items() if value is not None})


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def read_means(text: str) -> dict[str, float]:
    """Return the means of a baseline, which has `name:value` on every line and nothing else."""
    lines = [line for line in text.splitlines() if line.strip()]
    found = [match for line in lines if (match := _MEAN.fullmatch(line))]
    return {match[1]: float(match[2]) for match in found} if len(found) == len(lines) else {}
