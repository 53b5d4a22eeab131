"""Reads keys and their passwords."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from envbuilder.errors import UsageError
from envbuilder.language import tr
from envbuilder.registry.keys import PrivateKey, PublicKey, read_private, read_public

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


def trusted(keys: tuple[str, ...]) -> tuple[tuple[str, PublicKey], ...]:
    """Return public keys, each with the prefix of the image names that need its signature."""
    parts = (value.rpartition("=") for value in keys)
    return tuple((prefix, read_public(Path(file))) for prefix, _, file in parts)
