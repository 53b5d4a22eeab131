"""envbuilder upgrade"""

from __future__ import annotations

from itertools import groupby

from envbuilder.check import check_environment
from envbuilder.cli import options
from envbuilder.cli.arguments import Dimensions, IndexArguments, MatrixFolder, SourceArguments, Talk
from envbuilder.cli.changes import show_change
from envbuilder.cli.console import Console
from envbuilder.cli.project_argument import project_here
from envbuilder.cli.project_lock import LockArguments, lock_project, no_project
from envbuilder.environment import Environment
from envbuilder.files import changing
from envbuilder.inputs.source_trees import SourceTrees
from envbuilder.language import tr
from envbuilder.plan import make_plan
from envbuilder.plan.diff import compare
from envbuilder.project.difference import own_trees
from envbuilder.project.edit import with_row
from envbuilder.project.file import text_of

_SECTIONS = ("pins", "variables", "known issues")


@options.command("upgrade")
@options.option("--to", metavar="BRANCH", help="Release of the framework; default: the newest that is proven.")
@options.allow_change
@options.index
@options.sources
@options.matrices
@options.talk
def command(
    to: str | None, allow_change: tuple[str, ...], index: IndexArguments, sources: SourceArguments,
    matrices: MatrixFolder, talk: Talk,
) -> None:  # fmt: skip
    """Move the project of this folder to another release: show what changes, and lock its additions anew.

    Where an addition no longer fits, nothing is written. The imports of the project's own sources are compared with
    what the new row has.
    """
    project = project_here()
    if project is None:
        raise no_project()
    console, catalog, own = talk.console, matrices.catalog(everything=True), Dimensions()
    before = own.row_of(project, catalog, talk, None)
    where = before.coordinates
    wanted = Dimensions(
        framework=where.framework, branch=to, engine=where.engine, hw=project.wanted.filters.hardware, arch=where.arch,
        os=project.wanted.filters.os,
    )  # fmt: skip
    after = wanted.choose(catalog, talk, None).environment
    if after.id == before.id:
        console.talk(tr("the project is on {environment} already", environment=before.id))
        return
    console.heading(f"{before.id} -> {after.id}")
    _show_difference(console, before, after)
    with changing(project.wanted.folder):
        text = with_row(text_of(project.wanted.file), after.coordinates.branch)
        given = LockArguments(
            dimensions=own, index=index, matrices=matrices, talk=talk, git_mirror=sources.git_mirror,
            may_change=allow_change, of_new_row=True,
        )  # fmt: skip
        lock_project(given, {project.wanted.file: text})
    moved = project_here()
    assert moved is not None  # noqa: S101  it was just written
    _check_imports(console, moved.adopt(after), sources, index)
    console.talk(tr("next: envbuilder build"))


def _show_difference(console: Console, before: Environment, after: Environment) -> None:
    changes = compare((before, make_plan(before)), (after, make_plan(after)))
    for section, items in groupby(
        (item for item in changes if item.section in _SECTIONS), key=lambda item: item.section
    ):
        console.section(tr(section))
        for item in items:
            show_change(item, console)


def _check_imports(
    console: Console, environment: Environment, sources: SourceArguments, index: IndexArguments
) -> None:  # fmt: skip
    """Print the imports of the project's sources that the packages of the new row do not have."""
    own = own_trees(environment, sources.git_mirror)
    if not own:
        return
    trees = SourceTrees(sources.options(index), console.talk)
    for reason in trees.read([environment]):
        console.talk(tr("imports not checked: {reason}", reason=reason))
    for finding in check_environment(environment, None, {**trees.of(environment), **own}):
        if finding.code == "import-missing" and finding.severity != "info":
            console.warn(finding.code, finding.message, finding.hint)
