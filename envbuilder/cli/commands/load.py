"""envbuilder load"""

from __future__ import annotations

from pathlib import Path

import click

from envbuilder.cli import options
from envbuilder.cli.arguments import Talk


@options.command("load")
@click.argument("archive", metavar="FILE", type=options.INPUT_FILE)
@options.verify_keys
@options.allow_unsigned
@options.talk
def command(archive: Path, verify_keys: tuple[str, ...], allow_unsigned: bool, talk: Talk) -> None:
    """Load an image from a file of `pull --save`, after every byte of it was checked by digest.

    The file has the signatures of the image, which `--verify-key` and the setting demand as for `pull`.
    """
    from envbuilder.cli.passwords import trusted
    from envbuilder.cli.progress import Lines
    from envbuilder.docker.engine import Docker
    from envbuilder.registry.archive import trusted_image

    trust = trusted(verify_keys, allow_unsigned=allow_unsigned)
    image = trusted_image(archive, trust, Lines(talk.console))
    Docker().load(archive, image.name, {image.id, image.digest})
    talk.console.out(image.name)
