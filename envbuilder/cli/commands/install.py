"""envbuilder install"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envbuilder.cli import meaning, options
from envbuilder.errors import EnvbuilderError, UsageError
from envbuilder.plan import make_plan

if TYPE_CHECKING:
    from envbuilder.bundle import Bundle
    from envbuilder.install import Work
    from envbuilder.matrix import Matrix
    from envbuilder.resolve import Environment
    from envbuilder.watching import Progress


@click.command("install")
@options.identifier()
@options.dimensions
@options.option("--prefix", type=click.Path(path_type=Path, file_okay=False), help="The folder to install into.")
@options.option("--python", metavar="PROGRAM", help="The Python to use; default: the first of the row's version.")
@options.option("--dry-run", is_flag=True, help="Tell what would be done.")
@options.option("--script", is_flag=True, help="Print a script that does the same without envbuilder.")
@options.offline
@options.sources
@options.index
@options.matrices
@options.talking
def command(identifier: str | None, prefix: Path | None, dry_run: bool, script: bool, **given: Any) -> None:
    """An environment on this host, in a virtual environment under a folder, by the same plan as the image.

    What was interrupted goes on where it stopped. `source PREFIX/activate` uses it, `envbuilder validate --local`
    proves it, deleting the folder removes it.
    """
    from envbuilder.doctor.machine import look
    from envbuilder.install import install, states
    from envbuilder.install.ground import check_host
    from envbuilder.pipeline import judge
    from envbuilder.progress import shown

    console, matrix = meaning.console_of(given), meaning.matrix_of(given, everything=True)
    environment = meaning.environment_of(matrix, meaning.meant_offline(identifier, given), given)
    if script:
        from envbuilder.render import render_script

        console.out(render_script(make_plan(matrix, environment)).rstrip("\n"))
        return
    if prefix is None:
        raise UsageError("install needs a folder", hint="--prefix DIR")
    needed = make_plan(matrix, environment)
    for finding in judge(matrix, environment):
        console.warn(finding.code, finding.message)
    for note in check_host(environment, needed, {item.version for item in look().cann if item.version}):
        console.talk(note)
    with shown(console) as progress:
        work = _work(matrix, environment, needed.components, prefix.absolute(), given, progress, dry_run=dry_run)
        if not dry_run:
            activate = install(work, progress)
            shutil.rmtree(_bundle_folder(work.prefix), ignore_errors=True)
    if dry_run:
        for title, is_done in states(work):
            console.out(f"{'done' if is_done else 'to do'}  {title}")
    else:
        console.out(str(activate))


def _work(
    matrix: Matrix, environment: Environment, needed: tuple[str, ...], prefix: Path, given: dict[str, Any],
    progress: Progress, *, dry_run: bool,
) -> Work:  # fmt: skip
    from envbuilder.host import installing_from
    from envbuilder.install import Work
    from envbuilder.install.ground import find_python
    from envbuilder.install.journal import check_prefix
    from envbuilder.sources import obtain_all

    check_prefix(prefix)
    if given["offline"] is not None:
        bundle = _opened(matrix, environment, prefix, given["offline"], dry_run=dry_run)
        sources, variables = dict(bundle.sources), installing_from(str(bundle.wheels))
    else:
        sources = obtain_all(matrix, environment, needed, meaning.origin_of(given), progress.say)
        variables = meaning.certificates_of(given)
    plan = make_plan(matrix, environment, sources)
    return Work(plan, sources, prefix, find_python(plan.python, given["python"]), variables)


def _opened(matrix: Matrix, environment: Environment, prefix: Path, file: Path, *, dry_run: bool) -> Bundle:
    """Unpacked anew each time: what lies there from before may have been changed since."""
    from envbuilder.bundle import open_bundle
    from envbuilder.install.journal import alone

    folder, lock = _bundle_folder(prefix), matrix.lock_text(environment.id)
    if dry_run:
        return open_bundle(file, folder, environment.id, lock, for_build=False, unpack=False)
    with alone(prefix, lambda: None):
        shutil.rmtree(folder, ignore_errors=True)
        try:
            return open_bundle(file, folder, environment.id, lock, for_build=False)
        except (EnvbuilderError, OSError):
            shutil.rmtree(folder, ignore_errors=True)
            raise


def _bundle_folder(prefix: Path) -> Path:
    return prefix / "bundle"
