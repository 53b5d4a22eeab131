"""envbuilder matrix"""

from __future__ import annotations

from typing import Any

import click

from envbuilder.cli import options
from envbuilder.matrix.schema import KINDS, schema


@click.group("matrix")
def command() -> None:
    """For maintainers of the matrices."""


@command.command("schema")
@click.argument("kind", type=click.Choice(list(KINDS)), required=False)
@options.talking
def schema_(kind: str | None, **given: Any) -> None:
    """The JSON Schema of a kind of matrix file, or of all of them by name."""
    console = options.console_of(given)
    console.data(schema(kind) if kind else {name: schema(name) for name in KINDS})
