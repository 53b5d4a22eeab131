"""envbuilder images"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from envbuilder.cli import options
from envbuilder.console import Console
from envbuilder.describe import document
from envbuilder.matrix import Matrix
from envbuilder.select import select


@click.command("images")
@options.identifiers
@options.dimensions
@options.option("--remote", metavar="PREFIX", help="A registry too, as what image names there begin with.")
@options.option("--prune", is_flag=True, help="What nobody needs: tells it, and removes nothing.")
@options.option("--force", is_flag=True, help="With --prune: removes it.")
@options.ca_bundle
@options.as_json
@options.matrices
@options.talking
def command(identifiers: tuple[str, ...], remote: str | None, prune: bool, force: bool, **given: Any) -> None:
    """Images of environments: what they are called, how large, for what, and how far they were proven."""
    from envbuilder.backends.engine import Engine
    from envbuilder.images import here, there
    from envbuilder.pull import Source

    console, matrix = options.console_of(given), options.matrix_of(given, everything=True)
    if prune:
        _prune(console, matrix, force=force)
        return
    chosen = select(matrix, identifiers, options.filters_of(given))
    found = here(Engine(), chosen)
    if remote is not None:
        found += there(matrix, chosen, Source(remote, (), given["ca_bundle"]))
    if given["json_"]:
        console.data(document(images=[asdict(item) for item in found]))
        return
    rows = [
        (
            item.image,
            item.where,
            f"{item.size / 10**9:.2f} GB",
            item.arch,
            item.proven or "-",
            item.created[:10],
            item.digest[7:19],
        )
        for item in found
    ]
    if rows:
        console.table(("image", "where", "size", "arch", "proven", "created", "digest"), rows)


def _prune(console: Console, matrix: Matrix, *, force: bool) -> None:
    from envbuilder.backends.engine import Engine
    from envbuilder.images import unneeded

    engine = Engine()
    found = list(unneeded(matrix, engine))
    for item, reason in found:
        console.out(f"{item.name or item.id[7:19]}  {item.size / 10**9:.2f} GB  {reason}")
        if force:
            engine.remove(item.name or item.id)
    console.talk(f"{len(found)} images {'removed' if force else 'would be removed: --prune --force does it'}")
