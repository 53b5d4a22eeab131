"""Writes a report as one self-contained HTML page, with the training curves as inline charts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envbuilder.render.chart import BLUE, Frame, Goal, Panel, Picture, Series, draw, is_drawable, svg
from envbuilder.render.page import render_page
from envbuilder.validate.report import LEVELS, Report

_WIDTH, _HEIGHT = 440, 230
_FRAME = Frame(left=62, top=38, right=_WIDTH - 14, bottom=_HEIGHT - 44)
# the metrics that a run is judged by, in the order of the page
_SHOWN = {"reward": "mean reward", "loss": "policy loss", "gradient": "gradient norm", "divergence": "KL divergence"}


def page(report: Report) -> str:
    """Return a report as HTML."""
    return render_page("report.html.j2", report=report, levels=LEVELS, charts=list(_charts(report)))


def _charts(report: Report) -> Iterator[str]:
    """Yield each training curve that has at least two points, as SVG."""
    training = report.training
    if training is None:
        return
    goal = None
    if training.reward_first is not None:
        value = training.reward_first + training.reward_margin
        goal = Goal(value, f"{value:.3g} must be reached")
    for name, title in _SHOWN.items():
        values = training.curves.get(name, ())
        if sum(map(is_drawable, values)) > 1:
            yield svg(_picture(title, values, goal if name == "reward" else None))


def _picture(title: str, values: Sequence[float], goal: Goal | None) -> Picture:
    panel = Panel(title, range(1, len(values) + 1), [Series("curve", values, BLUE)], goal=goal)
    # describes the curve to readers who cannot see it
    ends = f"from {values[0]:.3g} to {values[-1]:.3g}" + (f", {goal.text}" if goal else "")
    return Picture(f"{title} by step, {ends}", _WIDTH, _HEIGHT, tuple(draw(panel, _FRAME)))
