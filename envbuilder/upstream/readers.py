"""Applies the rules of the matrices to the files of a release: which file is read how, and what each line says."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from envbuilder import versions
from envbuilder.errors import EnvbuilderError, Where
from envbuilder.language import tr
from envbuilder.matrix.model.reads import Read
from envbuilder.upstream import document, packages, shell
from envbuilder.upstream.document import Topic
from envbuilder.upstream.statement import Line, Names, Statement
from envbuilder.upstream.tree import FoundFile, Tree, find

# a document that is so much older than the release is marked
_STALE_DAYS = 60
_UPDATED = re.compile(r"Last updated\W+(?:(\d+)/(\d+)/)?(\d{4})(?:/(\d+)/(\d+))?")


class MissingFileError(EnvbuilderError):
    """No file of a rule exists at a release: upstream moved it, or the rule is wrong."""

    exit_code = 3


class UnreadableFileError(EnvbuilderError):
    """A file does not have the form that its rule names."""

    exit_code = 3


class RowTarget(NamedTuple):
    """What a row is for."""

    framework: str
    branch: str
    engine: str
    family: str


def applies(read: Read, target: RowTarget, version: str) -> bool:
    """Return whether a rule is for this row, and for this release of the component that has the files."""
    when = read.when
    if when is not None:
        limits = ((when.framework, target.framework), (when.engine, target.engine), (when.family, target.family))
        if any(allowed and own not in allowed for allowed, own in limits):
            return False
    return read.versions is None or versions.satisfies(version, read.versions)


def find_file(read: Read, tree: Tree, target: RowTarget) -> FoundFile | None:
    """Return the file of a rule, or None if the release has none of them."""
    filled = (item.replace("{family}", target.family).replace("{branch}", target.branch) for item in read.files)
    return find(tree, filled)


def refuse_missing(read: Read, tree: Tree, where: Where) -> MissingFileError:
    return MissingFileError(
        tr("{release} has no file of the rule '{name}': {files}", release=tree.label, name=read.name,
           files=", ".join(read.files)),
        hint=tr("name its new place in 'files', or limit the rule by 'versions'"),
        where=where,
    )  # fmt: skip


def statements(
    read: Read, found: FoundFile, names: Names, about: Topic, keys: Mapping[str, str], note: str = ""
) -> Iterator[Statement]:
    """Yield what a file says, each with its place; `keys` select the row of a table of releases."""
    text, seen = found.text, set()
    arguments = found.tree.read(read.build_args) if read.build_args else None
    try:
        lines = list(_lines(read, text, names, about, keys, arguments or ""))
    except (SyntaxError, ValueError) as error:
        named = {"file": found.source, "reader": read.reader, "reason": str(error)}
        raise UnreadableFileError(
            tr("{file} cannot be read as {reader}: {reason}", **named), where=read.where
        ) from error
    for line in lines:
        wanted = not read.only or line.component in read.only
        if not wanted or (line.component, line.value) in seen:
            continue
        seen.add((line.component, line.value))
        number = _nearest(text, line)
        place = found if line.number or read.build_args is None else FoundFile(found.tree, read.build_args, "")
        # an engine states itself in extras for other hardware
        enforced = read.enforced and line.component != about.engine
        yield Statement(line.component, line.value, read.name, place.source, number, enforced, note)


def _lines(
    read: Read, text: str, names: Names, about: Topic, keys: Mapping[str, str], arguments: str
) -> Iterator[Line]:
    if read.reader == "requirements":
        return packages.requirements(text, names)
    if read.reader == "toml":
        return packages.toml(text, names, read)
    if read.reader == "setup":
        return packages.setup(text, names, about.engine)
    if read.reader == "shell":
        return shell.shell(text, names, read.variables, shell.build_arguments(arguments))
    if read.reader == "document":
        return document.document(text, names, read, about)
    if read.reader == "variables":
        return shell.variables(text, names, read)
    return document.releases(text, names, keys)


def _nearest(text: str, line: Line) -> int:
    """Return the line with the text of the value: a command can have many lines."""
    if not (line.number and line.value.text):
        return line.number
    lines = text.splitlines()
    later = range(line.number, len(lines) + 1)
    return next((number for number in later if line.value.text in lines[number - 1]), line.number)


def age(text: str, date: str) -> int:
    """Return how many days before a date a document was last updated; 0 where it does not say, or less than 60."""
    if found := _UPDATED.search(text):
        month, day = found[1] or found[4], found[2] or found[5]
        try:
            updated = datetime.date(int(found[3]), int(month or 1), int(day or 1))
        except ValueError:
            return 0
        days = (datetime.date.fromisoformat(date) - updated).days
        return days if days > _STALE_DAYS else 0
    return 0
