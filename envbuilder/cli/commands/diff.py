"""envbuilder diff"""

from __future__ import annotations

from dataclasses import asdict
from itertools import groupby

import click

from envbuilder.cli import options
from envbuilder.cli.arguments import MatrixFolder, Talk
from envbuilder.cli.columns import columns
from envbuilder.cli.console import Console, one_line
from envbuilder.cli.image_argument import is_image
from envbuilder.cli.json import document
from envbuilder.language import counted, tr
from envbuilder.plan import make_plan
from envbuilder.plan.diff import Change, compare

# the number of paths for each kind of difference
_SHOWN = 10
_TITLES = (
    "{paths} with another content, owner or mode, {size} MB",
    "{paths} only in A, {size} MB",
    "{paths} only in B, {size} MB",
    "{paths} with a different time only, {size} MB",
    "{paths} with a difference in a layer that a later one covers, {size} MB",
)


@options.command("diff")
@click.argument("before", metavar="A", shell_complete=options.complete_identifier)
@click.argument("after", metavar="B", shell_complete=options.complete_identifier)
@options.as_json
@options.matrices
@options.talk
def command(before: str, after: str, json_: bool, matrices: MatrixFolder, talk: Talk) -> None:
    """Show what changes from environment A to environment B: pins, steps, variables, paths, known issues.

    Two images of the docker engine are compared by their layers and files.
    """
    console, catalog = talk.console, matrices.catalog()
    if is_image(before, catalog) and is_image(after, catalog) and {":", "@", "/"} & {*before, *after}:
        _images(console, before, after, json_=json_)
        return
    environments = [catalog.pick(name) for name in (before, after)]
    old, new = ((item, make_plan(item)) for item in environments)
    changes = compare(old, new)
    if json_:
        console.data(document(a=environments[0].id, b=environments[1].id, changes=[asdict(item) for item in changes]))
        return
    for section, items in groupby(changes, key=lambda item: item.section):
        console.heading(tr(section))
        for item in items:
            _show(item, console)
    if not changes:
        console.talk(tr("no difference"))


def _images(console: Console, before: str, after: str, *, json_: bool) -> None:
    from envbuilder.docker.contents import CONTENT, COVERED, FIRST, SECOND, TIME, compare_images, document_of
    from envbuilder.docker.engine import Docker

    found = compare_images(Docker(), before, after)
    if json_:
        console.data(document(a=before, b=after, **document_of(found)))
        return
    console.out(
        tr("layers  {equal} of {layers} are equal, byte for byte", equal=found.equal_layers, layers=max(found.layers))
    )
    console.out(tr("files   {first} in A, {second} in B", first=found.files[0], second=found.files[1]))
    for how, title in zip((CONTENT, FIRST, SECOND, TIME, COVERED), _TITLES, strict=True):
        items = found.of(how)
        if items:
            size = f"{sum(item.size for item in items) / 10**6:.1f}"
            console.heading(tr(title, paths=counted(len(items), "path"), size=size))
            for item in items[:_SHOWN]:
                console.out(f"  {one_line(item.path)}")
            if len(items) > _SHOWN:
                console.out(tr("  ... and {number} more; --json lists all", number=len(items) - _SHOWN))
    if not found.differences:
        console.talk(tr("no difference"))


def _show(item: Change, console: Console) -> None:
    """Print a change; a terminal would break a long line within a word."""
    mark, style = ("+", "added") if item.before is None else ("-", "removed") if item.after is None else (" ", "")
    values = [text for text in (item.before, item.after) if text and text != "yes"]
    text = f"{item.name}  {' -> '.join(values)}" if values else item.name
    if console.is_terminal and columns(text) + 4 > console.width:
        console.wrapped(text, 4, style, first=f"  {mark} ")
    else:
        console.out(console.style(f"  {mark} {text}", style) if style else f"  {mark} {text}")
