"""Selection of environments by identifiers, globs, dimensions and defaults, and the errors without a match."""

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


def test_hardware_and_engine_select_the_newest_row(matrix: Matrix) -> None:
    """The options of the examples in the README select a row without errors."""
    chosen = pick(matrix, filters=Filters(hardware="atlas-800t-a3", engine="sglang"))
    rows = [item for item in environments(matrix) if item.hardware == "atlas-800t-a3" and item.engine == "sglang"]
    assert chosen == max(rows, key=lambda item: versions.key(item.branch))
    assert not [item for item in findings(matrix, chosen.id) if item.severity == "error"]


def test_defaults_fill_in_missing_dimensions(matrix: Matrix) -> None:
    chosen = pick(matrix)
    assert (chosen.framework, chosen.engine, chosen.hardware) == ("verl", "vllm", "cpu")
    branches = [branch.name for branch in matrix.branches if branch.framework == "verl" and "vllm" in branch.engines]
    assert chosen.branch == max(branches, key=versions.key), "the newest branch that has this engine"
    assert chosen.arch == next(iter(matrix.hardware["cpu"].arches))


def test_the_newest_branch_is_found_by_version(tmp_path: Path) -> None:
    folder = tmp_path / "frameworks" / "openrlhf"
    folder.mkdir(parents=True)
    for name in ("v99.9.0", "v99.10.0"):
        shutil.copy(paths.matrices() / "frameworks" / "openrlhf" / "v0.7.5.yaml", folder / f"{name}.yaml")
    assert pick(load(tmp_path), filters=Filters(framework="openrlhf")).branch == "v99.10.0"


def test_hardware_in_the_spelling_of_the_vendor(matrix: Matrix) -> None:
    assert pick(matrix, filters=Filters(hardware="Atlas 800T A3", branch="v0.6.0")).id == A3_SGLANG


def test_globs_and_filters(matrix: Matrix) -> None:
    found = select(matrix, ["verl-*-vllm-*"], Filters(arch="x86_64"))
    assert found
    assert all(item.framework == "verl" and item.engine == "vllm" and item.arch == "x86_64" for item in found)
    assert select(matrix, [A3_SGLANG, A3_SGLANG]) == [pick(matrix, A3_SGLANG)]


def test_every_row_has_a_rehearsal(matrix: Matrix) -> None:
    rows = {(item.framework, item.branch, item.engine) for item in environments(matrix)}
    rehearsed = {(item.framework, item.branch, item.engine) for item in environments(matrix) if item.hardware == "cpu"}
    assert rows == rehearsed


def test_an_unknown_identifier_has_the_nearest_as_hint(matrix: Matrix) -> None:
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
def test_an_unknown_dimension_has_a_hint(matrix: Matrix, filters: Filters, message: str, hint: str) -> None:
    with pytest.raises(NoMatchError) as caught:
        pick(matrix, filters=filters)
    assert caught.value.message == message
    assert hint in str(caught.value.hint)


def test_a_glob_of_several_environments_is_refused(matrix: Matrix) -> None:
    count = sum(item.branch == "v0.6.0" for item in environments(matrix))
    with pytest.raises(UsageError, match=f"names {count} environments"):
        pick(matrix, "verl-v0.6.0-*")
