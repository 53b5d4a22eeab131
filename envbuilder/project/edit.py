"""Changes the lists of a project's file as text, so that comments and the order of all else stay."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from envbuilder.files import parse_toml
from envbuilder.language import tr
from envbuilder.project.file import TABLE
from envbuilder.requirements import normalize, parse

_HEADER = re.compile(r"^\s*\[\[?\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?$")
_TOKEN = re.compile(r"#[^\n]*|\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'|[\[\],]|\s+|.")


class _Item(NamedTuple):
    """A text of a list, with its place in the file."""

    value: str
    start: int
    end: int


class _List(NamedTuple):
    items: tuple[_Item, ...]
    # of the closing bracket
    end: int


def with_packages(text: str, packages: list[str]) -> str:
    """Return a file with these requirements; one of the same package is replaced."""
    for package in packages:
        text = _with(text, package)
    return _checked(text)


def without_packages(text: str, names: list[str]) -> str:
    """Return a file without these packages; one that it does not have is an error (LookupError)."""
    for name in names:
        found = _packages(text)
        wanted = normalize(parse(name).name)
        items = [item for item in found.items if _name(item.value) == wanted] if found else []
        if not items:
            raise LookupError(name)
        for item in reversed(items):
            text = _cut(text, item)
    return _checked(text)


def required_with(text: str, packages: list[str]) -> str:
    """Return a file in pip's format with these requirements."""
    lines = text.splitlines()
    for package in packages:
        wanted = normalize(parse(package).name)
        at = next((number for number, line in enumerate(lines) if _of_line(line) == wanted), None)
        if at is None:
            lines.append(package)
        else:
            lines[at] = package
    return "\n".join(lines) + "\n"


def required_without(text: str, names: list[str]) -> str:
    """Return a file in pip's format without these packages."""
    lines = text.splitlines()
    for name in names:
        kept = [line for line in lines if _of_line(line) != normalize(name)]
        if len(kept) == len(lines):
            raise LookupError(name)
        lines = kept
    return "".join(f"{line}\n" for line in lines)


def with_row(text: str, branch: str) -> str:
    """Return a file whose project is on another release of its framework."""
    lines = text.splitlines(keepends=True)
    for number in _inside(lines):
        if re.match(r"\s*branch\s*=", lines[number]):
            lines[number] = re.sub(
                r"(=\s*)(\"[^\"]*\"|'[^']*')", lambda found: found[1] + json.dumps(branch), lines[number], count=1
            )
            return _checked("".join(lines))
    start = next(number for number, line in enumerate(lines) if (found := _HEADER.match(line)) and found[1] == TABLE)
    lines.insert(start + 1, f"branch = {json.dumps(branch)}\n")
    return _checked("".join(lines))


def _with(text: str, package: str) -> str:
    found = _packages(text)
    if found is None:
        lines = text.splitlines(keepends=True)
        start = next(number for number, line in enumerate(lines) if (head := _HEADER.match(line)) and head[1] == TABLE)
        # after the last line of the table that has a value
        last = max((number for number in _inside(lines) if "=" in lines[number].partition("#")[0]), default=start)
        while last + 1 < len(lines) and not _parses("".join(lines[start : last + 1])):
            last += 1
        if not lines[last].endswith("\n"):
            lines[last] += "\n"
        lines.insert(last + 1, f"packages = [{json.dumps(package)}]\n")
        return "".join(lines)
    same = next((item for item in found.items if _name(item.value) == normalize(parse(package).name)), None)
    if same is not None:
        return text[: same.start] + json.dumps(package) + text[same.end :]
    if not found.items:
        return text[: found.end] + json.dumps(package) + text[found.end :]
    last_item = found.items[-1]
    line_start = text.rfind("\n", 0, last_item.start) + 1
    indent = text[line_start : last_item.start]
    if indent.strip():
        return text[: last_item.end] + f", {json.dumps(package)}" + text[last_item.end :]
    rest = text[last_item.end : found.end]
    comma = "" if rest.lstrip().startswith(",") else ","
    # a comment behind the last text stays there
    end = text.find("\n", last_item.end)
    return text[: last_item.end] + comma + text[last_item.end : end] + f"\n{indent}{json.dumps(package)}," + text[end:]


def _cut(text: str, item: _Item) -> str:
    """Return the text without an item, its comma, and its line if it is alone there."""
    end = item.end
    if comma := re.match(r"\s*,", text[end:]):
        end += comma.end()
    start = text.rfind("\n", 0, item.start) + 1
    line_end = text.find("\n", end)
    if not text[start : item.start].strip() and not text[end:line_end].partition("#")[0].strip():
        return text[:start] + text[line_end + 1 :]
    if comma is None:
        before = text[: item.start].rstrip()
        return (before[:-1] if before.endswith(",") else text[: item.start]) + text[end:]
    return text[: item.start] + text[end:].lstrip(" ")


def _packages(text: str) -> _List | None:
    lines = text.splitlines(keepends=True)
    for number in _inside(lines):
        if re.match(r"\s*[\"']?packages[\"']?\s*=", lines[number]):
            start = sum(map(len, lines[:number]))
            return _list_at(text, text.index("[", start))
    return None


def _list_at(text: str, start: int) -> _List:
    items: list[_Item] = []
    depth = 0
    for token in _TOKEN.finditer(text, start):
        if token[0] == "[":
            depth += 1
        elif token[0] == "]":
            depth -= 1
            if depth == 0:
                return _List(tuple(items), token.start())
        elif token[0][0] in "\"'":
            value = parse_toml(f"x = {token[0]}")["x"]
            items.append(_Item(value, token.start(), token.end()))
    raise ValueError(tr("the list has no end"))


def _inside(lines: list[str]) -> Iterator[int]:
    """Yield the numbers of the lines of the table itself."""
    inside = False
    for number, line in enumerate(lines):
        if header := _HEADER.match(line):
            inside = header[1] == TABLE
        elif inside:
            yield number


def _parses(text: str) -> bool:
    try:
        parse_toml(text)
    except ValueError:
        return False
    return True


def _name(requirement: str) -> str:
    return normalize(parse(requirement).name)


def _of_line(line: str) -> str | None:
    """Return the package of a line in pip's format, or None."""
    text = line.partition("#")[0].strip()
    try:
        return _name(text) if text and not text.startswith("-") else None
    except ValueError:
        return None


def _checked(text: str) -> str:
    """Return a file that is still TOML."""
    parse_toml(text)
    return text
