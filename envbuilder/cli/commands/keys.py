"""envbuilder keys"""

from __future__ import annotations

from pathlib import Path

import click

from envbuilder.cli import options
from envbuilder.cli.arguments import Talk
from envbuilder.cli.help import Group
from envbuilder.errors import EnvbuilderError
from envbuilder.files import write_new
from envbuilder.language import tr


@click.group("keys", cls=Group)
def command() -> None:
    """Make keys that sign images, in the format of cosign; keys that cosign has made work too."""


@command.command("new")
@click.argument("name", type=click.Path(path_type=Path))
@options.talk
def new(name: Path, talk: Talk) -> None:
    """Make a pair of keys: NAME.key, encrypted with a password, and NAME.pub.

    The password is asked for, or taken from ENVBUILDER_KEY_PASSWORD or COSIGN_PASSWORD.
    """
    from envbuilder.cli.passwords import password
    from envbuilder.signing.keys import make_keys, read_public, require_cryptography

    require_cryptography()
    private, public = (name.with_name(f"{name.name}.{end}") for end in ("key", "pub"))
    for file in (private, public):
        if file.exists():
            raise EnvbuilderError(
                tr("{file} exists", file=file), hint=tr("choose another name: an overwritten key is lost")
            )
    contents = make_keys(password(tr("password of {file}", file=private), new=True))
    private.parent.mkdir(parents=True, exist_ok=True)
    write_new(private, contents[0], 0o600)
    try:
        write_new(public, contents[1], 0o644)
    except OSError:
        private.unlink()
        raise
    talk.console.talk(tr("{private} signs images; keep it and its password secret", private=private))
    fields = {"public": public, "fingerprint": read_public(public).fingerprint}
    talk.console.talk(tr("{public} verifies signatures ({fingerprint}); publish it", **fields))
    talk.console.out(str(public))
