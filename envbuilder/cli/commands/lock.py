"""envbuilder lock"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from envbuilder import paths
from envbuilder.check import check_environment
from envbuilder.cli import arguments, options
from envbuilder.cli.console import Console
from envbuilder.environment.resolve import Environment, resolve
from envbuilder.environment.select import select
from envbuilder.errors import EnvbuilderError, MatrixError, NetworkError, UsageError
from envbuilder.files import write_text
from envbuilder.lock.uv import locked_versions, make_lock, uv_program
from envbuilder.matrix import Matrix, evidence
from envbuilder.requirements import normalize


@click.command("lock")
@options.identifiers
@options.dimensions
@options.option("--all", "all_", is_flag=True, help="Every environment.")
@options.option("--check", is_flag=True, help="Resolve nothing; say whether the locks are those of the rows.")
@options.option("--upgrade", is_flag=True, help="Keep no version of the present locks.")
@options.option("--upgrade-package", multiple=True, metavar="NAME", help="Do not keep the locked version of this one.")
@options.option("--jobs", type=click.IntRange(1, 32), default=4, show_default=True, help="Resolves at once.")
@options.index
@options.matrices
@options.talking
def command(identifiers: tuple[str, ...], all_: bool, check: bool, jobs: int, **given: Any) -> int:
    """Exact versions with hashes for environments, resolved by uv into matrices/locks/.

    An environment that needs an index which cannot be reached is recorded as unresolved (exit code 7).
    """
    console, matrix = arguments.console_of(given), arguments.matrix_of(given, everything=True)
    filters = arguments.filters_of(given)
    if not (identifiers or all_ or filters.given()):
        raise UsageError("name environments to lock", hint="an identifier, a glob, dimension options, or --all")
    environments = [resolve(matrix, item) for item in select(matrix, identifiers, filters)]
    if check:
        return _check(console, matrix, environments)
    folder = given["matrices"] or paths.matrices()
    upgrade = frozenset(normalize(name) for name in given["upgrade_package"])
    uv_program()
    index = arguments.index_of(given)
    errors: list[EnvbuilderError] = []
    with ThreadPoolExecutor(jobs) as pool, giving_up(pool):
        started = time.monotonic()
        tasks = {
            pool.submit(make_lock, matrix, item, index, upgrade=upgrade, upgrade_all=given["upgrade"]): item
            for item in environments
        }
        for number, task in enumerate(as_completed(tasks), 1):
            environment = tasks[task]
            progress = f"[{number}/{len(tasks)}]"
            try:
                text = task.result()
            except EnvbuilderError as error:
                errors.append(error)
                _record_failure(folder, matrix, environment, error)
                console.talk(
                    f"{progress} {environment.id}: {error.message.removeprefix(environment.id).lstrip(': ')}", -1
                )
            else:
                what = _save(folder, matrix, environment, text)
                seconds = time.monotonic() - started
                console.talk(
                    f"{progress} {environment.id}: {len(locked_versions(text))} packages, {what} ({seconds:.0f} s)"
                )
    if len(environments) == 1 and errors:
        raise errors[0]
    return max((error.exit_code for error in errors), default=0)


@contextmanager
def giving_up(pool: ThreadPoolExecutor) -> Iterator[None]:
    """Whoever stops the command does not wait for what was not begun."""
    try:
        yield
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise


def _save(folder: Path, matrix: Matrix, environment: Environment, text: str) -> str:
    changed = write_text(folder / "locks" / f"{environment.id}.txt", text)
    if changed or not any(item.level == "resolved" for item in environment.evidence):
        evidence.record(folder, environment.id, matrix.evidence.get(environment.id), "resolved")
    return "written" if changed else "unchanged"


def _record_failure(folder: Path, matrix: Matrix, environment: Environment, error: EnvbuilderError) -> None:
    """An index that is out of reach here may be reachable elsewhere: what was locked there stays."""
    if isinstance(error, NetworkError) and matrix.lock_text(environment.id) is None:
        evidence.record_unresolved(folder, environment.id, error.message.removeprefix(environment.id).lstrip(": "))


def _check(console: Console, matrix: Matrix, environments: list[Environment]) -> int:
    """Offline: what is fresh, what is stale, what was never locked, what could not be."""
    counts = {"fresh": 0, "stale": 0, "missing": 0, "unresolved": 0}
    for environment in environments:
        state = _state(matrix, environment)
        counts[state] += 1
        if state != "fresh":
            console.out(f"{state}: {environment.id}")
    console.talk(", ".join(f"{count} {state}" for state, count in counts.items()))
    return MatrixError.exit_code if counts["stale"] or counts["missing"] else 0


def _state(matrix: Matrix, environment: Environment) -> str:
    if matrix.lock_text(environment.id) is None:
        recorded = matrix.evidence.get(environment.id)
        return "unresolved" if recorded and recorded.unresolved else "missing"
    stale = any(item.code == "lock-stale" for item in check_environment(matrix, environment))
    return "stale" if stale else "fresh"
