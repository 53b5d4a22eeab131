"""Writes the files of a new release: a copy of the newest row of its framework, and a candidate in the compat table.

Values that are true only for the old release are left out, and values to look up are TODO, which `check` refuses.
"""

from __future__ import annotations

import datetime
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from envbuilder import versions
from envbuilder.errors import NoMatchError, UsageError
from envbuilder.files import write_text
from envbuilder.language import tr
from envbuilder.matrix.matrix import Matrix
from envbuilder.matrix.model import TODO, Branch, Component
from envbuilder.matrix.reader import Node, ScalarNode, SequenceNode, read
from envbuilder.matrix.sources import File

_WIDTH = 120
# keys that are true only for one release: reasons, documented versions, measurements, dates of single packages
_OF_ONE_RELEASE = ("because", "documented", "known_issues", "algorithms", "newer_packages")


class IndexRelease(NamedTuple):
    """What a package index publishes about a release."""

    source: str
    # the SHA-256 of its source archive
    archive: str | None = None
    python: str | None = None
    requires: tuple[str, ...] = ()


def component_of(matrix: Matrix, framework: str, branch: str) -> Component:
    """Return the component of a framework; raise an error if the framework already has a row of this branch."""
    if framework not in matrix.frameworks:
        raise NoMatchError(
            tr("no framework is named '{framework}'", framework=framework),
            hint=tr("known: {names}", names=", ".join(matrix.frameworks)),
        )
    if any((item.framework, item.name) == (framework, branch) for item in matrix.branches):
        raise UsageError(tr("{framework} already has a row {branch}", framework=framework, branch=branch))
    return matrix.components[matrix.frameworks[framework].component]


def new_release(
    matrix: Matrix, folder: Path, framework: str, branch: str, published: IndexRelease | None = None
) -> list[Path]:
    """Write the first files of a new release of a framework, and return them."""
    component = component_of(matrix, framework, branch)
    rows = [item for item in matrix.branches if item.framework == framework]
    newest = max(rows, key=lambda item: versions.key(item.name))
    return [
        _row(matrix, folder, newest, branch, component.name),
        *_candidate(matrix, folder, component, branch, published),
    ]


def _row(matrix: Matrix, folder: Path, old: Branch, new: str, component: str) -> Path:
    place = f"frameworks/{old.framework}"
    row = _marked(_content(matrix.files[f"{place}/{old.name}.yaml"]))
    today = datetime.date.today().isoformat()
    row |= {"title": old.title.replace(old.name, new), "date": today, "exclude_newer": today}
    row["sources"] = dict.fromkeys(row.get("sources", ()), TODO)
    for part in (row, *row["engines"].values(), *row.get("overrides", ())):
        if component in part.get("pins", {}):
            part["pins"][component]["version"] = new
    features = row.get("support", {}).get("unsupported_features", {})
    features |= dict.fromkeys(features, TODO)
    about = (
        f"Copied from {old.name} by `envbuilder matrix init`, without its comments and reasons. Compare every value"
        f" with the documents of {new}, and write its source in place of {TODO}. Values without a source, such as"
        f" lists, are also those of {old.name}; the dates are those of this copy."
    )
    issues = (f"- {' '.join(issue.what.split())} ({issue.source})" for issue in old.known_issues)
    lines = [about, *([f"Known issues of {old.name}, which may be repaired:"] if old.known_issues else []), *issues]
    file = folder / place / f"{new}.yaml"
    write_text(file, "".join(_comment(line) for line in lines) + _yaml(row))
    return file


def _content(file: File) -> Any:
    root = read(file.path, file.shown, [])
    assert root is not None  # noqa: S101  the matrix was loaded from it
    return _plain(root)


def _plain(node: Node) -> Any:
    """Return the value of a node; scalars are text, as versions are not numbers."""
    if isinstance(node, ScalarNode):
        return node.value
    if isinstance(node, SequenceNode):
        return [_plain(item) for item in node.value]
    return {key.value: _plain(item) for key, item in node.value}


def _marked(value: Any) -> Any:
    """Return a value without the keys that are true only for one release, and with TODO for every source."""
    if isinstance(value, list):
        return [_marked(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {key: item for key, item in value.items() if key not in _OF_ONE_RELEASE}
    return {key: TODO if key == "source" else _marked(item) for key, item in kept.items()}


def _comment(text: str) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_long_words=False) + "\n"


def _candidate(
    matrix: Matrix, folder: Path, component: Component, version: str, published: IndexRelease | None
) -> list[Path]:
    """Add a release to the compat table, unless it already has more than a version there."""
    name = f"compat/{component.name}.yaml"
    text = matrix.files[name].path.read_text(encoding="utf-8").rstrip("\n") + "\n"
    found, bare = component.release(version), _yaml([{"version": version, "status": "candidate"}])
    if found is not None and bare not in text:
        return []
    release = _yaml([_release(version, published)])
    write_text(folder / name, text.replace(bare, release) if found else text + release)
    return [folder / name]


def _release(version: str, published: IndexRelease | None) -> dict[str, Any]:
    """Return a candidate of the compat table with the published values."""
    found = published or IndexRelease("")
    lacking = [
        "the commit of its tag" + (", which replaces the archive" if found.archive else ""),
        *([] if found.python else ["its Python range"]),
        "its requirements for NPUs, where they are others" if found.requires else "its requirements",
    ]
    values = {
        "version": version,
        "status": "candidate",
        "archive": found.archive,
        "python": found.python,
        "requires": list(found.requires),
        "sources": [found.source] if found.source else [],
        "note": f"{TODO}: {'; '.join(lacking)}",
    }
    return {key: value for key, value in values.items() if value}


def _yaml(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=None, sort_keys=False, allow_unicode=True, width=_WIDTH)
