"""envbuilder matrix"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from envbuilder import paths
from envbuilder.cli import options
from envbuilder.cli.arguments import IndexArguments, MatrixFolder, Talk
from envbuilder.cli.console import Console
from envbuilder.cli.json import document
from envbuilder.environment import Catalog
from envbuilder.errors import NetworkError, UsageError
from envbuilder.matrix import load
from envbuilder.matrix.schema import KINDS, schema

if TYPE_CHECKING:
    from envbuilder.matrix.model import Component
    from envbuilder.matrix.scaffold import IndexRelease


@click.group("matrix")
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
        raise UsageError("an installed envbuilder has no matrices to edit", hint="--matrices FOLDER, for an overlay")
    folder = matrices.folder
    base = matrices.load(everything=True) if folder.is_dir() and any(folder.rglob("*.yaml")) else load(everything=True)
    console = talk.console
    published = _published(component_of(base, framework, branch), branch, index, console)
    for file in new_release(base, folder, framework, branch, published):
        console.out(str(file))
    again = " ".join(("envbuilder check", f"'{framework}-{branch}-*'", *matrices.words))
    console.talk(f"change the pins, and look up what is TODO; this lists it: {again}")


def _published(component: Component, version: str, index: IndexArguments, console: Console) -> IndexRelease | None:
    """Return what the package index publishes about a release; where it has nothing, say why."""
    from envbuilder.lock.release import index_release

    release, asked = f"{component.title} {version}", index.open()
    if not component.on_index:
        console.talk(f"{component.title} is on no package index: all of {release} is TODO")
        return None
    try:
        found = index_release(asked, component, version)
    except NetworkError as error:
        console.talk(f"{error.message}: all of {release} is TODO")
        return None
    if found is None:
        console.talk(f"{asked.shown} has no {release}: all of it is TODO")
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

    console, matrix, asked = talk.console, matrices.load(everything=True), index.open()
    newer = list(newer_releases(matrix, asked))
    allowed = list(allowed_upgrades(Catalog(matrix).environments, asked))
    if write:
        written = [found.component for found in newer if write_candidates(matrices.folder, matrix, found)]
        console.talk(f"candidates added to: {', '.join(written) or 'nothing'}")
    if json_:
        console.data(document(components=[asdict(item) for item in newer], rows=[asdict(item) for item in allowed]))
        return
    if newer:
        rows = [(item.component, item.known, item.newer[-1], str(len(item.newer))) for item in newer]
        console.table(("COMPONENT", "KNOWN", "NEWEST", "UNKNOWN"), rows)
    if allowed:
        if newer:
            console.out()
        console.table(
            ("ROW", "PACKAGE", "PINNED", "ALLOWED"), [(i.row, i.package, i.pinned, i.newest) for i in allowed]
        )
    if not newer and not allowed:
        console.talk("the matrices have every release")
