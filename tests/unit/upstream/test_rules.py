"""Mistakes in the rules of reading are found when the matrices are loaded."""

from __future__ import annotations

import pytest

from envbuilder.errors import MatrixError
from envbuilder.matrix import Matrix, load
from envbuilder.upstream.readers import RowTarget, applies
from tests.conftest import Edit
from tests.unit.upstream.rules import rule

TARGET = RowTarget("verl", "v0.9.0", "vllm", "a2")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("cann: [release_image,", "cann: [relase_image,", "there is no rule of reading 'relase_image'"),
        ("skip: 训练后端拓展|MindSpeed-LLM|A5", "skip: '('", r"'\(' is not a regular expression"),
        ("reader: setup, files", "reader: setups, files", "expected one of: requirements, toml, setup"),
        ("files: [setup.py], enforced: true", "files: [setup.py], enforce: true", "unknown key 'enforce'"),
    ],
)
def test_a_mistake_is_named(edit: Edit, old: str, new: str, message: str) -> None:
    folder = edit("frameworks/verl.yaml", old, new)
    with pytest.raises(MatrixError, match=message):
        load(folder, everything=True)


@pytest.mark.parametrize("framework", ["roll", "ms-swift"])
def test_a_framework_takes_few_lines_and_no_code(matrix: Matrix, framework: str) -> None:
    file = matrix.files[f"frameworks/{framework}.yaml"].path
    _, _, after = file.read_text(encoding="utf-8").partition("\nreads:\n")
    lines = after.partition("\nauthority:")[0].splitlines()
    assert 0 < len([line for line in lines if not line.lstrip().startswith("#")]) < 19


def test_a_rule_is_limited_to_releases_engines_and_families() -> None:
    assert applies(rule("document"), TARGET, "v0.9.0")
    assert applies(rule("document", versions=">=v0.8.0"), TARGET, "v0.9.0")
    assert not applies(rule("document", versions="<v0.8.0"), TARGET, "v0.9.0")
