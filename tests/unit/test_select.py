"""Naming environments: identifiers, globs, dimensions, defaults and misses."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from envbuilder import paths, versions
from envbuilder.environment import Filters
from envbuilder.environment.select import environments, pick, select
from envbuilder.errors import NoMatchError, UsageError
from envbuilder.matrix import Matrix, load
from tests.conftest import A3_SGLANG, findings


def test_the_headline_command(matrix: Matrix) -> None:
    """The newest row of that engine on that hardware, and one that the rules have nothing against."""
    chosen = pick(matrix, filters=Filters(hardware="atlas-800t-a3", engine="sglang"))
    rows = [item for item in environments(matrix) if item.hardware == "atlas-800t-a3" and item.engine == "sglang"]
    assert chosen == max(rows, key=lambda item: versions.key(item.branch))
    assert not [item for item in findings(matrix, chosen.id) if item.severity == "error"]


def test_defaults_fill_in_what_is_open(matrix: Matrix) -> None:
    chosen = pick(matrix)
    assert (chosen.framework, chosen.engine, chosen.hardware) == ("verl", "vllm", "cpu")
    branches = [branch.name for branch in matrix.branches if branch.framework == "verl" and "vllm" in branch.engines]
    assert chosen.branch == max(branches, key=versions.key), "the newest branch that has this engine"
    assert chosen.arch == next(iter(matrix.hardware["cpu"].arches))


def test_the_newest_branch_is_by_version_not_by_spelling(tmp_path: Path) -> None:
    folder = tmp_path / "frameworks" / "openrlhf"
    folder.mkdir(parents=True)
    for name in ("v99.9.0", "v99.10.0"):
        shutil.copy(paths.matrices() / "frameworks" / "openrlhf" / "v0.7.5.yaml", folder / f"{name}.yaml")
    assert pick(load(tmp_path), filters=Filters(framework="openrlhf")).branch == "v99.10.0"


def test_hardware_as_the_vendor_writes_it(matrix: Matrix) -> None:
    assert pick(matrix, filters=Filters(hardware="Atlas 800T A3", branch="v0.6.0")).id == A3_SGLANG


def test_globs_and_filters(matrix: Matrix) -> None:
    found = select(matrix, ["verl-*-vllm-*"], Filters(arch="x86_64"))
    assert found
    assert all(item.framework == "verl" and item.engine == "vllm" and item.arch == "x86_64" for item in found)
    assert select(matrix, [A3_SGLANG, A3_SGLANG]) == [pick(matrix, A3_SGLANG)]


def test_every_row_can_be_rehearsed(matrix: Matrix) -> None:
    rows = {(item.framework, item.branch, item.engine) for item in environments(matrix)}
    rehearsed = {(item.framework, item.branch, item.engine) for item in environments(matrix) if item.hardware == "cpu"}
    assert rows == rehearsed


def test_a_miss_names_the_nearest(matrix: Matrix) -> None:
    with pytest.raises(NoMatchError) as caught:
        pick(matrix, "verl-v0.6.0-sglang-atlas-800t-a3")
    assert A3_SGLANG in str(caught.value.hint)


@pytest.mark.parametrize(
    ("filters", "message", "hint"),
    [
        (Filters(hardware="atlas-800t-a4"), "no environment has the hardware 'atlas-800t-a4'", "did you mean 'atlas-800t-a3'?"),
        (Filters(engine="vlm"), "no environment has the engine 'vlm'", "did you mean 'vllm'?"),
        (Filters(hardware="atlas-800t-a3", framework="openrlhf"), "no environment fits --framework openrlhf --hw atlas-800t-a3", "nearest: "),
    ],
)  # fmt: skip
def test_a_dimension_that_misses(matrix: Matrix, filters: Filters, message: str, hint: str) -> None:
    with pytest.raises(NoMatchError) as caught:
        pick(matrix, filters=filters)
    assert caught.value.message == message
    assert hint in str(caught.value.hint)


def test_one_environment_means_one(matrix: Matrix) -> None:
    with pytest.raises(UsageError, match="names 5 environments"):
        pick(matrix, "verl-v0.6.0-*")
