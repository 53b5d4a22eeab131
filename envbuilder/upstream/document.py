"""Reads documents: tables in four notations, commands, and sentences where the rule wants them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from envbuilder import versions
from envbuilder.matrix.model.reads import Read
from envbuilder.upstream.shell import shell
from envbuilder.upstream.statement import Line, Names, Value, plain, values_of

_COMMAND = re.compile(
    r"pip3? install|\$\{PIP_INSTALL\}|git clone|git checkout|conda create|wget |^\s*(cd |[A-Z_]+=\S+$)"
)
_UNDERLINE = re.compile(r"([=\-~^`#*+\"])\1{3,}\s*")
_DRAWN = re.compile(r"[=|+\-~^]{3}")
_SENTENCE = re.compile(r"([\w-]+) v?(\d+\.\d[\w.]*\w)")


class Topic(NamedTuple):
    """What is read about: of a document about several engines and chips, the parts for this one."""

    engine: str
    engines: Collection[str]
    # words that columns of a table name its chips by
    family: str


class TableRow(NamedTuple):
    """A row of a table, with the first one of that table."""

    header: list[str]
    cells: list[str]
    number: int


def document(text: str, names: Names, read: Read, about: Topic) -> Iterator[Line]:
    lines = sections(text, read.skip, about)
    for row in tables(lines):
        column = next((at for at, title in enumerate(row.header) if at and _names_chips(title, about)), 1)
        component = names.component(row.cells[0])
        if component and len(row.cells) > column:
            for value in values_of(row.cells[column]):
                yield Line(component, value, row.number)
    yield from shell("\n".join(line if _COMMAND.search(line) else "" for line in lines), names)
    if read.prose:
        yield from _sentences(lines, names)


def _names_chips(title: str, about: Topic) -> bool:
    return re.search(rf"\b{re.escape(about.family)}\b", title, re.I) is not None


def _sentences(lines: list[str], names: Names) -> Iterator[Line]:
    for number, line in enumerate(lines, 1):
        if _COMMAND.search(line) or "|" in line:
            continue
        for name, version in _SENTENCE.findall(line):
            if component := names.component(name):
                yield Line(component, Value("exact", plain(version)), number)


def sections(text: str, skip: str | None, about: Topic) -> list[str]:
    """Return the lines of a document; those of sections about another engine or a skipped topic are empty."""
    others = set(about.engines) - {about.engine}
    # the heading and those above it, with their levels
    above: list[tuple[int, str]] = []
    levels: dict[str, int] = {}
    lines, kept = text.splitlines(), []
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if found := re.match(r"(#+) (.*)", line):
            level, title = len(found[1]), found[2]
            above = [*(item for item in above if item[0] < level), (level, title)]
        elif line.strip() and (under := _UNDERLINE.fullmatch(below)) and not _DRAWN.match(line):
            level = levels.setdefault(under[1], len(levels))
            above = [*(item for item in above if item[0] < level), (level, line)]
        heading = " / ".join(title for _, title in above).lower()
        other = about.engine not in heading and any(name in heading for name in others)
        skipped = skip is not None and re.search(skip.lower(), heading) is not None
        kept.append("" if other or skipped else line)
    return kept


def tables(lines: list[str]) -> Iterator[TableRow]:
    """Yield the rows of grid, simple, pipe and HTML tables; their cells may be on lines of their own in HTML."""
    header: list[str] = []
    width = 0
    for number, line in _joined(lines):
        cells: list[str] = []
        if "<tr" in line:
            cells = re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", line)
        elif re.match(r"\s*\|", line) and not re.match(r"\s*\|[\s:|-]+$", line):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        elif (rule := re.match(r"\s*(=+) +=[= ]*$", line)) or not line.strip():
            header, width = (header, len(rule[1])) if rule else ([], 0)
        elif width:
            cells = [line[:width].strip(), *re.split(r"\s{2,}", line[width:].strip())]
        if cells:
            header = header or cells
            yield TableRow(header, cells, number)


def _joined(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines with their numbers; the rows of an HTML table as one line."""
    row, first = "", 0
    for number, line in enumerate(lines, 1):
        if row or re.match(r"\s*<tr\b(?!.*</tr>)", line):
            row, first = f"{row} {line.strip()}", first or number
            if "</tr" not in line:
                continue
            line, number, row, first = row, first, "", 0
        yield number, line


def releases(text: str, names: Names, keys: Mapping[str, str]) -> Iterator[Line]:
    """Yield the row of a table with one release per row whose cells have the versions of `keys`."""
    for row in tables(text.splitlines()):
        found: dict[str, list[str]] = {}
        for title, cell in zip(row.header, row.cells, strict=False):
            parts = [names.component(part) for part in title.split("/")]
            several = cell.split(" / ") if len(parts) > 1 else [cell]
            for name, item in zip(parts, several, strict=False):
                if name:
                    found[name] = [plain(word) for word in re.split(r"<br>|/(?=v)", item)]
        if found and all(_has(found.get(name, []), version) for name, version in keys.items()):
            for name, stated in found.items():
                if name not in keys:
                    yield from (Line(name, value, row.number) for value in values_of(stated[0]))


def _has(stated: list[str], version: str) -> bool:
    return any(versions.same(item, version) for item in stated)
