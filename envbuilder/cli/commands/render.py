"""envbuilder render"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from envbuilder.cli import options
from envbuilder.cli.arguments import Dimensions, MatrixFolder, PinArguments, Talk, warn_unlocked
from envbuilder.cli.project_script import script_plan
from envbuilder.environment import Environment
from envbuilder.errors import EnvbuilderError, UsageError
from envbuilder.files import write_text
from envbuilder.language import counted, tr
from envbuilder.plan import Plan, make_plan
from envbuilder.plan.plan import ARCHIVES, CHECKS, LOCKS, REQUIREMENTS, SETUP, TOOLKIT, TOOLS
from envbuilder.render import FORMATS, GENERATED, build_context
from envbuilder.render.dockerfile import DOCKERFILE

_DOCKERFILE = "dockerfile"
# the files of a build context
_CONTEXT = (DOCKERFILE, SETUP, TOOLKIT, TOOLS, *(f"{name}/*" for name in (LOCKS, REQUIREMENTS, CHECKS, ARCHIVES)))


@options.command("render")
@options.identifiers
@options.dimensions
@options.pins
@options.option("--all", "all_", is_flag=True, help="Render every environment that the dimension options allow.")
@options.option(
    "--format", "format_", type=click.Choice(list(FORMATS)), default=_DOCKERFILE, show_default=True,
    help="What to render.",
)  # fmt: skip
@options.option(
    "-o", "--output", type=click.Path(path_type=Path),
    help="File to write, or folder for a complete build context (or a script) of each environment.",
)  # fmt: skip
@options.option("--check", is_flag=True, help="Write nothing; fail if a file differs from what would be written.")
@options.matrices
@options.talk
def command(
    identifiers: tuple[str, ...], dimensions: Dimensions, pins: PinArguments, all_: bool, format_: str,
    output: Path | None, check: bool, matrices: MatrixFolder, talk: Talk,
) -> None:  # fmt: skip
    """Render the Dockerfile or install script of an environment, on stdout or into files.

    With --all, -o names a folder that afterwards holds exactly the rendered files.
    """
    console, catalog, filters = talk.console, matrices.catalog(), dimensions.filters
    if all_ or identifiers:
        chosen = catalog.select(identifiers, filters, pins.versions)
    else:
        chosen = [dimensions.environment(catalog, None, talk, pins.versions)]
    if output is None and (len(chosen) > 1 or check):
        raise UsageError(tr("several environments (and --check) need a folder"), hint=tr("add -o FOLDER"))
    if all_ or identifiers:
        warn_unlocked(console, chosen)
    if output is None:
        console.out(FORMATS[format_](_plan(chosen[0], format_)).rstrip("\n"))
        return
    if all_ or len(chosen) > 1 or output.is_dir():
        files = {output / path: text for item in chosen for path, text in _files(item, format_).items()}
    else:
        files = {output: FORMATS[format_](_plan(chosen[0], format_))}
    # a file of an environment that no longer exists would mislead its readers
    whole = all_ and not dimensions.given
    strays = [path for path in _generated(output, format_) if path not in files] if whole else []
    if check:
        _compare(files, strays)
        console.talk(tr("{files} up to date", files=counted(len(files), "file")))
        return
    changed = sum(write_text(path, text) for path, text in files.items())
    for path in strays:
        _remove(path, output)
    fields = {"rendered": len(files), "changed": changed, "removed": len(strays), "folder": output}
    console.talk(tr("{rendered} rendered, {changed} changed, {removed} removed in {folder}", **fields))


def _plan(environment: Environment, format_: str) -> Plan:
    return make_plan(environment) if format_ == _DOCKERFILE else script_plan(environment)


def _files(environment: Environment, format_: str) -> dict[str, str]:
    """Return the rendered files of an environment by their path in the folder."""
    plan = _plan(environment, format_)
    if format_ == _DOCKERFILE:
        return {f"{plan.folder}/{path}": text for path, text in build_context(plan).items()}
    return {f"{environment.id}.sh": FORMATS[format_](plan)}


def _generated(folder: Path, format_: str) -> Iterator[Path]:
    """Yield the files that earlier runs wrote into a folder, and no others."""
    pattern = "**/Dockerfile" if format_ == _DOCKERFILE else "*.sh"
    for path in folder.glob(pattern):
        if GENERATED not in path.read_text(encoding="utf-8", errors="replace")[:200]:
            continue
        if format_ == _DOCKERFILE:
            yield from (item for name in _CONTEXT for item in path.parent.glob(name))
        else:
            yield path


def _remove(path: Path, folder: Path) -> None:
    """Remove a file below a folder, and the folders between them that become empty."""
    path.unlink()
    for parent in path.parents:
        if parent == folder or any(parent.iterdir()):
            return
        parent.rmdir()


def _compare(files: dict[Path, str], strays: list[Path]) -> None:
    """Raise an error if a file differs from its text, or if a file belongs to no environment."""
    wrong = [str(path) for path, text in files.items() if not path.is_file() or path.read_text("utf-8") != text]
    wrong += [tr("{path} (no such environment)", path=path) for path in strays]
    if wrong:
        names = ", ".join(wrong[:4])
        raise EnvbuilderError(
            tr("{number} rendered files do not match the matrices: {names}", number=len(wrong), names=names),
            hint=tr("run the same command without --check and commit the result"),
        )
