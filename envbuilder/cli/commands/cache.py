"""envbuilder cache"""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from envbuilder import paths
from envbuilder.cli import options
from envbuilder.cli.arguments import Talk
from envbuilder.cli.help import Group
from envbuilder.cli.json import document
from envbuilder.language import tr

# the parts of the cache folder
_PARTS = {
    "wheels": "wheels that were built from source; the next build of the same sources takes them",
    "sources": "source archives",
    "index": "answers of package indexes",
    "matrix.json": "the parsed matrices",
}


@click.group("cache", cls=Group)
def command() -> None:
    """Show and empty the cache of wheels, sources and answers of the package index."""


@command.command("size")
@options.as_json
@options.talk
def size(json_: bool, talk: Talk) -> None:
    """Show what the cache contains, and its size."""
    folder, console = paths.cache_folder(), talk.console
    found = {name: _bytes(folder / name) for name in _PARTS}
    if json_:
        console.data(document(folder=str(folder), bytes=found))
        return
    rows = [(name, f"{number / 10**6:.1f} MB", tr(_PARTS[name])) for name, number in found.items()]
    total = (tr("all"), f"{sum(found.values()) / 10**6:.1f} MB", str(folder))
    console.table((tr("PART"), tr("SIZE"), tr("WHAT")), [*rows, total])


@command.command("prune")
@options.option("--part", type=click.Choice(list(_PARTS)), help="Empty only this part.")
@options.talk
def prune(part: str | None, talk: Talk) -> None:
    """Empty the cache, or a part of it; builds take longer the next time."""
    folder, freed = paths.cache_folder(), 0
    for name in [part] if part else _PARTS:
        place = folder / name
        freed += _bytes(place)
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
    talk.console.talk(tr("{size} MB removed from {folder}", size=f"{freed / 10**6:.1f}", folder=folder))


def _bytes(place: Path) -> int:
    files = place.rglob("*") if place.is_dir() else [place]
    return sum(file.lstat().st_size for file in files if file.is_file())
