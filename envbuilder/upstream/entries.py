"""Writes the entries of the compat tables that a drafted row needs: releases that no table has yet."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import yaml

from envbuilder import versions
from envbuilder.files import parse_toml
from envbuilder.matrix.model import TODO, Component, Release
from envbuilder.requirements import parse
from envbuilder.upstream.choose import Chosen, known_spelling
from envbuilder.upstream.draft import Drafted, FileRead
from envbuilder.upstream.packages import project_requirements, setup_requirements
from envbuilder.upstream.tree import GitTree
from envbuilder.upstream.uploads import fits

_WIDTH = 120
# where a project states which Pythons it is for, besides setup.py
_PROJECT, _SETUP = "pyproject.toml", "setup.py"


class NewEntry(NamedTuple):
    """A release for a compat table, as YAML."""

    component: str
    version: str
    text: str


def new_entries(drafted: Drafted) -> Iterator[NewEntry]:
    """Yield an entry for each drafted version that its compat table lacks, or has as a candidate alone."""
    for name, pin in drafted.pins.items():
        component = drafted.components.get(name)
        if component is None or not (component.releases or component.kind == "git"):
            continue
        known = component.release(pin.version)
        is_git = component.kind == "git"
        # one in a table that need not be complete may be left out
        if (known is None and (component.complete or is_git)) or (known and known.status == "candidate" and is_git):
            values = _git_entry(component, pin, drafted) if is_git else _stub(pin)
            dumped = yaml.safe_dump(
                [values], default_flow_style=None, sort_keys=False, allow_unicode=True, width=_WIDTH
            )
            yield NewEntry(name, values["version"], dumped)


def _stub(pin: Chosen) -> dict[str, Any]:
    """Return an entry of a component without a repository: its pairing is in a document of its vendor."""
    return {
        "version": pin.version,
        "status": "candidate",
        "note": f"{TODO}: what it is paired with; drafted from {pin.place}",
    }


def _git_entry(component: Component, pin: Chosen, drafted: Drafted) -> dict[str, Any]:
    tree = drafted.repositories.tree(component.name, pin.commit)
    version = tagged(component, pin.version)
    before = _before(component, version)
    files = [item for item in drafted.files if item.owner == component.name]
    values = {
        "version": version,
        "date": tree.date if tree else drafted.tree.date,
        "commit": pin.commit,
        "python": _python(tree, files) if tree else None,
        "paired": _paired(component, before, drafted, files),
        "requires": list(dict.fromkeys(line for item in files for line in _required(item, drafted))),
        "build": dict(before.build) if before else None,
        "sources": [f"{tree.label}:{item.found.path}" for item in files if tree and item.found.tree is tree],
        "note": _note(component, before, pin),
    }
    return {key: value for key, value in values.items() if value}


def _note(component: Component, before: Release | None, pin: Chosen) -> str:
    lacking = ["its source archive"] if not pin.commit else []
    lacking += [f"build, which is that of {before.version}"] if before and before.build else []
    return f"{TODO}: {'; '.join(lacking)}" if lacking else ""


def tagged(component: Component, version: str) -> str:
    """Return a version as the table spells it: with the v of its tags, if all others have it."""
    spelled = all(item.version.startswith("v") for item in component.releases)
    return f"v{version}" if spelled and not version.startswith("v") else version


def _before(component: Component, version: str) -> Release | None:
    """Return the newest release before a version."""
    own = versions.key(version)
    older = [item for item in component.releases if item.status == "known" and versions.key(item.version) < own]
    return max(older, key=lambda item: versions.key(item.version), default=None)


def _paired(
    component: Component, before: Release | None, drafted: Drafted, files: list[FileRead]
) -> dict[str, list[str]]:  # fmt: skip
    """Return the versions that its own image and table state of those components that the release before names."""
    reads = [item.read.name for item in files if item.read.reader in {"shell", "releases"}]
    # a table of releases has more authority than the image
    reads.sort(key=lambda name: next(item.read.reader for item in files if item.read.name == name) != "releases")
    found: dict[str, list[str]] = {}
    for name in before.paired if before else ():
        stated = [item for item in drafted.stated.get(name, ()) if item.value.kind == "exact" and item.read in reads]
        if stated:
            first = min(stated, key=lambda item: reads.index(item.read))
            found[name] = [_spelled(drafted.components, name, first.value.text)]
    return found


def _spelled(components: Mapping[str, Component], name: str, version: str) -> str:
    component = components.get(name)
    known = known_spelling(component, version)
    return tagged(component, known) if component and component.kind == "git" else known


def _required(item: FileRead, drafted: Drafted) -> Iterator[str]:
    """Yield the requirements in a file; of a file that does not bind, those that the drafted pins do not contradict."""
    for line in _requirements(item):
        try:
            found = parse(line)
        except ValueError:
            continue
        pin = drafted.pins.get(found.name)
        if item.read.enforced or pin is None or fits(pin.version, [found.specifier]):
            yield line


def _requirements(item: FileRead) -> Iterator[str]:
    """Yield the requirements as they are written; those of extras for other hardware are left out."""
    read, text = item.read, item.found.text
    if read.reader == "toml":
        yield from project_requirements(text, read.extras)
    elif read.reader == "setup":
        yield from (line for line, _, extra in setup_requirements(text) if not extra)
    elif read.reader == "requirements":
        lines = (re.sub(r"(^|\s)#.*", "", line).strip() for line in text.splitlines())
        yield from (line for line in lines if line and not line.startswith("-"))


def _python(tree: GitTree, files: list[FileRead]) -> str | None:
    """Return the Pythons that a project states in the project file that was read, or else at its top."""
    project = next((item.found.text for item in files if item.read.reader == "toml"), tree.read(_PROJECT))
    found = parse_toml(project).get("project", {}).get("requires-python") if project else None
    found = found or _in_setup(tree.read(_SETUP) or "")
    return found.replace(" ", "") if isinstance(found, str) else None


def _in_setup(text: str) -> object:
    calls = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    words = (word for call in calls for word in call.keywords if word.arg == "python_requires")
    return next((word.value.value for word in words if isinstance(word.value, ast.Constant)), None)
