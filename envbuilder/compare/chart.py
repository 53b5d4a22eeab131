"""A comparison as a picture: what is drawn and where, whatever it is drawn with."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal, TypeAlias

from envbuilder.compare.result import Comparison
from envbuilder.compare.runs import Pair

WIDTH, _PANEL, _HEAD, _FOOT = 880, 270, 84, 12
_LEFT, _RIGHT, _ABOVE, _BELOW = 76, 24, 38, 44
INK, FAINT, RULE, PAPER = "#1f2933", "#64748b", "#e3e8ee", "#ffffff"
NPU_COLOUR, GPU_COLOUR, BAND_COLOUR = "#2563eb", "#c2660c", "#fbe3c8"
GOOD, BAD = "#15803d", "#b91c1c"
# more would run into each other
_DOTS = 40
_HUGE, _LONG = 1e300, 1e7
Point: TypeAlias = tuple[float, float]


@dataclass(frozen=True)
class Area:
    points: Sequence[Point]
    colour: str
    name: str = ""


@dataclass(frozen=True)
class Curve:
    points: Sequence[Point]
    colour: str
    width: float = 1.0
    name: str = ""
    # a dot at each point, of this radius
    dots: float = 0.0


@dataclass(frozen=True)
class Label:
    at: Point
    text: str
    size: int = 12
    colour: str = INK
    anchor: Literal["start", "middle", "end"] = "start"
    bold: bool = False


Shape: TypeAlias = Area | Curve | Label


@dataclass(frozen=True)
class Picture:
    title: str
    height: int
    shapes: tuple[Shape, ...]


@dataclass(frozen=True)
class _Panel:
    title: str
    told: str
    colour: str
    pair: Pair
    band: Sequence[tuple[float, float]]


def picture(found: Comparison) -> Picture:
    panels = list(_panels(found))
    shapes = [*_head(found)]
    for number, panel in enumerate(panels):
        shapes += _drawn(panel, _HEAD + number * _PANEL)
    return Picture(_title(found), _HEAD + len(panels) * _PANEL + _FOOT, tuple(shapes))


def _title(found: Comparison) -> str:
    text = f"{PurePath(found.npu).name} against {PurePath(found.gpu).name}"
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)


def _panels(found: Comparison) -> Iterator[_Panel]:
    for item in found.metrics:
        colour = FAINT if item.limit is None else GOOD if item.ok else BAD
        yield _Panel(f"{item.name}  ({item.pair.key})", item.told, colour, item.pair, list(item.band()))
    if found.throughput is not None and all(item.name != found.throughput.pair.name for item in found.metrics):
        pair, ratio = found.throughput.pair, found.throughput.ratio
        told = "" if ratio is None else f"ratio {ratio:.3f}"
        yield _Panel(f"{pair.name}  ({pair.key}), {found.throughput.when}", told, FAINT, pair, ())


def _head(found: Comparison) -> Iterator[Shape]:
    yield Label((_LEFT, 32), _shortened(_title(found), 70), 18, bold=True)
    yield Label((WIDTH - _RIGHT, 32), found.verdict, 18, GOOD if found.passed else BAD, "end", bold=True)
    place = float(_LEFT)
    reference = "reference" if found.doubt else "GPU"
    for text, colour, thick in (("NPU", NPU_COLOUR, 2.5), (reference, GPU_COLOUR, 2.5), ("limit", BAND_COLOUR, 11)):
        yield Curve(((place, 58), (place + 26, 58)), colour, thick)
        yield Label((place + 33, 62), text, 13, FAINT)
        place += 58 + 8 * len(text)


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _drawn(panel: _Panel, top: float) -> Iterator[Shape]:
    high, low = top + _ABOVE, top + _PANEL - _BELOW
    values = [*panel.pair.npu, *panel.pair.gpu, *(value for pair in panel.band for value in pair)]
    rows = ticks(*_span([value for value in values if _has_place(value)]), 5)
    columns = [tick for tick in ticks(*_span(panel.pair.steps), 10) if tick == int(tick)]
    across = _scale(*_span(panel.pair.steps), _LEFT, WIDTH - _RIGHT)
    up = _scale(rows[0], rows[-1], low, high)
    yield Label((_LEFT, top + 22), panel.title, 14, bold=True)
    yield Label((WIDTH - _RIGHT, top + 22), panel.told, 12, panel.colour, "end")
    yield from _band(panel, across, up)
    digits = max(0, -math.floor(math.log10(rows[1] - rows[0]) + 1e-9))
    for tick in rows:
        yield Curve(((_LEFT, up(tick)), (WIDTH - _RIGHT, up(tick))), RULE)
        text = f"{tick:.{digits}f}" if abs(tick) < _LONG else f"{tick:.3g}"
        yield Label((_LEFT - 8, up(tick) + 4), text, 11, FAINT, "end")
    for tick in columns:
        if panel.pair.steps[0] <= tick <= panel.pair.steps[-1]:
            yield Curve(((across(tick), low), (across(tick), low + 4)), FAINT)
            yield Label((across(tick), low + 18), f"{tick:.0f}", 11, FAINT, "middle")
    yield Curve(((_LEFT, low), (WIDTH - _RIGHT, low)), FAINT)
    yield Label(((_LEFT + WIDTH - _RIGHT) / 2, low + 34), "step", 11, FAINT, "middle")
    dots = 2.6 if len(panel.pair.steps) <= _DOTS else 0.0
    for name, curve, colour in (("gpu", panel.pair.gpu, GPU_COLOUR), ("npu", panel.pair.npu, NPU_COLOUR)):
        for points in _unbroken(panel.pair.steps, curve, across, up):
            yield Curve(points, colour, 2.0, name, dots or (2.6 if len(points) == 1 else 0.0))


def _band(panel: _Panel, across: Callable[[float], float], up: Callable[[float], float]) -> Iterator[Area]:
    rows = [
        (across(step), up(low), up(high))
        for step, (low, high) in zip(panel.pair.steps, panel.band, strict=False)
        if _has_place(low) and _has_place(high)
    ]
    if len(rows) == 1:
        rows = [(rows[0][0] - 12, *rows[0][1:]), (rows[0][0] + 12, *rows[0][1:])]
    if rows:
        points = [(at, high) for at, _, high in rows] + [(at, low) for at, low, _ in reversed(rows)]
        yield Area(points, BAND_COLOUR, "band")


def _unbroken(
    steps: Sequence[int], values: Sequence[float], across: Callable[[float], float], up: Callable[[float], float]
) -> Iterator[list[Point]]:
    """A curve ends where a value is not a number, and goes on after it."""
    points: list[Point] = []
    for step, value in zip(steps, values, strict=True):
        if _has_place(value):
            points.append((across(step), up(value)))
        elif points:
            yield points
            points = []
    if points:
        yield points


def _has_place(value: float) -> bool:
    """What is not finite has none, nor what no difference can be taken of."""
    return abs(value) < _HUGE


def _span(values: Sequence[float]) -> tuple[float, float]:
    """With some room where there is only one value."""
    low, high = (float(min(values)), float(max(values))) if values else (0.0, 1.0)
    room = 0.0 if high > low else abs(high) * 0.05 or 0.5
    return low - room, high + room


def ticks(low: float, high: float, about: int) -> list[float]:
    """Round numbers that reach over both ends, as many as asked for or a few less."""
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * part for part in (1, 2, 5, 10) if power * part >= raw * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    return lambda value: round(start + (value - low) / (high - low) * (end - start), 2)
