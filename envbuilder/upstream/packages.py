"""Reads the metadata of Python packages: requirement files, project files, setup.py."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import suppress

from packaging.requirements import InvalidRequirement, Requirement

from envbuilder.files import parse_toml
from envbuilder.matrix.model.reads import Read
from envbuilder.upstream.statement import Line, Names, Value, values_of

# the list of setup.py that every installation has; the others are extras for other hardware
_INSTALLED = "install_requires"


def requirement(text: str, names: Names, number: int) -> Iterator[Line]:
    """Yield what one requirement says; a line that is none says nothing."""
    with suppress(InvalidRequirement):
        found = Requirement(re.sub(r"\s+#.*|;.*", "", text).strip())
        if component := names.component(found.name):
            for value in list(values_of(str(found.specifier))) or [Value("any", "")]:
                yield Line(component, value, number)


def requirements(text: str, names: Names) -> Iterator[Line]:
    for number, line in enumerate(text.splitlines(), 1):
        yield from requirement(line, names, number)


def toml(text: str, names: Names, read: Read) -> Iterator[Line]:
    """Yield what the dependencies of a project file say, and those of the wanted extras."""
    lines = text.splitlines()
    for item in project_requirements(text, read.extras):
        number = next((number for number, line in enumerate(lines, 1) if item in line), 0)
        yield from requirement(item, names, number)


def project_requirements(text: str, wanted: tuple[str, ...] = ()) -> list[str]:
    """Return the dependencies of a project file; an extra may name others of the same package."""
    project = parse_toml(text).get("project", {})
    extras, waiting = project.get("optional-dependencies", {}), list(wanted)
    found = list(project.get("dependencies", []))
    for name in waiting:
        for item in extras.get(name, []):
            if item.startswith(f"{project.get('name')}["):
                waiting += sorted(Requirement(item).extras.difference(waiting))
            else:
                found.append(item)
    return found


def setup(text: str, names: Names, engine: str) -> Iterator[Line]:
    """Yield what setup.py requires; of an extra, which is for other hardware, only the version of the engine."""
    for item, number, extra in setup_requirements(text):
        for line in requirement(item, names, number):
            if not extra or line.component == engine:
                yield line


def setup_requirements(text: str) -> Iterator[tuple[str, int, bool]]:
    """Yield the requirements in lists of a setup.py, with their lines, and whether they are those of an extra."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.List):
            extra = getattr(node.targets[0], "id", "") != _INSTALLED
            for item in node.value.elts:
                if isinstance(item, ast.Constant) and isinstance(item.value, str):
                    yield item.value, item.lineno, extra
