"""envbuilder compat"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from envbuilder import versions
from envbuilder.cli import options
from envbuilder.cli.arguments import MatrixFolder, Talk
from envbuilder.cli.columns import padded
from envbuilder.cli.console import Console
from envbuilder.cli.json import document
from envbuilder.cli.markdown import address, link, table
from envbuilder.environment import Catalog
from envbuilder.environment.coordinates import Coordinates
from envbuilder.environment.driver import DRIVER, TOOLKIT
from envbuilder.environment.partners import Partners, component_named, partners
from envbuilder.errors import UsageError
from envbuilder.language import and_more, counted, tr
from envbuilder.machine.fit import runs_with

# the number of releases that a line names
_SHOWN = 6


@options.command("compat")
@click.argument("component", shell_complete=options.complete_component)
@click.argument("version", required=False)
@options.option("--markdown", is_flag=True, help="Print a table for an issue or a document.")
@options.as_json
@options.matrices
@options.talk
def command(
    component: str, version: str | None, markdown: bool, json_: bool, matrices: MatrixFolder, talk: Talk
) -> None:
    """Show what goes with a release of a component, such as torch_npu 2.8.0: published partners and environments.

    Without VERSION, or with the beginning of one such as 2.8, all releases are listed.
    """
    if markdown and json_:
        raise UsageError(tr("--markdown and --json are two forms: give one of them"))
    console, catalog = talk.console, matrices.catalog(everything=True)
    found = partners(catalog, component_named(catalog, component), version)
    titles = {name: item.title for name, item in catalog.components.items()}
    if json_:
        console.data(document(releases=[_data(item, _running(catalog, item)) for item in found]))
    elif markdown:
        console.out(_markdown(found, titles))
    elif len(found) == 1:
        _print(console, found[0], titles, _running(catalog, found[0]))
    elif found[0].component.name == DRIVER:
        _print_drivers(console, catalog, found)
    else:
        names = list(dict.fromkeys(name for item in found for name in item.release.paired))
        header = (tr("VERSION"), tr("DATE"), *(titles.get(name, name).upper() for name in names), tr("PINNED IN"))
        console.table(header, [_row(item, names) for item in found])
        fields = {"releases": counted(len(found), "release"), "component": component}
        console.talk(tr("{releases}; `envbuilder compat {component} VERSION` shows one of them", **fields))


def _running(catalog: Catalog, item: Partners) -> list[Coordinates] | None:
    """Return the environments that run with a driver; None for a release of anything else."""
    if item.component.name != DRIVER:
        return None
    return [each.coordinates for each in catalog.environments if runs_with(each, item.release.version)]


def _print_drivers(console: Console, catalog: Catalog, found: Sequence[Partners]) -> None:
    """Print the toolkits and the environments that run with each driver, which no table has room for."""
    title = catalog.components[TOOLKIT].title
    console.heading(found[0].component.title)
    for item in found:
        toolkits = {*item.named_by.get(TOOLKIT, ()), *item.works_with.get(TOOLKIT, ())}
        known = ", ".join(sorted(toolkits, key=versions.key))
        lines = (f"{title} {known}" if known else "", *_folded(_running(catalog, item) or ()))
        console.entry(item.release.version, "; ".join(filter(None, lines)) or "-", indent=2)


def _row(item: Partners, names: Sequence[str]) -> tuple[str, ...]:
    release = item.release
    return (
        release.version,
        release.date or "-",
        *(", ".join(release.paired.get(name, ())) or "-" for name in names),
        "; ".join(_folded(item.environments)) or "-",
    )


def _print(console: Console, item: Partners, titles: Mapping[str, str], running: Sequence[Coordinates] | None) -> None:
    release = item.release
    date = f", {release.date}" if release.date else ""
    console.heading(f"{item.component.title} {release.version}{date}")
    lines = (
        (tr("published with"), _listed(release.paired, titles)),
        (tr("works with"), _listed(item.works_with, titles)),
        (tr("not with"), _listed(release.excluded, titles)),
        (tr("requires"), "; ".join(item.conditions())),
        (tr("named by"), _listed(item.named_by, titles)),
        (tr("pinned in"), "; ".join(_folded(item.environments))),
        (tr("runs"), "; ".join(_folded(running or ()))),
        (tr("note"), tr(" ".join((release.note or "").split()))),
        (tr("commit"), release.commit or ""),
    )
    for title, text in lines:
        if text:
            console.entry(title, text, indent=2, width=16)
    for source in item.sources:
        console.out(f"  {padded(tr('source'), 16)}{address(source) or source}")
    if shown := (item.environments or running):
        last = shown[-1].id
        console.talk()
        console.talk(tr("`envbuilder show {environment}` shows all pins of one of them", environment=last))


def _folded(environments: Sequence[Coordinates]) -> list[str]:
    """Return one text for each release with an engine, with its hardware."""
    found: dict[tuple[str, str, str], dict[str, None]] = {}
    for where in environments:
        found.setdefault(where[:3], {})[where.hardware] = None
    return [f"{' '.join(release)} ({', '.join(hardware)})" for release, hardware in found.items()]


def _listed(partners: Mapping[str, Sequence[str]], titles: Mapping[str, str]) -> str:
    return "; ".join(
        f"{titles.get(name, name)} {and_more(found[-_SHOWN:], len(found) - _SHOWN)}" for name, found in partners.items()
    )


def _markdown(found: Sequence[Partners], titles: Mapping[str, str]) -> str:
    rows = [
        (
            f"`{item.release.version}`",
            _listed(item.release.paired, titles),
            _listed(item.works_with, titles),
            _listed(item.named_by, titles),
            " ".join(link(tr("source"), source) for source in item.sources),
        )
        for item in found
    ]
    header = (found[0].component.title, tr("published with"), tr("works with"), tr("named by"), "")
    return table(header, rows)


def _data(item: Partners, running: Sequence[Coordinates] | None) -> dict[str, Any]:
    release = item.release
    return {
        "component": item.component.name,
        "version": release.version,
        "date": release.date,
        "commit": release.commit,
        "paired": {name: list(found) for name, found in release.paired.items()},
        "compatible": {name: list(found) for name, found in release.compatible.items()},
        "excluded": {name: list(found) for name, found in release.excluded.items()},
        "requires": list(item.conditions()),
        "named_by": {name: list(found) for name, found in item.named_by.items()},
        "stated_by": {name: list(found) for name, found in item.stated_by.items()},
        "environments": [where.id for where in item.environments],
        "runs": None if running is None else [where.id for where in running],
        "sources": list(item.sources),
    }
