"""envbuilder add"""

from __future__ import annotations

import click

from envbuilder.cli import options
from envbuilder.cli.arguments import Dimensions, IndexArguments, MatrixFolder, SourceArguments, Talk
from envbuilder.cli.project_change import change_packages
from envbuilder.cli.project_lock import LockArguments
from envbuilder.project.edit import required_with, with_packages


@options.command("add")
@click.argument("packages", metavar="PACKAGE...", nargs=-1, required=True)
@options.filters
@options.allow_change
@options.index
@options.sources
@options.matrices
@options.talk
def command(
    packages: tuple[str, ...], dimensions: Dimensions, allow_change: tuple[str, ...], index: IndexArguments,
    sources: SourceArguments, matrices: MatrixFolder, talk: Talk,
) -> None:  # fmt: skip
    """Add packages to the project of this folder, and lock it: no package of the row moves.

    A package may have a condition on its version: 'math-verify>=0.8'.
    """
    given = LockArguments(
        dimensions=dimensions, index=index, matrices=matrices, talk=talk, git_mirror=sources.git_mirror,
        may_change=allow_change,
    )  # fmt: skip
    change_packages(given, list(packages), with_packages, required_with)
