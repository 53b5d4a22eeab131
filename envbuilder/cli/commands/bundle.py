"""envbuilder bundle"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from envbuilder.cli import options
from envbuilder.plan import make_plan


@click.command("bundle")
@options.identifier()
@options.dimensions
@options.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The file to write."
)
@options.option("--base-image", is_flag=True, help="The base image too, out of the docker engine, which must have it.")
@options.sources
@options.index
@options.matrices
@options.talking
def command(identifier: str | None, output: Path, base_image: bool, **given: Any) -> None:
    """Everything that a site without a network needs to install an environment, in one file.

    Wheels by the lock, sources at their commits, the Dockerfile and the script, each with its digest.
    """
    from envbuilder.bundle import write_bundle
    from envbuilder.packages import packages_of
    from envbuilder.progress import shown
    from envbuilder.sources import obtain

    console, matrix = options.console_of(given), options.matrix_of(given, everything=True)
    environment = options.environment_of(matrix, identifier, given)
    with shown(console) as progress:
        needed, origin = make_plan(matrix, environment).components, options.origin_of(given)
        sources = {name: obtain(matrix, environment, name, origin, progress.say) for name in needed}
        plan = make_plan(matrix, environment, sources)
        own = options.index_of(given)
        indexes = [own, *(options.other_index(given, url) for url in packages_of(matrix, environment).extra_indexes)]
        size = write_bundle(
            plan, sources, indexes, output, _image(plan.base_image) if base_image else None, progress.say
        )
    console.talk(f"{environment.id}: {size / 10**9:.2f} GB")
    console.out(str(output))


def _image(name: str) -> Any:
    from envbuilder.backends.engine import Engine

    return Engine().save(name)
