"""The shape of the repository: one word for one thing, few modules beside the rooms, and tests in the same rooms."""

from __future__ import annotations

import ast
import fnmatch
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "envbuilder"
TESTS = ROOT / "tests"
TOP_MODULES = 11
# tests of the repository itself, which belong to no room
OF_THE_REPOSITORY = {"changed", "changelog", "constraints", "house", "prove", "scripts", "workflows"}


def test_no_two_classes_share_a_name() -> None:
    found: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


def test_only_few_modules_are_beside_the_rooms() -> None:
    modules = [path.stem for path in PACKAGE.glob("*.py") if not path.stem.startswith("__")]
    assert 0 < len(modules) <= TOP_MODULES, sorted(modules)


def test_the_unit_tests_have_the_rooms_of_the_package() -> None:
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    folders = {path.parent.name for path in (TESTS / "unit").rglob("*.py")} - {"unit"}
    assert folders and folders <= rooms, sorted(folders - rooms)
    modules = {path.stem for path in PACKAGE.glob("*.py")} | OF_THE_REPOSITORY
    beside = {path.stem.removeprefix("test_") for path in (TESTS / "unit").glob("test_*.py")}
    assert beside <= modules, f"of no module beside the rooms: {sorted(beside - modules)}"


def test_pytest_looks_into_every_folder_of_tests(pytestconfig: pytest.Config) -> None:
    """By default it silently leaves out `build` and some others."""
    left_out = pytestconfig.getini("norecursedirs")
    folders = {path.parent.name for path in TESTS.rglob("test_*.py")}
    assert {name for name in folders for pattern in left_out if fnmatch.fnmatch(name, pattern)} == set()


@pytest.mark.parametrize(
    ("folder", "others"),
    [("envbuilder", "tests tools benchmarks"), ("tests", "tools benchmarks"), ("tools", "tests benchmarks"), ("benchmarks", "tests tools")],
)  # fmt: skip
def test_tests_tools_and_benchmarks_do_not_import_each_other(folder: str, others: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {module}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, module in _imported(path)
        if module.partition(".")[0] in others.split()
    ]
    assert found == []


def test_no_test_imports_another() -> None:
    """Shared code is in a helper or a fixture."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: {module}"
        for path in sorted(TESTS.rglob("*.py"))
        for line, module in _imported(path)
        if module.startswith("tests.") and any(part.startswith("test_") for part in module.split("."))
    ]
    assert found == []


def _imported(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of everything that a file imports, with its module."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
