"""envbuilder matrix"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from envbuilder import paths
from envbuilder.cli import options
from envbuilder.cli.arguments import IndexArguments, MatrixFolder, Talk
from envbuilder.cli.console import Console
from envbuilder.cli.help import Group
from envbuilder.cli.json import document
from envbuilder.environment import Catalog
from envbuilder.errors import NetworkError, UsageError
from envbuilder.language import tr
from envbuilder.matrix import load
from envbuilder.matrix.schema import KINDS, schema

if TYPE_CHECKING:
    from envbuilder.matrix.model import Component
    from envbuilder.matrix.scaffold import IndexRelease


@click.group("matrix", cls=Group)
def command() -> None:
    """Maintain the matrices."""


@command.command("schema")
@click.argument("kind", type=click.Choice(list(KINDS)), required=False)
@options.talk
def schema_(kind: str | None, talk: Talk) -> None:
    """Print the JSON Schema of a kind of matrix file, or of all of them by name."""
    talk.console.data(schema(kind) if kind else {name: schema(name) for name in KINDS})


@command.command("init")
@click.argument("framework")
@click.argument("branch")
@options.index
@options.matrices
@options.talk
def init(framework: str, branch: str, index: IndexArguments, matrices: MatrixFolder, talk: Talk) -> None:
    """Write the files of a new release of a framework, as a copy of its newest one.

    They are written into this checkout, or into the folder of --matrices, which then overlays the built-in matrices.

    The package index gives the Python range, the requirements and the source archive of the release. What a person has
    to look up is TODO, which `check` refuses.
    """
    from envbuilder.matrix.scaffold import component_of, new_release

    if matrices.matrices is None and not paths.is_checkout():
        raise UsageError(
            tr("an installed envbuilder has no matrices to edit"), hint=tr("--matrices FOLDER, for an overlay")
        )
    folder = matrices.folder
    base = matrices.load(everything=True) if folder.is_dir() and any(folder.rglob("*.yaml")) else load(everything=True)
    console = talk.console
    published = _published(component_of(base, framework, branch), branch, index, console)
    for file in new_release(base, folder, framework, branch, published):
        console.out(str(file))
    again = " ".join(("envbuilder check", f"'{framework}-{branch}-*'", *matrices.words))
    console.talk(tr("change the pins, and look up what is TODO; this lists it: {again}", again=again))


def _published(component: Component, version: str, index: IndexArguments, console: Console) -> IndexRelease | None:
    """Return what the package index publishes about a release; if it has nothing, print why."""
    from envbuilder.lock.release import index_release

    title, release, server = component.title, f"{component.title} {version}", index.open()
    if not component.on_index:
        console.talk(tr("{title} is not on a package index: all of {release} is TODO", title=title, release=release))
        return None
    try:
        found = index_release(server, component, version)
    except NetworkError as error:
        console.talk(tr("{reason}: all of {release} is TODO", reason=error.message, release=release))
        return None
    if found is None:
        console.talk(tr("{index} has no {release}: all of it is TODO", index=server.shown, release=release))
    return found


@command.command("outdated")
@options.option("--write", is_flag=True, help="Add newer releases to the compat tables, as candidates.")
@options.index
@options.as_json
@options.matrices
@options.talk
def outdated(write: bool, index: IndexArguments, json_: bool, matrices: MatrixFolder, talk: Talk) -> None:
    """List releases of the package index that the matrices lack, and newer versions that rows would allow."""
    from dataclasses import asdict

    from envbuilder.lock.outdated import allowed_upgrades, newer_releases, write_candidates

    console, matrix, server = talk.console, matrices.load(everything=True), index.open()
    newer = list(newer_releases(matrix, server))
    allowed = list(allowed_upgrades(Catalog(matrix).environments, server))
    if write:
        written = [found.component for found in newer if write_candidates(matrices.folder, matrix, found)]
        console.talk(tr("candidates added to: {names}", names=", ".join(written) or tr("nothing")))
    if json_:
        console.data(document(components=[asdict(item) for item in newer], rows=[asdict(item) for item in allowed]))
        return
    if newer:
        rows = [(item.component, item.known, item.newer[-1], str(len(item.newer))) for item in newer]
        console.table((tr("COMPONENT"), tr("KNOWN"), tr("NEWEST"), tr("UNKNOWN")), rows)
    if allowed:
        if newer:
            console.out()
        header = (tr("ROW"), tr("PACKAGE"), tr("PINNED"), tr("ALLOWED"))
        console.table(header, [(item.row, item.package, item.pinned, item.newest) for item in allowed])
    if not newer and not allowed:
        console.talk(tr("the matrices have every release"))
