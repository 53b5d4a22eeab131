"""The rehearsed image of a row that is named, broken in four ways: make controls ID='verl-v0.9.1-sglang-a3-x86_64'."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from envbuilder.environment import Environment
from envbuilder.matrix import Matrix
from envbuilder.matrix.model import STAND_IN
from tests.conftest import environment, succeeded
from tests.helpers.sabotage import failures, sabotaged, tokens, trained
from tests.integration.conftest import build, docker

ROW = os.environ.get("CONTROLLED_ROW")
pytestmark = [
    pytest.mark.extended,
    pytest.mark.skipif(ROW is None, reason="names no row: make controls ID='verl-v0.9.1-sglang-a3-x86_64'"),
]

# lets every function of this name end at once, however its head is laid out
FORGET = r"""
import ast, pathlib
changed = 0
for file in pathlib.Path("/opt/envbuilder/src/verl/verl/workers/rollout").rglob("*.py"):
    lines = file.read_text().splitlines(keepends=True)
    functions = [node for node in ast.walk(ast.parse("".join(lines))) if getattr(node, "name", "") == "update_weights"]
    for first in sorted((node.body[0] for node in functions), key=lambda node: -node.lineno):
        lines.insert(first.lineno - 1, " " * first.col_offset + "return\n")
        changed += 1
    file.write_text("".join(lines))
assert changed
"""


@pytest.fixture(scope="module")
def row(engine: None, matrix: Matrix) -> Iterator[Environment]:
    assert ROW is not None
    succeeded(build(ROW, "--rehearse"))
    found = environment(matrix, ROW).rehearsed()
    yield found
    docker("image", "rm", found.image_name("envbuilder"))


def test_an_operator_that_returns_zeros_is_found(row: Environment, tmp_path: Path) -> None:
    hook, right = "/opt/stand-in/inside/hook/host_kernels.py", "return torch.nn.functional.silu(one) \\* two"
    with sabotaged(row, STAND_IN, f"grep -q '{right}' {hook} && sed -i 's/{right}/return 0 * two/' {hook}") as target:
        found = tokens(row, STAND_IN, target, tmp_path / "tokens.log")
    assert found.status == "failed" and "answers of the engine differ from those of transformers" in found.message


def test_a_learning_rate_of_zero_is_found(row: Environment, tmp_path: Path) -> None:
    with sabotaged(row, STAND_IN, "true") as target:
        found = trained(row, STAND_IN, target, tmp_path / "train.log", learning_rate="0.0")
    assert "reward" in {name for name, check in found.items() if check.status == "failed"}


def test_weights_that_are_not_sent_are_found(row: Environment, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files/forget.py").write_text(FORGET)
    with sabotaged(row, STAND_IN, "python3 /tmp/forget.py", tmp_path / "files") as target:
        found = trained(row, STAND_IN, target, tmp_path / "train.log")
    assert {"reward", "weights"} & {name for name, check in found.items() if check.status == "failed"}, found


def test_another_release_of_the_kernels_is_found(row: Environment, tmp_path: Path) -> None:
    plugin = row.distribution(row.engine.plugin)
    other = rf"""
import importlib.metadata
file = importlib.metadata.distribution("{plugin}")._path / "METADATA"
file.write_text(file.read_text().replace("\nVersion: ", "\nVersion: 0.", 1))
"""
    (tmp_path / "files").mkdir()
    (tmp_path / "files/other.py").write_text(other)
    with sabotaged(row, STAND_IN, "python3 /tmp/other.py", tmp_path / "files") as target:
        found = failures(row, "static", target, tmp_path)
    assert any(plugin in message for message in found.values()), found
