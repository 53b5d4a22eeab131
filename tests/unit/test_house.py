"""The shape of the package: one word for one thing, and few modules beside the rooms."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "envbuilder"
TOP_MODULES = 10


def test_no_two_classes_share_a_name() -> None:
    found: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


def test_few_modules_stand_beside_the_rooms() -> None:
    modules = [path.stem for path in PACKAGE.glob("*.py") if not path.stem.startswith("__")]
    assert 0 < len(modules) <= TOP_MODULES, sorted(modules)
