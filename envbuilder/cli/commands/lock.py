"""envbuilder lock"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path

import click

from envbuilder import paths
from envbuilder.check import check_environment
from envbuilder.cli import options
from envbuilder.cli.arguments import Dimensions, IndexArguments, MatrixFolder, SourceArguments, Talk
from envbuilder.cli.console import Console
from envbuilder.cli.project_argument import project_here
from envbuilder.cli.project_lock import LockArguments, lock_project
from envbuilder.environment import Catalog, Environment
from envbuilder.environment.locks import Lock
from envbuilder.errors import EnvbuilderError, MatrixError, NetworkError, UsageError
from envbuilder.language import counted, tr
from envbuilder.lock.index import uv_program
from envbuilder.lock.uv import make_lock, save_lock
from envbuilder.matrix import evidence
from envbuilder.project.project import Project
from envbuilder.requirements import normalize


@options.command("lock")
@options.identifiers
@options.filters
@options.option("--all", "all_", is_flag=True, help="Lock every environment.")
@options.option("--check", is_flag=True, help="Resolve nothing; report whether the locks fit the rows.")
@options.option("--upgrade", is_flag=True, help="Ignore all versions of the present locks.")
@options.option("--upgrade-package", multiple=True, metavar="NAME", help="Ignore the locked version of this package.")
@options.option(
    "--jobs", type=click.IntRange(1, 32), default=4, show_default=True, help="Number of environments to lock at once."
)
@options.allow_change
@options.index
@options.sources
@options.matrices
@options.talk
def command(
    identifiers: tuple[str, ...], dimensions: Dimensions, all_: bool, check: bool, upgrade: bool,
    upgrade_package: tuple[str, ...], jobs: int, allow_change: tuple[str, ...], index: IndexArguments,
    sources: SourceArguments, matrices: MatrixFolder, talk: Talk,
) -> int:  # fmt: skip
    """Lock environments: exact versions with hashes, resolved by uv.

    In the folder of a project, without names, lock what the project adds to its row.

    An environment that needs an index which cannot be reached is recorded as unresolved (exit code 7).
    """
    console, catalog = talk.console, matrices.catalog(everything=True)
    if not (identifiers or all_ or dimensions.typed.given) and (project := project_here()) is not None:
        if check:
            return _check_project(console, project, catalog)
        given = LockArguments(
            dimensions=dimensions, index=index, matrices=matrices, talk=talk, git_mirror=sources.git_mirror,
            may_change=allow_change, upgrade=upgrade,
        )  # fmt: skip
        lock_project(given)
        return 0
    if allow_change:
        raise UsageError(tr("--allow-change is for the lock of a project"), hint=tr("--upgrade-package is for rows"))
    if not (identifiers or all_ or dimensions.given):
        raise UsageError(
            tr("no environment is named"), hint=tr("give an identifier, a glob, dimension options, or --all")
        )
    environments = catalog.select(identifiers, dimensions.filters)
    if check:
        return _check(console, environments)
    upgraded = frozenset(normalize(name) for name in upgrade_package)
    uv_program()
    server = index.open()
    errors: list[EnvbuilderError] = []
    with ThreadPoolExecutor(jobs) as pool, cancelling(pool):
        started = time.monotonic()
        tasks = {
            pool.submit(make_lock, item, server, upgrade=upgraded, upgrade_all=upgrade): item for item in environments
        }
        for number, task in enumerate(as_completed(tasks), 1):
            environment = tasks[task]
            progress = f"[{number}/{len(tasks)}]"
            try:
                lock = task.result()
            except EnvbuilderError as error:
                errors.append(error)
                _record_failure(matrices.folder, environment, error)
                reason = tr(error.message).removeprefix(environment.id).lstrip(":： ")
                console.talk(f"{progress} {environment.id}: {reason}", -1)
            else:
                fields = {
                    "environment": environment.id,
                    "packages": counted(len(lock.packages), "package"),
                    "what": _save(matrices, environment, lock),
                    "seconds": f"{time.monotonic() - started:.0f}",
                }
                console.talk(f"{progress} {tr('{environment}: {packages}, {what} ({seconds} s)', **fields)}")
    if len(environments) == 1 and errors:
        raise errors[0]
    return max((error.exit_code for error in errors), default=0)


def _check_project(console: Console, project: Project, catalog: Catalog) -> int:
    for row in project.rows(catalog):
        project.fitting_lock(row)
    project.fitting_lock()
    console.talk(tr("{file} is fresh", file=project.lock_path.name))
    return 0


@contextmanager
def cancelling(pool: ThreadPoolExecutor) -> Iterator[None]:
    """Cancel the tasks that have not begun when an error or a signal ends the block."""
    try:
        yield
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise


def _save(matrices: MatrixFolder, environment: Environment, lock: Lock) -> str:
    """Save a lock and its evidence, and return whether the lock was written."""
    before = environment.lock
    changed = save_lock(lock, paths.lock_folder(matrices.matrices, environment.coordinates.folder))
    if changed or not any(item.level == "resolved" for item in environment.evidence):
        # evidence of builds and trainings holds only for the same packages and sources
        same = before is not None and (before.packages, before.sdists) == (lock.packages, lock.sdists)
        evidence.record(matrices.folder, environment.coordinates.folder, "resolved", alone=not same)
    return tr("written") if changed else tr("unchanged")


def _record_failure(folder: Path, environment: Environment, error: EnvbuilderError) -> None:
    """Record an unreachable index of a row without a lock; a lock stays, as another machine may reach the index."""
    if isinstance(error, NetworkError) and environment.lock is None:
        reason = error.message.removeprefix(environment.id).lstrip(": ")
        evidence.record_unresolved(folder, environment.coordinates.folder, reason)


def _check(console: Console, environments: list[Environment]) -> int:
    """Print, without a network, which locks are stale, missing or unresolved, and return the exit code."""
    counts = {"fresh": 0, "stale": 0, "missing": 0, "unresolved": 0}
    for environment in environments:
        state = _state(environment)
        counts[state] += 1
        if state != "fresh":
            console.out(f"{state}: {environment.id}")
        if state == "unresolved":
            console.talk(f"  {environment.unlocked_because}")
    console.talk(tr(", ").join(f"{count} {tr(state)}" for state, count in counts.items()))
    return MatrixError.exit_code if counts["stale"] or counts["missing"] else 0


def _state(environment: Environment) -> str:
    if environment.lock is None:
        return "unresolved" if environment.unresolved else "missing"
    stale = any(item.code == "lock-stale" for item in check_environment(environment))
    return "stale" if stale else "fresh"
