"""Locks the project of a folder, and writes its files only when all of them are right."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from envbuilder.cli.arguments import Dimensions, IndexArguments, MatrixFolder, Talk
from envbuilder.cli.settings import project_file
from envbuilder.environment import Environment
from envbuilder.errors import MatrixError, UsageError
from envbuilder.files import write_text
from envbuilder.language import counted, tr
from envbuilder.matrix.record import NOTHING, Record
from envbuilder.project.file import read_project
from envbuilder.project.lock_file import NAME, ProjectLock, read_project_lock
from envbuilder.project.project import LockOptions, Project, make_project_lock, rows_to_lock


class LockArguments(Record):
    """What the lock of a project depends on beside its file."""

    dimensions: Dimensions
    index: IndexArguments
    matrices: MatrixFolder
    talk: Talk
    git_mirror: str | None = None
    may_change: tuple[str, ...] = ()
    # ignore the versions of the present lock
    upgrade: bool = False
    # choose the row anew
    of_new_row: bool = False


def lock_project(given: LockArguments, texts: Mapping[Path, str] = NOTHING) -> Environment:
    """Lock the project of this folder with these texts of its files, write them, and return its row."""
    started, file = time.monotonic(), project_file()
    wanted = read_project(file, texts) if file.is_file() or file in texts else None
    if wanted is None:
        raise no_project()
    path, catalog = wanted.folder / NAME, given.matrices.catalog(everything=True)
    present = _present(path)
    project = Project(wanted, without_lock=given.of_new_row or present is None)
    chosen = given.dimensions.row_of(project, catalog, given.talk, given.dimensions.look())
    options = LockOptions(
        index=given.index.open(),
        git_mirror=given.git_mirror,
        may_change=tuple({*given.may_change, *(present.may_change if present else ())}),
        kept=None if given.upgrade else present,
        warn=lambda message: given.talk.console.warn("other-release", message),
    )
    lock = make_project_lock(wanted, rows_to_lock(catalog, chosen), options)
    for place, text in texts.items():
        write_text(place, text)
    changed = write_text(path, lock.text)
    own = lock.environments[chosen.id].packages
    fields = {
        "file": NAME,
        "packages": counted(len(own), "package"),
        "environment": chosen.id,
        "number": counted(len(lock.environments), "environment"),
        "seconds": f"{time.monotonic() - started:.0f}",
        "what": tr("written") if changed else tr("unchanged"),
    }
    message = tr("{file} {what}: {packages} beside {environment}, for {number} ({seconds} s)", **fields)
    given.talk.console.talk(message)
    return chosen


def _present(path: Path) -> ProjectLock | None:
    """Return the present lock; one that cannot be read is written anew."""
    try:
        return read_project_lock(path)
    except MatrixError:
        return None


def no_project() -> UsageError:
    return UsageError(
        tr("there is no project here: no envbuilder.toml with a table [environment]"),
        hint=tr("envbuilder init writes one"),
    )
