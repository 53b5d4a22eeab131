"""envbuilder matrix"""

from __future__ import annotations

from typing import Any

import click

from envbuilder import paths
from envbuilder.cli import arguments, options
from envbuilder.cli.json import document
from envbuilder.environment.resolve import resolve
from envbuilder.environment.select import environments
from envbuilder.matrix.schema import KINDS, schema


@click.group("matrix")
def command() -> None:
    """For maintainers of the matrices."""


@command.command("schema")
@click.argument("kind", type=click.Choice(list(KINDS)), required=False)
@options.talking
def schema_(kind: str | None, **given: Any) -> None:
    """The JSON Schema of a kind of matrix file, or of all of them by name."""
    console = arguments.console_of(given)
    console.data(schema(kind) if kind else {name: schema(name) for name in KINDS})


@command.command("outdated")
@options.option("--write", is_flag=True, help="Add what is newer to the compat tables, as candidates.")
@options.index
@options.as_json
@options.matrices
@options.talking
def outdated(write: bool, **given: Any) -> None:
    """What the package index has that the matrices do not know, and newer versions that rows would allow."""
    from dataclasses import asdict

    from envbuilder.lock.outdated import allowed_upgrades, newer_releases, write_candidates

    console, matrix = arguments.console_of(given), arguments.matrix_of(given, everything=True)
    index = arguments.index_of(given)
    newer = list(newer_releases(matrix, index))
    allowed = list(allowed_upgrades(matrix, (resolve(matrix, item) for item in environments(matrix)), index))
    if write:
        folder = given["matrices"] or paths.matrices()
        written = [found.component for found in newer if write_candidates(folder, matrix, found)]
        console.talk(f"candidates added to: {', '.join(written) or 'nothing'}")
    if given["json_"]:
        console.data(document(components=[asdict(item) for item in newer], rows=[asdict(item) for item in allowed]))
        return
    if newer:
        rows = [(item.component, item.known, item.newer[-1], str(len(item.newer))) for item in newer]
        console.table(("COMPONENT", "KNOWN", "NEWEST", "UNKNOWN"), rows)
    if allowed:
        console.out()
        console.table(
            ("ROW", "PACKAGE", "PINNED", "ALLOWED"), [(i.row, i.package, i.pinned, i.newest) for i in allowed]
        )
    if not newer and not allowed:
        console.talk("the matrices know all of it")
