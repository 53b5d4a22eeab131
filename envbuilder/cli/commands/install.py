"""envbuilder install"""

from __future__ import annotations

from pathlib import Path

from envbuilder.check import refuse_errors
from envbuilder.cli import options
from envbuilder.cli.arguments import (
    Dimensions,
    IndexArguments,
    MatrixFolder,
    SourceArguments,
    Talk,
    bundled_environment,
)
from envbuilder.cli.project_argument import project_here
from envbuilder.environment import Environment
from envbuilder.errors import UsageError
from envbuilder.language import tr


@options.command("install")
@options.identifier
@options.dimensions
@options.option("--prefix", type=options.FOLDER, help="Folder to install into.")
@options.option("--python", metavar="PROGRAM", help="Python to use; default: the first one of the row's version.")
@options.option("--dry-run", is_flag=True, help="Show what would be done.")
@options.option("--script", is_flag=True, help="Print a script that does the same without envbuilder.")
@options.offline
@options.bundle_keys
@options.sources
@options.index
@options.matrices
@options.talk
def command(
    identifier: str | None, dimensions: Dimensions, prefix: Path | None, python: str | None, dry_run: bool,
    script: bool, offline: Path | None, verify_keys: tuple[str, ...], sources: SourceArguments, index: IndexArguments,
    matrices: MatrixFolder, talk: Talk,
) -> None:  # fmt: skip
    """Install an environment on this host, in a virtual environment under a folder, by the same plan as the image.

    An interrupted installation continues where it stopped. `source PREFIX/activate` uses it, `envbuilder validate
    --local` proves it, deleting the folder removes it.
    """
    console, catalog = talk.console, matrices.catalog(everything=True)
    name = bundled_environment(identifier, offline)
    # the bundle of a project names its row
    name = name if identifier or project_here() is None else None
    environment = dimensions.environment(catalog, name, talk)
    if environment.additions is not None and environment.additions.files:
        console.talk(tr("the files of the project are copied into images only"))
    if script:
        console.out(_script(environment, offline, sources))
        return
    if prefix is None:
        raise UsageError(tr("install needs a folder"), hint="--prefix DIR")
    from envbuilder.cli.passwords import trusted_for_bundles
    from envbuilder.cli.progress import shown
    from envbuilder.install import states
    from envbuilder.install.installer import InstallOptions, check_installation, install_environment, prepare

    settings = InstallOptions(
        prefix=prefix.absolute(),
        python=python,
        sources=sources.options(index) if offline is None else None,
        offline=offline,
        variables=index.installer_variables(),
        keys=trusted_for_bundles(verify_keys, offline),
    )
    notes = check_installation(environment, settings)
    for finding in refuse_errors(environment):
        console.warn(finding.code, finding.message, finding.hint)
    for note in notes:
        console.talk(note)
    if dry_run:
        with shown(console) as progress:
            work = prepare(environment, settings, progress, unpack=False)
        for title, is_done in states(work):
            console.out(f"{tr('done') if is_done else tr('to do')}  {tr(title)}")
        return
    with shown(console) as progress:
        activate = install_environment(environment, settings, progress)
    console.out(str(activate))


def _script(environment: Environment, offline: Path | None, sources: SourceArguments) -> str:
    from envbuilder.cli.project_script import script_plan
    from envbuilder.render import render_script

    if offline is not None:
        raise UsageError(
            tr("a bundle contains its own script"), hint="tar --extract --file BUNDLE; bash install.sh PREFIX"
        )
    if sources.source == "sdist" or sources.git_mirror:
        raise UsageError(
            tr("the script takes sources from their repositories"), hint=tr("the script of a bundle takes archives")
        )
    return render_script(script_plan(environment)).rstrip("\n")
