"""envbuilder diff"""

from __future__ import annotations

from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING

import click

from envbuilder.cli import options
from envbuilder.cli.arguments import Dimensions, IndexArguments, MatrixFolder, SourceArguments, Talk
from envbuilder.cli.changes import show_change
from envbuilder.cli.console import Console, one_line
from envbuilder.cli.image_argument import is_image
from envbuilder.cli.json import document
from envbuilder.cli.project_argument import project_here
from envbuilder.environment import Environment
from envbuilder.errors import UsageError
from envbuilder.language import counted, tr
from envbuilder.plan import make_plan
from envbuilder.plan.diff import Change, added, compare

if TYPE_CHECKING:
    from envbuilder.inputs.source_archives import SourceOptions

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
@click.argument("before", metavar="[A]", required=False, shell_complete=options.complete_identifier)
@click.argument("after", metavar="[B]", required=False, shell_complete=options.complete_identifier)
@options.sources
@options.index
@options.as_json
@options.matrices
@options.talk
def command(
    before: str | None, after: str | None, sources: SourceArguments, index: IndexArguments, json_: bool,
    matrices: MatrixFolder, talk: Talk,
) -> None:  # fmt: skip
    """Show what changes from environment A to environment B: pins, steps, variables, paths, known issues.

    Two images of the docker engine are compared by their layers and files. Without names, the project of this folder is
    compared with its row, and its own sources with those of the row's release.
    """
    console, catalog = talk.console, matrices.catalog()
    if before is None or after is None:
        if before is not None or project_here() is None:
            raise UsageError(tr("diff takes two environments, or two images; without names, a project"))
        _project(console, Dimensions().environment(catalog, None, talk), sources.options(index), json_=json_)
        return
    if is_image(before, catalog) and is_image(after, catalog) and {":", "@", "/"} & {*before, *after}:
        _images(console, before, after, json_=json_)
        return
    environments = [catalog.pick(name) for name in (before, after)]
    old, new = ((item, make_plan(item)) for item in environments)
    changes = compare(old, new)
    if json_:
        console.data(document(a=environments[0].id, b=environments[1].id, changes=[asdict(item) for item in changes]))
        return
    _print_changes(console, changes)
    if not changes:
        console.talk(tr("no difference"))


def _project(console: Console, environment: Environment, sources: SourceOptions, *, json_: bool) -> None:
    """Compare a project with its row; files of a source that cannot be reached are not compared."""
    from envbuilder.project.difference import changed_sources

    row = environment.of_row
    changes = compare((row, make_plan(row)), (environment, make_plan(row.changed(pins=environment.pins))))
    changes += added(environment)
    files, unread = changed_sources(environment, sources, console.talk)
    if json_:
        found = [asdict(item) for item in changes]
        console.data(
            document(a=row.id, b=environment.additions and environment.additions.project, changes=found, files=files)
        )
        return
    _print_changes(console, changes)
    for name, paths in files.items():
        console.heading(tr("files of {component}", component=name))
        for path, mark in list(paths.items())[:_SHOWN]:
            console.out(f"  {mark} {one_line(path)}")
        if len(paths) > _SHOWN:
            console.out(tr("  ... and {number} more; --json lists all", number=len(paths) - _SHOWN))
    for reason in unread:
        console.talk(tr("files not compared: {reason}", reason=reason))
    if not changes and not any(files.values()):
        console.talk(tr("no difference"))


def _print_changes(console: Console, changes: list[Change]) -> None:
    for section, items in groupby(changes, key=lambda item: item.section):
        console.heading(tr(section))
        for item in items:
            show_change(item, console)


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
