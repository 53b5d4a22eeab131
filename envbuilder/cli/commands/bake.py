"""envbuilder bake"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from envbuilder.cli import arguments, options
from envbuilder.environment.resolve import resolve
from envbuilder.environment.select import select
from envbuilder.files import write_text
from envbuilder.plan import make_plan


@click.command("bake")
@options.identifiers
@options.dimensions
@options.option(
    "-o", "--output", type=click.Path(path_type=Path, file_okay=False), required=True, help="The folder to write."
)
@options.option(
    "--secret", "secrets", multiple=True, metavar="id=NAME,src=FILE",
    help="As buildx takes it: `network`, a shell file of settings, or `ca`, a bundle of certificates.",
)  # fmt: skip
@options.registry
@options.matrices
@options.talking
def command(identifiers: tuple[str, ...], output: Path, secrets: tuple[str, ...], **given: Any) -> None:
    """A folder for `docker buildx bake`: any set of environments, on whatever builders buildx has."""
    from envbuilder.environment.image_names import image_name
    from envbuilder.platforms import PLATFORMS
    from envbuilder.render.bake import BAKE_FILE, Target, bake_files

    console, matrix = arguments.console_of(given), arguments.matrix_of(given, everything=True)
    targets = []
    for item in select(matrix, identifiers, arguments.filters_of(given)):
        environment = resolve(matrix, item)
        tag = image_name(matrix, environment, given["registry"])
        targets.append(Target(make_plan(matrix, environment), tag, PLATFORMS[item.arch]))
    for name, text in bake_files(targets, secrets).items():
        write_text(output / name, text)
    console.out(str(output / BAKE_FILE))
    console.talk(f"{len(targets)} targets: docker buildx bake --file {BAKE_FILE}, in {output}")
