"""envbuilder list"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from envbuilder.cli import options
from envbuilder.cli.arguments import Dimensions, MatrixFolder, Talk
from envbuilder.environment.select import select
from envbuilder.errors import NoMatchError

if TYPE_CHECKING:
    from envbuilder.environment import Environment


@click.command("list")
@options.identifiers
@options.dimensions
@options.as_json
@options.matrices
@options.talk
def command(
    identifiers: tuple[str, ...], dimensions: Dimensions, json_: bool, matrices: MatrixFolder, talk: Talk
) -> None:
    """List environments, filtered by identifiers, globs or dimensions.

    A table on a terminal, one identifier per line in a pipe.
    """
    console = talk.console
    if not json_ and not console.is_terminal:
        # a pipe gets identifiers only, so no environment has to be resolved
        for item in select(matrices.load(), identifiers, dimensions.filters):
            console.out(item.id)
        return
    found = matrices.catalog().select(identifiers, dimensions.filters)
    if json_:
        from envbuilder.cli.json import document, summary

        console.data(document(environments=[summary(item) for item in found]))
        return
    if not found:
        raise NoMatchError("no environment fits", hint="`envbuilder list` shows all of them")
    header = ("ENVIRONMENT", "PYTHON", "CANN", "TORCH_NPU", "ENGINE", "PLUGIN", "PROVEN")
    console.table(header, [_row(item) for item in found])
    console.talk(f"{len(found)} environments; `envbuilder show ID` shows more")


def _row(environment: Environment) -> tuple[str, ...]:
    def version(name: str) -> str:
        return environment.version(name) or "-"

    engine = environment.engine
    return (
        environment.id,
        version("python"),
        version("cann") if "cann" in environment.hardware.provides else "-",
        version("torch_npu"),
        version(engine.engine),
        version(engine.plugin),
        environment.proven or "-",
    )
