"""envbuilder load"""

from __future__ import annotations

from pathlib import Path

import click

from envbuilder.cli import options
from envbuilder.cli.arguments import Talk
from envbuilder.language import tr


@options.command("load")
@click.argument("archive", metavar="FILE", type=options.INPUT_FILE)
@options.talk
def command(archive: Path, talk: Talk) -> None:
    """Load an image from a file of `pull --save`, after every byte of it was checked by digest."""
    from envbuilder.docker.engine import Docker
    from envbuilder.registry.archive import verify

    name, digest = verify(archive)
    talk.console.talk(tr("{name}@{digest}: every byte matches its digest", name=name, digest=digest))
    Docker().load(archive, name)
    talk.console.out(name)
