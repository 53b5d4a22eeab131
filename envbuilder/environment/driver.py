"""The drivers that the toolkit of an environment is published for."""

from __future__ import annotations

from typing import NamedTuple

from envbuilder import versions
from envbuilder.matrix.model import Release

TOOLKIT, DRIVER = "cann", "hdk"


class LeastDriver(NamedTuple):
    """The oldest driver that a toolkit is published for, and where that is stated."""

    version: str
    source: str | None


def published_drivers(toolkit: Release | None, driver: str = DRIVER) -> tuple[str, ...]:
    """Return the drivers that a toolkit was released with or is stated to work with; some are families."""
    if toolkit is None:
        return ()
    return (*toolkit.paired.get(driver, ()), *toolkit.compatible.get(driver, ()))


def least_driver(toolkit: Release | None, driver: str = DRIVER) -> LeastDriver | None:
    # the family 25.2.X begins with 25.2
    listed = [item[:-2] if versions.is_family(item) else item for item in published_drivers(toolkit, driver)]
    if toolkit is None or not listed:
        return None
    source = toolkit.stated_in.get(driver) or next(iter(toolkit.sources), None)
    return LeastDriver(min(listed, key=versions.key), source)
