"""Charts of training curves: panels are drawn as shapes, and shapes are written as SVG.

The shapes do not depend on the file format, so that the same picture can be written as PNG too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias
from xml.etree import ElementTree

INK, FAINT, RULE, PAPER = "#1f2933", "#64748b", "#e3e8ee", "#ffffff"
BLUE, ORANGE, SAND = "#2563eb", "#c2660c", "#fbe3c8"
GOOD, BAD = "#15803d", "#b91c1c"

_FONT = "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', sans-serif"
# points that are closer together have no dots, as these would overlap
_DOT, _DOT_DISTANCE = 2.6, 19.5
_STEP_LABEL_DISTANCE = 75
_GOAL_ROOM = 16
# beyond these, the difference of two values may not fit into a float
_HUGE, _TINY = 1e300, 1e-300
# values between these are written without an exponent
_SMALL, _LARGE = 1e-3, 1e7

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
    # the radius of a dot at each point
    dots: float = 0.0
    # only in SVG; a PNG has a solid line
    dashed: bool = False


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
    # for screen readers, and shown when the pointer rests on the picture
    title: str
    width: int
    height: int
    shapes: tuple[Shape, ...]


@dataclass(frozen=True)
class Series:
    """A curve of a panel, with one value for each step of the panel."""

    name: str
    values: Sequence[float]
    colour: str


@dataclass(frozen=True)
class Goal:
    """A value that a curve has to reach."""

    value: float
    text: str


@dataclass(frozen=True)
class Panel:
    """The content of a pair of axes; a later series is drawn over an earlier one."""

    title: str
    steps: Sequence[int]
    series: Sequence[Series]
    note: str = ""
    note_colour: str = FAINT
    # the lowest and the highest allowed value of each step
    band: Sequence[tuple[float, float]] = ()
    goal: Goal | None = None


@dataclass(frozen=True)
class Frame:
    """The rectangle between the axes; the title is above it, the ticks are at its left and below it."""

    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True)
class _Axes:
    frame: Frame
    steps: tuple[float, float]
    values: tuple[float, float]

    def x(self, step: float) -> float:
        return _between(step, self.steps, self.frame.left, self.frame.right)

    def y(self, value: float) -> float:
        return _between(value, self.values, self.frame.bottom, self.frame.top)

    def point(self, step: float, value: float) -> Point:
        return self.x(step), self.y(value)


def _between(value: float, span: tuple[float, float], start: float, end: float) -> float:
    low, high = span
    return round(start + (value - low) / (high - low) * (end - start), 2)


def draw(panel: Panel, frame: Frame) -> Iterator[Shape]:
    """Yield the shapes of a panel, those in the background first."""
    rows = ticks(*_span([value for value in _values(panel) if is_drawable(value)]), 5)
    axes = _Axes(frame, _span(panel.steps), (rows[0], rows[-1]))
    yield Label((frame.left, frame.top - 16), panel.title, 14, bold=True)
    if panel.note:
        yield Label((frame.right, frame.top - 16), panel.note, 12, panel.note_colour, "end")
    yield from _band(panel, axes)
    yield from _value_axis(rows, axes)
    yield from _step_axis(panel.steps, axes)
    if panel.goal is not None and is_drawable(panel.goal.value):
        yield from _goal(panel.goal, axes)
    for series in panel.series:
        yield from _curves(series, panel.steps, axes)


def _values(panel: Panel) -> Iterator[float]:
    for series in panel.series:
        yield from series.values
    for limits in panel.band:
        yield from limits
    if panel.goal is not None:
        yield panel.goal.value


def _band(panel: Panel, axes: _Axes) -> Iterator[Area]:
    rows = [
        (axes.x(step), axes.y(low), axes.y(high))
        for step, (low, high) in zip(panel.steps, panel.band, strict=False)
        if is_drawable(low) and is_drawable(high)
    ]
    if len(rows) == 1:
        # an area needs some width to be visible
        rows = [(rows[0][0] - 12, *rows[0][1:]), (rows[0][0] + 12, *rows[0][1:])]
    if rows:
        points = [(x, high) for x, _, high in rows] + [(x, low) for x, low, _ in reversed(rows)]
        yield Area(points, SAND, "band")


def _value_axis(rows: Sequence[float], axes: _Axes) -> Iterator[Shape]:
    left, right = axes.frame.left, axes.frame.right
    for tick, text in zip(rows, tick_labels(rows), strict=True):
        yield Curve(((left, axes.y(tick)), (right, axes.y(tick))), RULE)
        yield Label((left - 8, axes.y(tick) + 4), text, 11, FAINT, "end")


def _step_axis(steps: Sequence[int], axes: _Axes) -> Iterator[Shape]:
    left, right, bottom = axes.frame.left, axes.frame.right, axes.frame.bottom
    yield Curve(((left, bottom), (right, bottom)), FAINT)
    for step in _labelled_steps(steps[0], steps[-1], (right - left) / _STEP_LABEL_DISTANCE):
        yield Curve(((axes.x(step), bottom), (axes.x(step), bottom + 4)), FAINT)
        yield Label((axes.x(step), bottom + 18), f"{step:.0f}", 11, FAINT, "middle")
    yield Label(((left + right) / 2, bottom + 34), "step", 11, FAINT, "middle")


def _labelled_steps(first: int, last: int, about: float) -> list[float]:
    """Return the first step, the last one and round ones between them that leave room for both."""
    if first == last:
        return [first]
    inner = ticks(first, last, min(about, last - first))
    room = (inner[1] - inner[0]) / 2
    return [first, *(step for step in inner if first + room < step < last - room), last]


def _goal(goal: Goal, axes: _Axes) -> Iterator[Shape]:
    left, right, y = axes.frame.left, axes.frame.right, axes.y(goal.value)
    yield Curve(((left, y), (right, y)), GOOD, 1.5, "goal", dashed=True)
    # at the left, where a rising curve is still far below the goal; under the line if the title is close
    below = y - axes.frame.top < _GOAL_ROOM
    yield Label((left + 6, y + 14 if below else y - 6), goal.text, 11, GOOD)


def _curves(series: Series, steps: Sequence[int], axes: _Axes) -> Iterator[Curve]:
    """Yield one curve for each run of steps whose values can be drawn."""
    distance = (axes.frame.right - axes.frame.left) / len(steps)
    points: list[Point] = []
    for step, value in [*zip(steps, series.values, strict=True), (0, math.nan)]:
        if is_drawable(value):
            points.append(axes.point(step, value))
        elif points:
            # a single point is visible only by its dot
            dots = _DOT if distance >= _DOT_DISTANCE or len(points) == 1 else 0.0
            yield Curve(points, series.colour, 2.0, series.name, dots)
            points = []


def is_drawable(value: float) -> bool:
    """Return whether a value fits on an axis: it and its difference from any other value are finite."""
    return abs(value) < _HUGE


def _span(values: Sequence[float]) -> tuple[float, float]:
    """Return the lowest and the highest value, with some room around them if they are practically equal."""
    low, high = (float(min(values)), float(max(values))) if values else (0.0, 1.0)
    largest = max(abs(low), abs(high))
    if high - low > max(largest * 1e-12, _TINY):
        return low, high
    room = largest * 0.05 if largest > _TINY else 0.5
    return low - room, high + room


def ticks(low: float, high: float, about: float) -> list[float]:
    """Return round numbers at equal distances, the first not above `low` and the last not below `high`.

    They divide the span into at most `about` parts, and one more at an end that is not round.
    """
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * part for part in (1, 2, 5, 10) if power * part >= raw * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def tick_labels(rows: Sequence[float]) -> list[str]:
    """Return ticks as text, with enough digits to distinguish them."""
    largest, step = (math.floor(math.log10(value) + 1e-9) for value in (max(map(abs, rows)), rows[1] - rows[0]))
    if _SMALL <= max(map(abs, rows)) < _LARGE:
        return [f"{tick:.{max(0, -step)}f}" for tick in rows]
    return [_with_exponent(tick, largest - step) for tick in rows]


def _with_exponent(value: float, digits: int) -> str:
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.{digits}e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def svg(picture: Picture) -> str:
    """Return a picture as an SVG element, for a file or for a part of a page."""
    root = ElementTree.Element(
        "svg", {"aria-label": picture.title, "font-family": _FONT}, xmlns="http://www.w3.org/2000/svg", role="img",
        viewBox=f"0 0 {picture.width} {picture.height}", width=str(picture.width), height=str(picture.height),
    )  # fmt: skip
    ElementTree.SubElement(root, "title").text = picture.title
    ElementTree.SubElement(root, "rect", width="100%", height="100%", fill=PAPER)
    for shape in picture.shapes:
        if isinstance(shape, Label):
            _svg_text(root, shape)
        elif isinstance(shape, Area):
            points = _svg_points(shape.points)
            ElementTree.SubElement(root, "polygon", {"class": shape.name}, points=points, fill=shape.colour)
        else:
            _svg_curve(root, shape)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _svg_curve(root: ElementTree.Element, shape: Curve) -> None:
    line = ElementTree.SubElement(root, "polyline", points=_svg_points(shape.points), fill="none", stroke=shape.colour)
    line.set("stroke-width", f"{shape.width:g}")
    line.set("stroke-linejoin", "round")
    if shape.dashed:
        line.set("stroke-dasharray", "5 4")
    if shape.name:
        line.set("class", shape.name)
    if shape.dots:
        for x, y in shape.points:
            ElementTree.SubElement(root, "circle", cx=f"{x:g}", cy=f"{y:g}", r=f"{shape.dots:g}", fill=shape.colour)


def _svg_text(root: ElementTree.Element, shape: Label) -> None:
    x, y = shape.at
    text = ElementTree.SubElement(root, "text", x=f"{x:g}", y=f"{y:g}", fill=shape.colour)
    text.set("font-size", str(shape.size))
    text.set("text-anchor", shape.anchor)
    if shape.bold:
        text.set("font-weight", "600")
    text.text = shape.text


def _svg_points(points: Sequence[Point]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in points)
