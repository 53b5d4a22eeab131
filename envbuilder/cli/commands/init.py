"""envbuilder init"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from envbuilder import platforms
from envbuilder.cli import options
from envbuilder.cli.arguments import Dimensions, IndexArguments, MatrixFolder, SourceArguments, Talk
from envbuilder.cli.project_lock import LockArguments, lock_project
from envbuilder.cli.settings import FILE
from envbuilder.environment import Catalog, Environment
from envbuilder.environment.packages import source_builds
from envbuilder.errors import UsageError
from envbuilder.files import parse_toml, read_regular
from envbuilder.language import tr
from envbuilder.project.file import TABLE

_LARGEST = 10**6
_COMMENTS = """\
# packages = ["swanlab", "math-verify>=0.8"]   # envbuilder add PACKAGE
# system-packages = ["tmux"]
# pins = { ray = "2.50" }                      # another version than the row's
# variables = { SWANLAB_MODE = "offline" }
# files = { "scripts" = "/workspace/scripts" } # copied into the image
"""


@options.command("init")
@options.dimensions
@options.index
@options.sources
@options.matrices
@options.talk
def command(
    dimensions: Dimensions, index: IndexArguments, sources: SourceArguments, matrices: MatrixFolder, talk: Talk
) -> None:
    """Make this folder a project on a proven environment: writes envbuilder.toml and envbuilder.lock.

    Options, or the NPUs of this machine, choose the environment; without both, a terminal is asked. A fork of the
    framework in this folder takes the place of the row's source.
    """
    file = Path.cwd() / FILE
    before = read_regular(file, _LARGEST).decode() if file.is_file() else ""
    if TABLE in parse_toml(before):
        raise UsageError(
            tr("{file} describes an environment already", file=file),
            hint=tr("envbuilder add, or change it in an editor"),
        )
    catalog = matrices.catalog(everything=True)
    wanted = _asked(dimensions, catalog)
    row = wanted.choose(catalog, talk, wanted.look()).environment
    fork = _fork(row, Path.cwd())
    text = f"{before.rstrip()}\n\n" if before.strip() else ""
    text += "".join(_lines(row, wanted, fork))
    given = LockArguments(dimensions=wanted, index=index, matrices=matrices, talk=talk, git_mirror=sources.git_mirror)
    lock_project(given, {file: text})
    if fork:
        talk.console.talk(tr("this folder is {component}: it takes the place of the row's", component=fork))
    talk.console.talk(tr("next: envbuilder add PACKAGE, or envbuilder build"))
    talk.console.out(FILE)


def _asked(dimensions: Dimensions, catalog: Catalog) -> Dimensions:
    """Return the dimensions, with the answers of a terminal where nothing else chooses the hardware."""
    if dimensions.hw or dimensions.machine or platforms.npus():
        return dimensions
    known = sorted(catalog.hardware)
    if not sys.stdin.isatty():
        raise UsageError(tr("this machine has no NPUs, so the hardware must be named"), hint=f"--hw {'|'.join(known)}")
    hw = click.prompt(tr("hardware"), type=click.Choice(known), default=known[0])
    engines = sorted({item.coordinates.engine for item in catalog.environments if item.coordinates.hardware == hw})
    engine = dimensions.engine or click.prompt(tr("engine"), type=click.Choice(engines), default=catalog.default_engine)
    return Dimensions(**{**dimensions.__dict__, "hw": hw, "engine": engine})


def _fork(row: Environment, folder: Path) -> str | None:
    """Return the component whose source tree the folder is, if the row could have it in place of its own."""
    if not any((folder / name).is_file() for name in ("pyproject.toml", "setup.py")):
        return None
    kept = (spec.component for spec in source_builds(row)[0] if spec.keep_source)
    return next((name for name in kept if (folder / _package(row, name) / "__init__.py").is_file()), None)


def _package(row: Environment, name: str) -> str:
    """Return the folder of the Python package of a component."""
    component = row.component(name)
    return component.packages[0] if component and component.packages else name


def _lines(row: Environment, wanted: Dimensions, fork: str | None) -> Iterator[str]:
    where = row.coordinates
    yield f"# What this project adds to {row.branch.title}; `envbuilder build` builds and proves it.\n"
    yield f"[{TABLE}]\n"
    values = {
        "framework": where.framework, "branch": where.branch, "engine": where.engine, "hw": wanted.hw or where.hardware,
        "os": wanted.os,
    }  # fmt: skip
    for key, value in values.items():
        if value is not None:
            yield f"{key} = {json.dumps(value)}\n"
    if fork:
        yield f'sources = {{ {fork} = "." }}\n'
    yield _COMMENTS
