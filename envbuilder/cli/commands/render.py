"""envbuilder render"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from envbuilder.cli import arguments, options
from envbuilder.environment.resolve import resolve
from envbuilder.environment.select import Coordinates, pick, select
from envbuilder.errors import EnvbuilderError, NoMatchError, UsageError
from envbuilder.files import write_text
from envbuilder.matrix import Matrix
from envbuilder.plan import make_plan
from envbuilder.render import FORMATS

_SUFFIXES = {"dockerfile": ".Dockerfile", "script": ".sh"}


@click.command("render")
@options.identifiers
@options.dimensions
@options.pins
@options.option(
    "--all",
    "all_",
    is_flag=True,
    help="Every environment (with dimension options: every one that fits).",
)
@options.option(
    "--format",
    "format_",
    type=click.Choice(list(FORMATS)),
    default="dockerfile",
    show_default=True,
    envvar="ENVBUILDER_FORMAT",
    help="What to render.",
)
@options.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    envvar="ENVBUILDER_OUTPUT",
    help="A file, or a folder for several environments.",
)
@options.option(
    "--check",
    is_flag=True,
    help="Write nothing; fail where the files differ from what would be written.",
)
@options.matrices
@options.talking
def command(
    identifiers: tuple[str, ...],
    all_: bool,
    format_: str,
    output: Path | None,
    check: bool,
    **given: Any,
) -> None:
    """The Dockerfile or install script of an environment, on stdout or into files.

    With --all, -o names a folder that afterwards holds exactly the rendered files.
    """
    console, matrix = arguments.console_of(given), arguments.matrix_of(given)
    filters, pins = arguments.filters_of(given), arguments.pins_of(given)
    if all_ or identifiers:
        chosen = select(matrix, identifiers, filters)
        if not chosen:
            raise NoMatchError("no environment fits", hint="`envbuilder list` shows all of them")
    else:
        chosen = [pick(matrix, None, filters)]
    if output is None and (len(chosen) > 1 or check):
        raise UsageError("several environments (and --check) need a folder", hint="add -o FOLDER")
    if output is None:
        console.out(_text(matrix, chosen[0], pins, format_).rstrip("\n"))
        return
    into_folder = all_ or len(chosen) > 1 or output.is_dir()
    files = {
        (output / (item.id + _SUFFIXES[format_]) if into_folder else output): _text(matrix, item, pins, format_)
        for item in chosen
    }
    # files of environments that no longer exist would be built by nobody and believed by somebody
    whole = all_ and not filters.given()
    strays = [path for path in output.glob("*" + _SUFFIXES[format_]) if path not in files] if whole else []
    if check:
        _compare(files, strays)
        console.talk(f"{len(files)} files are up to date")
        return
    written = sum(write_text(path, text) for path, text in files.items())
    for path in strays:
        path.unlink()
    console.talk(f"{len(files)} rendered, {written} changed, {len(strays)} removed in {output}")


def _text(matrix: Matrix, coordinates: Coordinates, pins: dict[str, str], format_: str) -> str:
    return FORMATS[format_](make_plan(matrix, resolve(matrix, coordinates, pins)))


def _compare(files: dict[Path, str], strays: list[Path]) -> None:
    stale = [
        str(path) for path, text in files.items() if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]
    if stale or strays:
        names = ", ".join([*stale, *(f"{path} (no such environment)" for path in strays)][:4])
        raise EnvbuilderError(
            f"{len(stale) + len(strays)} rendered files are not what the matrices say: {names}",
            hint="run the same command without --check and commit the result",
        )
