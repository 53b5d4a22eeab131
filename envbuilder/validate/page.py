"""A report as one page that needs nothing else: the curves are drawn into it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from envbuilder.render.page import render_page
from envbuilder.validate.report import LEVELS, Report

_WIDTH, _HEIGHT = 420, 180
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 10, 12, 26
# of the metrics that a run is judged by, in the order of the page
_SHOWN = {"reward": "mean reward", "loss": "policy loss", "gradient": "gradient norm", "divergence": "KL divergence"}


@dataclass(frozen=True)
class Chart:
    title: str
    points: str
    # where lines and words go, as (position, text)
    rows: tuple[tuple[float, str], ...]
    columns: tuple[tuple[float, str], ...]
    # the height that the curve has to reach
    goal: float | None


def page(report: Report) -> str:
    return render_page(
        "report.html.j2", report=report, levels=LEVELS, charts=_charts(report), width=_WIDTH, height=_HEIGHT,
        left=_LEFT, right=_WIDTH - _RIGHT, top=_TOP, bottom=_HEIGHT - _BOTTOM,
    )  # fmt: skip


def _charts(report: Report) -> list[Chart]:
    training = report.training
    if training is None:
        return []
    goal = None if training.reward_first is None else training.reward_first + training.reward_margin
    return [
        chart(title, values, goal if name == "reward" else None)
        for name, title in _SHOWN.items()
        if len(values := [value for value in training.curves.get(name, ()) if math.isfinite(value)]) > 1
    ]


def chart(title: str, values: Sequence[float], goal: float | None = None) -> Chart:
    reached = [*values, *([goal] if goal is not None else [])]
    low, high = min(reached), max(reached)
    reach = (high - low) or 1.0

    def height(value: float) -> float:
        return round(_HEIGHT - _BOTTOM - (value - low) / reach * (_HEIGHT - _BOTTOM - _TOP), 1)

    def place(step: int) -> float:
        return round(_LEFT + (step - 1) / (len(values) - 1) * (_WIDTH - _LEFT - _RIGHT), 1)

    ticks = [low + reach * part / 4 for part in range(5)]
    steps = sorted({1, len(values), *(round(len(values) * part / 4) for part in (1, 2, 3))} - {0})
    return Chart(
        title=title,
        points=" ".join(f"{place(step)},{height(value)}" for step, value in enumerate(values, 1)),
        rows=tuple((height(value), f"{value:.3g}") for value in ticks),
        columns=tuple((place(step), str(step)) for step in steps),
        goal=None if goal is None else height(goal),
    )
