"""Records behave like frozen dataclasses with keyword-only fields."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from envbuilder.matrix.record import Record


class Point(Record):
    x: int
    y: int = 0


class Place(Point):
    name: str


class Other(Record):
    x: int
    y: int = 0


class Table(Record):
    rows: Mapping[str, int]


def test_fields_and_defaults_are_inherited() -> None:
    place = Place(x=1, name="here")
    assert (place.x, place.y, place.name) == (1, 0, "here")
    assert repr(place) == "Place(x=1, y=0, name='here')"


@pytest.mark.parametrize("values", [{}, {"y": 1}, {"x": 1, "z": 2}])
def test_missing_and_unknown_fields_are_refused(values: dict[str, int]) -> None:
    with pytest.raises(TypeError, match=r"missing or unknown fields: [xz]"):
        Point(**values)


def test_a_record_is_frozen() -> None:
    point = Point(x=1)
    with pytest.raises(AttributeError, match="Point is frozen"):
        point.x = 2  # type: ignore[misc]
    assert point.x == 1


def test_a_changed_copy_keeps_the_type_and_the_other_fields() -> None:
    place = Place(x=1, name="here")
    assert place.changed(name="there") == Place(x=1, name="there")
    assert place.name == "here"
    with pytest.raises(TypeError, match="unknown fields: z"):
        place.changed(z=1)


def test_records_are_equal_by_type_and_value() -> None:
    assert Point(x=1) == Point(x=1, y=0)
    assert Point(x=1) != Point(x=1, y=2)
    assert Point(x=1) != Other(x=1)
    assert Point(x=1) != Place(x=1, name="here")
    assert Point(x=1) != (1, 0)


def test_equal_records_have_equal_hashes() -> None:
    assert hash(Point(x=1)) == hash(Point(x=1, y=0))
    assert {Point(x=1), Point(x=1, y=0), Point(x=2), Other(x=1)} == {Other(x=1), Point(x=2), Point(x=1)}
    assert {Point(x=1): "found"}[Point(x=1)] == "found"


def test_a_record_that_holds_a_mapping_has_no_hash() -> None:
    assert Table(rows={"a": 1}) == Table(rows={"a": 1})
    with pytest.raises(TypeError, match="unhashable"):
        hash(Table(rows={"a": 1}))
