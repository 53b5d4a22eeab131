"""Writes the files of a new release: a copy of the newest row of its framework, and a candidate in the compat table."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

from envbuilder import versions
from envbuilder.errors import NoMatchError, UsageError
from envbuilder.files import write_text
from envbuilder.matrix.matrix import Matrix


def new_release(matrix: Matrix, folder: Path, framework: str, branch: str) -> list[Path]:
    """Write what a new release of a framework begins with, and return the files."""
    if framework not in matrix.frameworks:
        raise NoMatchError(f"no framework is named '{framework}'", hint=f"known: {', '.join(matrix.frameworks)}")
    rows = [item for item in matrix.branches if item.framework == framework]
    if any(item.name == branch for item in rows):
        raise UsageError(f"{framework} has a row {branch} already")
    newest = max(rows, key=lambda item: versions.key(item.name))
    component = matrix.frameworks[framework].component
    return [
        _row(matrix, folder, f"frameworks/{framework}", newest.name, branch, component),
        *_candidate(matrix, folder, component, branch),
    ]


def _row(matrix: Matrix, folder: Path, place: str, old: str, new: str, component: str) -> Path:
    text = matrix.files[f"{place}/{old}.yaml"].path.read_text(encoding="utf-8")
    today = datetime.date.today().isoformat()
    for pattern, made in (
        (rf"^(title: .*){re.escape(old)}", rf"\g<1>{new}"),
        (r"^((?:date|exclude_newer): ).*$", rf"\g<1>{today}"),
        (rf"^(  {component}: \{{version: ){re.escape(old)}", rf"\g<1>{new}"),
    ):
        text = re.sub(pattern, made, text, flags=re.MULTILINE)
    file = folder / place / f"{new}.yaml"
    write_text(file, text)
    return file


def _candidate(matrix: Matrix, folder: Path, component: str, version: str) -> list[Path]:
    """Add a release to the compat table, unless it is there; its commit and requirements are still to be looked up."""
    if matrix.components[component].release(version) is not None:
        return []
    name = f"compat/{component}.yaml"
    text = matrix.files[name].path.read_text(encoding="utf-8").rstrip("\n")
    write_text(folder / name, f"{text}\n- version: {version}\n  status: candidate\n")
    return [folder / name]
