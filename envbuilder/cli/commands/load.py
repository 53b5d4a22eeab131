"""envbuilder load"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from envbuilder.cli import arguments, options


@click.command("load")
@click.argument("archive", metavar="FILE", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@options.talking
def command(archive: Path, **given: Any) -> None:
    """An image from a file that `pull --save` has written, after every byte of it was compared with its digest."""
    from envbuilder.docker.engine import Engine
    from envbuilder.registry.archive import verify

    console = arguments.console_of(given)
    name, digest = verify(archive)
    console.talk(f"{name}@{digest}: as it should be")
    Engine().load(archive, name)
    console.out(name)
