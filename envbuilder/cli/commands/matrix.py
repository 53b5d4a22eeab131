"""envbuilder matrix"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from envbuilder import paths
from envbuilder.cli import options
from envbuilder.cli.arguments import IndexArguments, MatrixFolder, PinArguments, Talk
from envbuilder.cli.console import Console
from envbuilder.cli.help import Group
from envbuilder.cli.json import document
from envbuilder.environment import Catalog
from envbuilder.errors import NetworkError, UsageError
from envbuilder.language import tr
from envbuilder.matrix import Matrix, load
from envbuilder.matrix.schema import KINDS, schema

if TYPE_CHECKING:
    from envbuilder.matrix.model import Component
    from envbuilder.matrix.scaffold import IndexRelease


@click.group("matrix", cls=Group)
def command() -> None:
    """Maintain the matrices."""


@command.command("schema")
@click.argument("kind", type=click.Choice(list(KINDS)), required=False)
@options.talk
def schema_(kind: str | None, talk: Talk) -> None:
    """Print the JSON Schema of a kind of matrix file, or of all of them by name."""
    talk.console.data(schema(kind) if kind else {name: schema(name) for name in KINDS})


@command.command("draft")
@click.argument("framework")
@click.argument("tag")
@options.option("--engine", help="Draft the row of this engine alone; default: those of the newest row.")
@options.option("--hw", metavar="NAME", help="Draft for this hardware; default: that of the newest row.")
@options.option(
    "--pin", multiple=True, metavar="NAME=VERSION", help="Give a version by hand, and draft what goes with it."
)
@options.option("--try", "try_", is_flag=True, help="Resolve, check, lock and rehearse the drafted row.")
@options.git_mirror
@options.index
@options.as_json
@options.matrices
@options.talk
def draft(
    framework: str, tag: str, engine: str | None, hw: str | None, pin: tuple[str, ...], try_: bool,
    git_mirror: str | None, index: IndexArguments, json_: bool, matrices: MatrixFolder, talk: Talk,
) -> int:  # fmt: skip
    """Write the row of a release as a draft, from the files of the framework, of the engine and of its plugin.

    Each pin has its source; a comment above it says what other files state. Releases that the compat tables lack are
    added there. `check` refuses the draft until a person has decided what it marks.

    Of a release that has a row, the differences between the row and a draft of it are printed, and nothing is written.
    These are answers, not errors: the exit code is 0.
    """
    from envbuilder.cli.draft import DraftArguments, audit, try_draft, write_draft

    if try_ and json_:
        raise UsageError(tr("--try prints the output of several commands, which is not JSON"))
    given = DraftArguments(
        framework=framework, tag=tag, engine=engine, hw=hw, pins=PinArguments(pin=pin), git_mirror=git_mirror,
        index=index, matrices=matrices, talk=talk,
    )  # fmt: skip
    found = _base(matrices)
    if any((item.framework, item.name) == (framework, tag) for item in found.branches):
        if try_:
            raise UsageError(tr("{framework} already has a row {branch}", framework=framework, branch=tag))
        audit(given, found, json=json_)
        return 0
    _require_folder(matrices)
    drafts = write_draft(given, found, matrices.folder, json=json_)
    return try_draft(given, matrices.folder, found, drafts) if try_ else 0


@command.command("init")
@click.argument("framework")
@click.argument("branch")
@options.index
@options.matrices
@options.talk
def init(framework: str, branch: str, index: IndexArguments, matrices: MatrixFolder, talk: Talk) -> None:
    """Write the files of a new release of a framework, as a copy of its newest one.

    They are written into this checkout, or into the folder of --matrices, which then overlays the built-in matrices.

    The package index gives the Python range, the requirements and the source archive of the release. What a person has
    to look up is TODO, which `check` refuses.
    """
    from envbuilder.matrix.scaffold import component_of, new_release

    _require_folder(matrices)
    base, folder = _base(matrices), matrices.folder
    console = talk.console
    published = _published(component_of(base, framework, branch), branch, index, console)
    for file in new_release(base, folder, framework, branch, published):
        console.out(str(file))
    again = " ".join(("envbuilder check", f"'{framework}-{branch}-*'", *matrices.words))
    console.talk(tr("change the pins, and look up what is TODO; this lists it: {again}", again=again))


def _base(matrices: MatrixFolder) -> Matrix:
    """Return the matrices that a new release is added to; the folder of an overlay may be empty."""
    folder = matrices.folder
    return matrices.load(everything=True) if folder.is_dir() and any(folder.rglob("*.yaml")) else load(everything=True)


def _require_folder(matrices: MatrixFolder) -> None:
    if matrices.matrices is None and not paths.is_checkout():
        raise UsageError(
            tr("an installed envbuilder has no matrices to edit"), hint=tr("--matrices FOLDER, for an overlay")
        )


def _published(component: Component, version: str, index: IndexArguments, console: Console) -> IndexRelease | None:
    """Return what the package index publishes about a release; if it has nothing, print why."""
    from envbuilder.lock.release import index_release

    title, release, server = component.title, f"{component.title} {version}", index.open()
    if not component.on_index:
        console.talk(tr("{title} is not on a package index: all of {release} is TODO", title=title, release=release))
        return None
    try:
        found = index_release(server, component, version)
    except NetworkError as error:
        console.talk(tr("{reason}: all of {release} is TODO", reason=error.message, release=release))
        return None
    if found is None:
        console.talk(tr("{index} has no {release}: all of it is TODO", index=server.shown, release=release))
    return found


@command.command("outdated")
@options.option("--write", is_flag=True, help="Add newer releases to the compat tables, as candidates.")
@options.git_mirror
@options.index
@options.as_json
@options.matrices
@options.talk
def outdated(
    write: bool, git_mirror: str | None, index: IndexArguments, json_: bool, matrices: MatrixFolder, talk: Talk
) -> None:  # fmt: skip
    """List releases without a row or without their pairings, and newer versions that rows would allow.

    Components that are on no package index are looked for among the tags of their repositories.
    """
    from dataclasses import asdict

    from envbuilder.lock.outdated import allowed_upgrades, newer_releases, tagged_releases, write_candidates

    console, matrix, server = talk.console, matrices.load(everything=True), index.open()

    def tagged(component: Component) -> list[str]:
        try:
            return tagged_releases(component, git_mirror)
        except NetworkError as error:
            console.talk(tr("{title} was not looked for: {reason}", title=component.title, reason=error.message))
            return []

    newer = list(newer_releases(matrix, server, tagged))
    allowed = list(allowed_upgrades(Catalog(matrix).environments, server))
    if write:
        written = [found.component for found in newer if write_candidates(matrices.folder, matrix, found)]
        console.talk(tr("candidates added to: {names}", names=", ".join(written) or tr("nothing")))
    if json_:
        console.data(document(components=[asdict(item) for item in newer], rows=[asdict(item) for item in allowed]))
        return
    if newer:
        rows = [(item.component, item.known, item.newer[-1], str(len(item.newer))) for item in newer]
        console.table((tr("COMPONENT"), tr("KNOWN"), tr("NEWEST"), tr("UNKNOWN")), rows)
    if allowed:
        if newer:
            console.out()
        header = (tr("ROW"), tr("PACKAGE"), tr("PINNED"), tr("ALLOWED"))
        console.table(header, [(item.row, item.package, item.pinned, item.newest) for item in allowed])
    if not newer and not allowed:
        console.talk(tr("the matrices have every release"))
