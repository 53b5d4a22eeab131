"""Finds the files of a matrix folder (and of an overlay on it) and gives the Matrix they make."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from envbuilder import paths
from envbuilder.errors import UsageError
from envbuilder.matrix.model import (
    Branch,
    Chips,
    Component,
    Engine,
    EvidenceFile,
    Framework,
    Hardware,
    Host,
    Quickstart,
    Recipe,
    Root,
    Symptom,
)
from envbuilder.matrix.record import Record

ROOT_FILE = "matrix.yaml"


class File(NamedTuple):
    """A file of a matrix, and how messages call it."""

    path: Path
    shown: str


class Matrix(Record):
    """Everything the matrices say. The known world and the evidence are read when first asked for."""

    root: Root
    chips: Chips
    host: Host
    hardware: Mapping[str, Hardware]
    engines: Mapping[str, Engine]
    frameworks: Mapping[str, Framework]
    branches: tuple[Branch, ...]
    files: Mapping[str, File]

    def branch(self, framework: str, name: str) -> Branch:
        return self._branch_index[framework, name]

    @cached_property
    def _branch_index(self) -> Mapping[tuple[str, str], Branch]:
        return {(branch.framework, branch.name): branch for branch in self.branches}

    @cached_property
    def components(self) -> Mapping[str, Component]:
        from envbuilder.matrix.decode import decode_components

        return decode_components(self.files)

    @cached_property
    def evidence(self) -> Mapping[str, EvidenceFile]:
        """What was done with each environment, by identifier."""
        from envbuilder.matrix.decode import decode_evidence

        return decode_evidence(self.files)

    @cached_property
    def recipes(self) -> Mapping[str, Recipe]:
        """The smoke runs, by framework."""
        from envbuilder.matrix.decode import decode_recipes

        return decode_recipes(self)

    @cached_property
    def quickstarts(self) -> tuple[Quickstart, ...]:
        from envbuilder.matrix.decode import decode_quickstarts

        return decode_quickstarts(self)

    @cached_property
    def symptoms(self) -> tuple[Symptom, ...]:
        from envbuilder.matrix.decode import decode_symptoms

        return decode_symptoms(self.files)

    def lock_text(self, environment: str) -> str | None:
        """The committed lock of an environment, where there is one."""
        file = self.files.get(f"locks/{environment}.txt")
        return file.path.read_text(encoding="utf-8") if file else None


def load(directory: Path | None = None, *, everything: bool = False) -> Matrix:
    """The built-in matrices, or those of a folder.

    A folder with a matrix.yaml is a whole matrix of its own; any other is laid over the built-in one, file by
    file. With `everything` the known world is read too, so that its problems come in the same report.
    """
    files = _find(directory)
    if directory is None and not everything:
        # decoding YAML takes longer than everything else that `list` does
        from envbuilder.matrix.cache import remembered

        return remembered(files)
    from envbuilder.matrix.decode import decode_matrix

    return decode_matrix(files, everything=everything)


def _find(directory: Path | None) -> dict[str, File]:
    if directory is None:
        return _walk(paths.matrices(), "matrices")
    if not directory.is_dir():
        raise UsageError(
            f"the matrix folder '{directory}' does not exist",
            hint=f"give --matrices or {paths.MATRICES_VARIABLE} a folder with YAML files in it",
        )
    own = _walk(directory, str(directory))
    if not own:
        raise UsageError(f"the matrix folder '{directory}' holds no YAML file")
    return own if ROOT_FILE in own else {**_walk(paths.matrices(), "matrices"), **own}


def _walk(folder: Path, shown: str) -> dict[str, File]:
    found = {}
    for parent, _, names in os.walk(folder):
        place = os.path.relpath(parent, folder)
        for name in names:
            if name.endswith((".yaml", ".txt")):
                relative = name if place == "." else f"{place}/{name}"
                found[relative] = File(Path(parent, name), f"{shown}/{relative}")
    return dict(sorted(found.items()))
