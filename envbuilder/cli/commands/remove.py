"""envbuilder remove"""

from __future__ import annotations

import click

from envbuilder.cli import options
from envbuilder.cli.arguments import Dimensions, IndexArguments, MatrixFolder, SourceArguments, Talk
from envbuilder.cli.project_change import change_packages
from envbuilder.cli.project_lock import LockArguments
from envbuilder.project.edit import required_without, without_packages


@options.command("remove")
@click.argument("packages", metavar="PACKAGE...", nargs=-1, required=True)
@options.filters
@options.index
@options.sources
@options.matrices
@options.talk
def command(
    packages: tuple[str, ...], dimensions: Dimensions, index: IndexArguments, sources: SourceArguments,
    matrices: MatrixFolder, talk: Talk,
) -> None:  # fmt: skip
    """Remove packages from the project of this folder, and lock it."""
    given = LockArguments(
        dimensions=dimensions, index=index, matrices=matrices, talk=talk, git_mirror=sources.git_mirror
    )
    change_packages(given, list(packages), without_packages, required_without)
