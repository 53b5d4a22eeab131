"""Writes a report as one self-contained HTML page; the template draws the training curves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from envbuilder.render.page import render_page
from envbuilder.validate.report import LEVELS, Report

# beyond this, the difference of two values may not fit into a float
_HUGE = 1e300
# the metrics that a run is judged by, in the order of the page
_SHOWN = {"reward": "mean reward", "loss": "policy loss", "gradient": "gradient norm", "divergence": "KL divergence"}


@dataclass(frozen=True)
class _Chart:
    """A training curve with one value for each step, and the value that it must reach, if there is one."""

    title: str
    values: Sequence[float]
    goal: float | None
    # the rectangle that the curve is drawn in
    width: int = 360
    height: int = 150

    @property
    def shown(self) -> Sequence[float]:
        return [value for value in (*self.values, self.goal) if value is not None and _is_drawable(value)]

    def y(self, value: float) -> float:
        """Return the distance of a value from the top; a curve that does not change is in the middle."""
        low, high = min(self.shown), max(self.shown)
        return round(self.height * (0.5 if math.isclose(low, high) else (high - value) / (high - low)), 1)

    def lines(self) -> Iterator[str]:
        """Yield the points of each run of steps whose values can be drawn."""
        points: list[str] = []
        for at, value in enumerate((*self.values, math.nan)):
            if _is_drawable(value):
                points.append(f"{at * self.width / (len(self.values) - 1):.1f},{self.y(value)}")
            elif points:
                # a browser draws a single point only as a line back to it
                yield " ".join(points if len(points) > 1 else points * 2)
                points = []


def page(report: Report) -> str:
    """Return a report as HTML."""
    return render_page("report.html.j2", report=report, levels=LEVELS, charts=list(_charts(report)))


def _charts(report: Report) -> Iterator[_Chart]:
    """Yield each training curve that has at least two points."""
    training = report.training
    if training is None:
        return
    first = training.reward_first
    goal = first + training.reward_margin if first is not None and _is_drawable(first) else None
    for name, title in _SHOWN.items():
        values = training.curves.get(name, ())
        if sum(map(_is_drawable, values)) > 1:
            yield _Chart(title, values, goal if name == "reward" else None)


def _is_drawable(value: float) -> bool:
    return abs(value) < _HUGE
