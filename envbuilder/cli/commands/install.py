"""envbuilder install"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envbuilder.cli import arguments, options
from envbuilder.errors import UsageError
from envbuilder.plan import Plan, make_plan

if TYPE_CHECKING:
    from envbuilder.environment.resolve import Environment
    from envbuilder.install import Work
    from envbuilder.matrix import Matrix
    from envbuilder.progress import Progress


# under the prefix, while it is installed from
_BUNDLE = "bundle"


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
    from envbuilder.build.pipeline import judge
    from envbuilder.cli.progress import shown
    from envbuilder.doctor.machine import look
    from envbuilder.install import check_same, install, states
    from envbuilder.install.host_check import check_host, find_python
    from envbuilder.install.journal import alone, check_prefix

    console, matrix = arguments.console_of(given), arguments.matrix_of(given, everything=True)
    environment = arguments.environment_of(matrix, arguments.meant_offline(identifier, given), given)
    if script:
        console.out(_script(matrix, environment, given))
        return
    if prefix is None:
        raise UsageError("install needs a folder", hint="--prefix DIR")
    prefix = prefix.absolute()
    check_prefix(prefix)
    check_same(prefix, environment.id)
    needed = make_plan(matrix, environment)
    for finding in judge(matrix, environment):
        console.warn(finding.code, finding.message)
    for note in check_host(environment, needed, {item.version for item in look().cann if item.version}):
        console.talk(note)
    python = find_python(needed.python, given["python"], prefix)
    if dry_run:
        with shown(console) as progress:
            work = _work(matrix, environment, needed, prefix, python, given, progress, unpack=False)
        for title, is_done in states(work):
            console.out(f"{'done' if is_done else 'to do'}  {title}")
        return
    waiting = f"waiting for another installation in {prefix}, or for what an interrupted one has left running"
    with shown(console) as progress, alone(prefix, lambda: progress.say(waiting)) as turn:
        try:
            work = _work(matrix, environment, needed, prefix, python, given, progress, unpack=True)
            activate = install(work, progress, turn)
        except (KeyboardInterrupt, SystemExit):
            progress.say("the same command goes on from here")
            raise
        finally:
            shutil.rmtree(prefix / _BUNDLE, ignore_errors=True)
    console.out(str(activate))


def _script(matrix: Matrix, environment: Environment, given: dict[str, Any]) -> str:
    from envbuilder.render import render_script

    if given["offline"] is not None:
        raise UsageError("the script of a bundle is in it", hint="tar --extract --file BUNDLE; bash install.sh PREFIX")
    if given["source"] == "sdist" or given["git_mirror"]:
        raise UsageError(
            "the script takes sources from their repositories", hint="a bundle has a script that takes archives"
        )
    return render_script(make_plan(matrix, environment)).rstrip("\n")


def _work(
    matrix: Matrix, environment: Environment, needed: Plan, prefix: Path, python: str, given: dict[str, Any],
    progress: Progress, *, unpack: bool,
) -> Work:  # fmt: skip
    from envbuilder.inputs.source_archives import obtain_all
    from envbuilder.install import Work
    from envbuilder.network import installing_from

    if given["offline"] is not None:
        from envbuilder.bundle import bundle_of

        folder = prefix / _BUNDLE
        if unpack:
            # anew each time: what lies there from before may have been changed since
            shutil.rmtree(folder, ignore_errors=True)
        bundle = bundle_of(matrix, environment, given["offline"], folder, for_build=False, unpack=unpack)
        # an address, as pip and uv split a list of folders at blanks and commas
        sources, variables = dict(bundle.sources), installing_from(str(bundle.offline), bundle.wheels.as_uri())
    else:
        sources = obtain_all(matrix, environment, needed.components, arguments.origin_of(given), progress.say)
        variables = arguments.installers_told(given)
    return Work(make_plan(matrix, environment, sources), sources, prefix, python, variables)
