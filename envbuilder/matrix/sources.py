"""Finds the files of a matrix folder, and those of the built-in matrices that it extends."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from envbuilder import paths
from envbuilder.errors import UsageError
from envbuilder.language import tr

ROOT_FILE = "matrix.yaml"


class File(NamedTuple):
    """A file of a matrix, and its name in messages."""

    path: Path
    shown: str


def find_files(directory: Path | None) -> dict[str, File]:
    """Return the files by their path below the folder.

    A folder with a matrix.yaml is a whole matrix; any other adds files to the built-in one or replaces them.
    """
    if directory is None:
        return _built_in()
    if not directory.is_dir():
        raise UsageError(
            tr("the matrix folder '{directory}' does not exist", directory=directory),
            hint=tr("give --matrices or {variable} a folder with YAML files in it", variable=paths.MATRICES_VARIABLE),
        )
    own = _walk(directory, str(directory))
    if not own:
        raise UsageError(tr("the matrix folder '{directory}' contains no YAML file", directory=directory))
    old = next((item for form in ("*.txt", "*/*.txt") for item in (directory / "locks").glob(form)), None)
    if old is not None:
        raise UsageError(
            tr(
                "{file} is a lock of an older envbuilder; locks are now in locks/FRAMEWORK/BRANCH/ENGINE-HARDWARE-ARCH",
                file=old,
            ),
            hint=tr("delete {folder} and run envbuilder lock again", folder=directory / "locks"),
        )
    return own if ROOT_FILE in own else {**_built_in(), **own}


def _built_in() -> dict[str, File]:
    # who has installed a wheel has no folder `matrices`, and has to find the file
    return _walk(paths.matrices(), "matrices" if paths.is_checkout() else str(paths.matrices()))


def _walk(folder: Path, shown: str) -> dict[str, File]:
    found = {}
    for parent, _, names in os.walk(folder):
        place = os.path.relpath(parent, folder)
        for name in names:
            if name.endswith(".yaml"):
                relative = name if place == "." else f"{place}/{name}"
                found[relative] = File(Path(parent, name), f"{shown}/{relative}")
    return dict(sorted(found.items()))


class Locks(NamedTuple):
    """The places of the locks of a matrix: a folder of the user, the built-in Dockerfiles, or both."""

    own: Path | None
    built_in: bool

    def folder(self, environment: str) -> Path | None:
        """Return the place of the lock of the environment with this folder; None if it has no lock."""
        folders = [paths.lock_folder(self.own, environment)] if self.own else []
        folders += [paths.lock_folder(None, environment)] if self.built_in else []
        return next((item for item in folders if item.is_dir()), None)

    def read(self, environment: str) -> dict[str, str]:
        """Return the text of each file of a lock by its name; empty if the environment has no lock."""
        folder = self.folder(environment)
        return {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.txt"))} if folder else {}


def find_locks(directory: Path | None, files: Mapping[str, File]) -> Locks:
    """Return the places of the locks; a folder that is not a whole matrix also uses the built-in ones."""
    is_whole = directory is not None and files[ROOT_FILE].path.is_relative_to(directory)
    return Locks(directory, built_in=not is_whole)
