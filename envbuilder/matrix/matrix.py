"""The content of the matrices. Files that `list` does not need are decoded on first use."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from envbuilder.matrix.model import (
    Branch,
    Chips,
    Component,
    Engine,
    EnvironmentEvidence,
    Framework,
    Hardware,
    Host,
    KnownWheels,
    Recipe,
    Root,
    SmokeRun,
    Symptom,
)
from envbuilder.matrix.record import Record
from envbuilder.matrix.sources import File, Locks


class Rows(Record):
    """The part of the matrices that defines which environments exist."""

    root: Root
    chips: Chips
    host: Host
    hardware: Mapping[str, Hardware]
    engines: Mapping[str, Engine]
    frameworks: Mapping[str, Framework]
    branches: tuple[Branch, ...]


class Matrix(Rows):
    files: Mapping[str, File]
    locks: Locks

    def branch(self, framework: str, name: str) -> Branch:
        return self._branch_index[framework, name]

    @cached_property
    def _branch_index(self) -> Mapping[tuple[str, str], Branch]:
        return {(branch.framework, branch.name): branch for branch in self.branches}

    @cached_property
    def components(self) -> Mapping[str, Component]:
        """Return the compat tables by component."""
        from envbuilder.matrix.decode import decode_components

        return decode_components(self.files)

    @cached_property
    def package_names(self) -> frozenset[str]:
        """Return the normalized names of all components, and of all packages that a release of one requires."""
        from envbuilder.requirements import normalize, parse

        components = self.components.values()
        releases = [release for component in components for release in component.releases]
        required = {
            text for item in releases for text in (*item.requires, *item.build_requires, *item.metadata_requires)
        }
        names = {name for component in components for name in (component.name, component.index_name)}
        return frozenset({normalize(name) for name in names} | {parse(text).name for text in required})

    @cached_property
    def evidence(self) -> Mapping[str, EnvironmentEvidence]:
        """Return the recorded evidence by the folder of the environment."""
        from envbuilder.matrix.decode import decode_evidence

        return decode_evidence(self.files)

    @cached_property
    def smoke_runs(self) -> Mapping[str, SmokeRun]:
        """Return the smoke runs by framework."""
        from envbuilder.matrix.decode import decode_smoke_runs

        return decode_smoke_runs(self.files, self)

    @cached_property
    def recipes(self) -> tuple[Recipe, ...]:
        """Return the published training commands."""
        from envbuilder.matrix.decode import decode_recipes

        return decode_recipes(self.files, self)

    @cached_property
    def known_wheels(self) -> Mapping[str, KnownWheels]:
        """Return the wheels whose hashes are known without their index, by component."""
        from envbuilder.matrix.decode import decode_known_wheels

        return decode_known_wheels(self.files)

    @cached_property
    def symptoms(self) -> tuple[Symptom, ...]:
        from envbuilder.matrix.decode import decode_symptoms

        return decode_symptoms(self.files)

    def lock_files(self, folder: str) -> dict[str, str]:
        """Return the texts of the lock of the environment with this folder by part; empty without a lock."""
        return self.locks.read(folder)
