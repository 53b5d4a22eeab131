"""Charts: their axes, labels, gaps, goals and bands, and their SVG."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from envbuilder.render.chart import (
    FAINT,
    GOOD,
    Area,
    Curve,
    Frame,
    Goal,
    Label,
    Panel,
    Picture,
    Series,
    Shape,
    draw,
    svg,
    tick_labels,
    ticks,
)

FRAME = Frame(50, 40, 450, 140)
SVG = "{http://www.w3.org/2000/svg}"
NAN = float("nan")


def drawn(*values: float, goal: Goal | None = None, band: list[tuple[float, float]] | None = None) -> list[Shape]:
    panel = Panel("reward", range(1, len(values) + 1), [Series("a", values, GOOD)], goal=goal, band=band or [])
    return [*draw(panel, FRAME)]


def curves(shapes: list[Shape], name: str = "a") -> list[Curve]:
    return [shape for shape in shapes if isinstance(shape, Curve) and shape.name == name]


def labels(shapes: list[Shape], anchor: str) -> list[str]:
    return [shape.text for shape in shapes if isinstance(shape, Label) and (shape.anchor, shape.size) == (anchor, 11)]


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [(0.0, 1.0, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]), (-0.03, 0.02, [-0.03, -0.02, -0.01, 0.0, 0.01, 0.02]), (3.0, 47.0, [0, 10, 20, 30, 40, 50])],
)  # fmt: skip
def test_ticks_are_round_and_reach_over_both_ends(low: float, high: float, wanted: list[float]) -> None:
    assert ticks(low, high, 5) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        ([0.0, 0.1, 0.2], ["0.0", "0.1", "0.2"]),
        ([0, 20, 40], ["0", "20", "40"]),
        ([-0.0002, 0.0, 0.0002], ["-2e-4", "0", "2e-4"]),
        ([1.0e-12, 1.5e-12, 2.0e-12], ["1.0e-12", "1.5e-12", "2.0e-12"]),
        ([0.0, 1e9, 2e9], ["0", "1e9", "2e9"]),
        ([1.00000e8, 1.00001e8], ["1.00000e8", "1.00001e8"]),
        ([0.5, 0.500001], ["0.500000", "0.500001"]),
    ],
)
def test_labels_of_ticks_are_short_and_differ(rows: list[float], wanted: list[str]) -> None:
    assert tick_labels(rows) == wanted


def test_a_curve_fills_its_frame() -> None:
    shapes = drawn(0.0, 1.0, 0.5)
    assert curves(shapes)[0].points == [(50, 140), (250, 40), (450, 90)]
    assert labels(shapes, "end") == ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]


@pytest.mark.parametrize(
    ("count", "wanted"), [(1, "1"), (2, "1 2"), (4, "1 2 3 4"), (24, "1 5 10 15 20 24"), (26, "1 5 10 15 20 26")]
)
def test_the_first_and_the_last_step_are_labelled(count: int, wanted: str) -> None:
    *steps, name = labels(drawn(*range(count)), "middle")
    assert (" ".join(steps), name) == (wanted, "step")


def test_a_curve_has_a_gap_where_a_value_is_not_a_number() -> None:
    pieces = curves(drawn(*[0.0, NAN] + [1.0] * 30))
    assert [len(piece.points) for piece in pieces] == [1, 30]
    assert [piece.dots > 0 for piece in pieces] == [True, False], "a single point is visible only as a dot"
    assert curves(drawn(NAN, NAN)) == [] and curves(drawn(float("inf"), -1e308)) == []


def test_only_points_that_are_far_apart_have_dots() -> None:
    assert curves(drawn(*range(20)))[0].dots > 0 and curves(drawn(*range(21)))[0].dots == 0


@pytest.mark.parametrize("values", [(0.3, 0.1 + 0.2), (0.0, 0.0), (0.0, 5e-324), (-7.0, -7.0), (1e-310, 2e-310)])
def test_values_that_are_practically_the_same_are_in_the_middle(values: tuple[float, ...]) -> None:
    ((_, first), (_, second)) = curves(drawn(*values))[0].points
    assert first == second and 60 < first < 120


def test_a_goal_and_a_band_are_within_the_frame() -> None:
    shapes = drawn(0.0, 1.0, goal=Goal(4.0, "4 must be reached"), band=[(-2.0, 2.0), (-1.0, NAN)])
    (goal,) = curves(shapes, "goal")
    assert goal.dashed and [*goal.points] == [(50, 40), (450, 40)]
    assert "4 must be reached" in labels(shapes, "start")
    (band,) = [shape for shape in shapes if isinstance(shape, Area)]
    assert {x for x, _ in band.points} == {38, 62}, "a band of one step has some width"


@pytest.mark.parametrize(("value", "is_below"), [(1.0, True), (0.95, True), (0.5, False)])
def test_the_label_of_a_goal_keeps_away_from_the_title(value: float, is_below: bool) -> None:
    shapes = drawn(0.0, 1.0, goal=Goal(value, "goal"))
    (label,) = [shape for shape in shapes if isinstance(shape, Label) and shape.text == "goal"]
    assert (label.at[1] > curves(shapes, "goal")[0].points[0][1]) is is_below


def test_a_goal_that_is_too_large_for_the_chart_is_not_drawn() -> None:
    assert curves(drawn(0.0, 1.0, goal=Goal(1e308, "goal")), "goal") == []


def test_svg_has_a_name_and_every_shape() -> None:
    shapes = (
        Area(((0, 0), (1, 1), (2, 0)), FAINT, "band"),
        Curve(((0, 0), (1.5, 1)), GOOD, 2, "a", dots=3, dashed=True),
        Label((3, 4), "1 < 2 & 3", anchor="end", bold=True),
    )
    root = ElementTree.fromstring(svg(Picture("a & b", 200, 100, shapes)))  # noqa: S314  written by envbuilder
    assert (root.get("viewBox"), root.get("role"), root.get("aria-label")) == ("0 0 200 100", "img", "a & b")
    assert root.findtext(f"{SVG}title") == "a & b"
    assert [item.tag.removeprefix(SVG) for item in root][2:] == ["polygon", "polyline", "circle", "circle", "text"]
    line, text = root.find(f"{SVG}polyline"), root.find(f"{SVG}text")
    assert line is not None and (line.get("points"), line.get("stroke-dasharray")) == ("0,0 1.5,1", "5 4")
    assert text is not None and (text.text, text.get("text-anchor")) == ("1 < 2 & 3", "end")
