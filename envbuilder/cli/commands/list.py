"""envbuilder list"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from envbuilder.cli import arguments, options
from envbuilder.environment.select import select
from envbuilder.errors import NoMatchError

if TYPE_CHECKING:
    from envbuilder.environment.resolve import Environment


@click.command("list")
@options.identifiers
@options.dimensions
@options.as_json
@options.matrices
@options.talking
def command(identifiers: tuple[str, ...], **given: Any) -> None:
    """Environments, filtered by identifiers, globs or dimensions.

    A table on a terminal, one identifier per line in a pipe.
    """
    console, matrix = arguments.console_of(given), arguments.matrix_of(given)
    found = select(matrix, identifiers, arguments.filters_of(given))
    if not given["json_"] and not console.is_terminal:
        for item in found:
            console.out(item.id)
        return
    # a pipe needs none of what follows, and should not wait for its import
    from envbuilder.cli.json import document, summary
    from envbuilder.environment.resolve import resolve

    if given["json_"]:
        console.data(document(environments=[summary(resolve(matrix, item)) for item in found]))
    else:
        if not found:
            raise NoMatchError("no environment fits", hint="`envbuilder list` shows all of them")
        header = ("ENVIRONMENT", "PYTHON", "CANN", "TORCH_NPU", "ENGINE", "PLUGIN", "PROVEN")
        console.table(header, [_row(resolve(matrix, item)) for item in found])
        console.talk(f"{len(found)} environments; `envbuilder show ID` tells more")


def _row(environment: Environment) -> tuple[str, ...]:

    def version(name: str) -> str:
        return environment.version(name) or "-"

    cann = version("cann") if "cann" in environment.hardware.provides else "-"
    engine = environment.engine
    return (
        environment.id,
        version("python"),
        cann,
        version("torch_npu"),
        version(engine.engine),
        version(engine.plugin),
        environment.proven or "-",
    )
