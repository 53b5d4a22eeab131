"""Finds the twin of a row: the same releases for the other kind of device, NPU or GPU, to compare runs with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from envbuilder import versions
from envbuilder.environment.catalog import Catalog
from envbuilder.environment.coordinates import Coordinates
from envbuilder.environment.environment import Environment


class PinDifference(NamedTuple):
    """A pin that differs; None where one of the two does not have it."""

    name: str
    here: str | None
    there: str | None

    @property
    def is_of_both(self) -> bool:
        return self.here is not None and self.there is not None


def twin_of(catalog: Catalog, environment: Environment) -> Environment | None:
    """Return the twin of an environment, preferably for its architecture; None if it has none, as on a CPU."""
    own = environment.coordinates
    others = [item for item in catalog.coordinates.values() if _is_other_kind(catalog, own, item)]
    found = next((item for item in others if item.arch == own.arch), next(iter(others), None))
    return catalog.select([found.id])[0] if found else None


def _is_other_kind(catalog: Catalog, own: Coordinates, item: Coordinates) -> bool:
    here, there = catalog.hardware[own.hardware], catalog.hardware[item.hardware]
    of_row = own._replace(hardware=item.hardware, arch=item.arch, product=None, system=None) == item
    return of_row and {(here.has_npus, here.has_gpus), (there.has_npus, there.has_gpus)} == {
        (True, False),
        (False, True),
    }


def are_twins(one: Environment, other: Environment) -> bool:
    """Return whether two environments are of the same row, so that their runs differ only by what a device needs."""
    here, there = one.coordinates, other.coordinates
    return here[:3] == there[:3]


def differences(one: Environment, other: Environment) -> tuple[PinDifference, ...]:
    return tuple(_differences(one, other))


def _differences(one: Environment, other: Environment) -> Iterator[PinDifference]:
    for name in sorted({*one.pins, *other.pins}):
        here, there = one.version(name), other.version(name)
        if here is None or there is None or not versions.same(here, there):
            yield PinDifference(name, here, there)
