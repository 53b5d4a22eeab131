"""All environments of the matrices, and their shared data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from envbuilder import versions
from envbuilder.environment.coordinates import Coordinates, Filters, environments
from envbuilder.environment.environment import Environment, resolve
from envbuilder.environment.select import matching, pick, select
from envbuilder.errors import NoMatchError
from envbuilder.matrix import Matrix
from envbuilder.matrix.model import Chips, Component, Engine, Framework, Hardware, Host, Symptom


class Catalog:
    """The environments of a matrix, for code that works with more than one of them."""

    def __init__(self, matrix: Matrix) -> None:
        self._matrix = matrix

    @cached_property
    def coordinates(self) -> Mapping[str, Coordinates]:
        """Return all environments by identifier, without resolving them."""
        return {item.id: item for item in environments(self._matrix)}

    @cached_property
    def environments(self) -> tuple[Environment, ...]:
        return tuple(resolve(self._matrix, item) for item in self.coordinates.values())

    def find(self, identifier: str) -> Environment | None:
        """Return the environment of an identifier, which may name a product of its hardware."""
        try:
            found = select(self._matrix, [identifier])
        except NoMatchError:
            return None
        return resolve(self._matrix, found[0]) if len(found) == 1 else None

    def select(
        self, patterns: Sequence[str] = (), filters: Filters | None = None, pins: Mapping[str, str] | None = None
    ) -> list[Environment]:
        """Return the environments that match; raise an error if none does."""
        return [resolve(self._matrix, item, pins) for item in select(self._matrix, patterns, filters)]

    def has(self, filters: Filters) -> bool:
        return bool(matching(self._matrix, (), filters))

    def pick(
        self, pattern: str | None = None, filters: Filters | None = None, pins: Mapping[str, str] | None = None
    ) -> Environment:
        """Return the one environment that matches; the defaults of the matrices complete the filters."""
        return resolve(self._matrix, pick(self._matrix, pattern, filters), pins)

    def newer(self, environment: Environment, engine: str | None = None) -> Environment | None:
        """Return the environment of the newest release for the same hardware, if it is of another release."""
        of = environment.coordinates
        alike = self.select((), Filters(of.framework, None, engine, of.hardware, of.arch))
        newest = max(alike, key=lambda item: versions.key(item.coordinates.branch))
        return newest if newest.coordinates.branch != of.branch else None

    @property
    def chips(self) -> Chips:
        return self._matrix.chips

    @property
    def components(self) -> Mapping[str, Component]:
        return self._matrix.components

    @property
    def engines(self) -> Mapping[str, Engine]:
        return self._matrix.engines

    @property
    def frameworks(self) -> Mapping[str, Framework]:
        return self._matrix.frameworks

    @property
    def hardware(self) -> Mapping[str, Hardware]:
        return self._matrix.hardware

    @property
    def host(self) -> Host:
        return self._matrix.host

    @property
    def symptoms(self) -> tuple[Symptom, ...]:
        return self._matrix.symptoms

    @property
    def default_framework(self) -> str:
        return self._matrix.root.defaults.framework

    @property
    def default_engine(self) -> str:
        return self._matrix.root.defaults.engine
