"""Reads keys and their passwords."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from envbuilder.cli.arguments import KeyFile, ProjectKey
from envbuilder.cli.options import is_typed
from envbuilder.errors import UsageError
from envbuilder.language import tr
from envbuilder.registry.trust import Trust, TrustedKey
from envbuilder.signing.keys import PrivateKey, PublicKey, read_private, read_public

_VARIABLES = ("ENVBUILDER_KEY_PASSWORD", "COSIGN_PASSWORD")


def password(question: str, *, new: bool = False) -> bytes:
    """Return the password in a variable, or the one that the user types."""
    given = next((os.environ[name] for name in _VARIABLES if name in os.environ), None)
    if given is not None:
        return given.encode()
    if not sys.stdin.isatty():
        raise UsageError(
            tr("there is no terminal to ask for the password of the key"),
            hint=tr("set {variable}", variable=_VARIABLES[0]),
        )
    typed: str = click.prompt(question, hide_input=True, confirmation_prompt=new, default="", show_default=False)
    return typed.encode()


def private_key(file: Path) -> PrivateKey:
    is_encrypted = b"ENCRYPTED" in file.read_bytes()[:100]
    return read_private(file, password(tr("password of {file}", file=file)) if is_encrypted else b"")


def trusted(keys: tuple[str, ...], *, allow_unsigned: bool = False) -> Trust:
    """Return the public keys that must have signed images, each for the names with its prefix."""
    own = tuple(_trusted(text) for text in keys if not isinstance(text, ProjectKey))
    project = tuple(_trusted(text) for text in keys if isinstance(text, ProjectKey))
    return Trust(own, project, allow_unsigned)


def _trusted(text: str) -> TrustedKey:
    prefix, file = KeyFile.parts(text)
    return TrustedKey(prefix, read_public(Path(file)))


def trusted_for_bundles(keys: tuple[str, ...], offline: Path | None) -> tuple[PublicKey, ...]:
    """Return the public keys of which one must have signed the bundle: those that are not for images of a prefix.

    Those of a project count where the user has no keys.
    """
    if offline is None:
        if is_typed("verify_keys"):
            raise UsageError(tr("--verify-key verifies a bundle"), hint=tr("add --offline, or leave out --verify-key"))
        return ()
    trust = trusted(keys)
    found = tuple(item.key for item in trust.own or trust.project if not item.prefix)
    if keys and not found:
        raise UsageError(
            tr("each --verify-key is only for images of a prefix, and none for bundles"), hint="--verify-key FILE"
        )
    return found
