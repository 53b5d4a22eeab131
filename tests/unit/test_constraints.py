"""The constraints pin one version of every tool that checks a commit."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "constraints.txt").read_text(encoding="utf-8")
LINES = [Requirement(line) for line in TEXT.splitlines() if line and not line.lstrip().startswith("#")]


def declared() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    lines = [Requirement(line) for line in (*project["dependencies"], *extras["plot"], *extras["dev"])]
    return [line for line in lines if line.name != project["name"]]


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13"])
def test_every_requirement_has_one_version(python: str) -> None:
    """`make constraints` writes the file again."""
    target = {"python_version": python, "python_full_version": f"{python}.0"}
    pinned = [line for line in LINES if not line.marker or line.marker.evaluate(target)]
    names = [canonicalize_name(line.name) for line in pinned]
    assert len(names) == len(set(names))
    for wanted in declared():
        if wanted.marker and not wanted.marker.evaluate(target):
            continue
        (line,) = (line for line in pinned if canonicalize_name(line.name) == canonicalize_name(wanted.name))
        (pin,) = line.specifier
        assert pin.operator == "==" and wanted.specifier.contains(pin.version), line


def test_no_index_is_named() -> None:
    assert not re.search(r"://|index|find-links", TEXT)
