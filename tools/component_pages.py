"""The pages of components: a table of all releases with their partners, and for drivers what they run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from envbuilder import versions
from envbuilder.cli.markdown import link, table
from envbuilder.environment import Catalog, Environment
from envbuilder.environment.driver import DRIVER, TOOLKIT
from envbuilder.environment.partners import Partners, partners
from envbuilder.machine.fit import runs_with
from envbuilder.matrix.model import Component

_BETWEEN, _SPACE = "<br>", "&nbsp;"
Cells = dict[str, str]
_INTRO = "What goes with which release. The same:"
_SOURCES = "A driver that is newer than all of them runs older toolkits. The sources are those of each [CANN](cann.md)."


def component_pages(catalog: Catalog, words: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    titles = {name: item.title for name, item in catalog.components.items()}
    for name, component in sorted(catalog.components.items()):
        lines: list[Cells] = []
        for item in reversed(partners(catalog, component)):
            cells = _of_driver(catalog, item) if name == DRIVER else _of_release(item, titles, words)
            lines.append({"version": _anchored(item.release.version), **cells})
        intro = f"{words.get(_INTRO, _INTRO)} `envbuilder compat {name} VERSION`"
        if name == DRIVER:
            intro += f"\n\n{words.get(_SOURCES, _SOURCES)}"
        # the table needs the width of the list of headings, which would be empty
        yield f"compat/{name}", f"---\nhide: [toc]\n---\n\n# {component.title}\n\n{intro}\n\n{_table(lines, words)}\n"


def anchor(version: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", version.lower()).strip("-")


def _anchored(version: str) -> str:
    return f'<a id="{anchor(version)}" href="#{anchor(version)}">{version}</a>'


def _linked(component: str, listed: Iterable[str]) -> str:
    return ", ".join(f"[{version}]({component}.md#{anchor(version)})" for version in listed)


def _table(lines: Sequence[Cells], words: Mapping[str, str]) -> str:
    """Return a table of the columns that have a value in any line."""
    columns = [name for name in dict.fromkeys(name for cells in lines for name in cells) if _has(lines, name)]
    header = [words.get(name, name) for name in columns]
    return table(header, [[cells.get(name, "") for name in columns] for cells in lines])


def _has(lines: Sequence[Cells], column: str) -> bool:
    return any(cells.get(column) for cells in lines)


def _of_release(item: Partners, titles: Mapping[str, str], words: Mapping[str, str]) -> Cells:
    release = item.release
    named = {"published with": release.paired, "works with": release.compatible, "not with": release.excluded}
    cells = {
        column: _BETWEEN.join(f"{titles.get(name, name)}{_SPACE}{', '.join(listed)}" for name, listed in found.items())
        for column, found in named.items()
    }
    by = (f"{titles[name]}{_SPACE}{_linked(name, listed)}" for name, listed in item.named_by.items())
    rows = dict.fromkeys(f"{where.framework}-{where.branch}" for where in item.environments)
    source = words.get("source", "source")
    return {
        **cells,
        "requires": _BETWEEN.join(f"`{text}`" for text in item.conditions()),
        "named by": _BETWEEN.join(by),
        "pinned in": ", ".join(f"[{row}](../releases/{row}.md)" for row in rows),
        "note": f'<span class="note">{" ".join(release.note.split())}</span>' if release.note else "",
        "source": ", ".join(link(source, where) for where in item.sources),
    }


def _of_driver(catalog: Catalog, item: Partners) -> Cells:
    """Return what is published on a driver by the toolkits, and the best environment that it runs of each family."""
    driver, toolkit = item.release.version, catalog.components[TOOLKIT]
    best: dict[str, Environment] = {}
    for row in sorted(catalog.environments, key=lambda row: row.rank):
        is_usual = row.coordinates.arch == next(iter(row.hardware.arches))
        if is_usual and runs_with(row, driver):
            best[row.hardware.title] = row
    runs = (f"{title}: {_release(row)}, {row.engine.engine}" for title, row in sorted(best.items()))
    return {"runs at best": _BETWEEN.join(runs), **_toolkits(toolkit, driver)}


def _toolkits(toolkit: Component, driver: str) -> Cells:
    found: dict[str, list[str]] = {"published with": [], "works with": [], "not with": []}
    for release in reversed(toolkit.releases):
        for column, listed in zip(found, (release.paired, release.compatible, release.excluded), strict=True):
            if any(versions.in_family(driver, named) for named in listed.get(DRIVER, ())):
                found[column].append(release.version)
                break
    return {
        column: f"{toolkit.title}{_SPACE}{_linked(TOOLKIT, listed)}" if listed else ""
        for column, listed in found.items()
    }


def _release(row: Environment) -> str:
    where = row.coordinates
    return f"[{row.branch.title}](../releases/{where.framework}-{where.branch}.md)"
