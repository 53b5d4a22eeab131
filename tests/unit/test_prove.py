"""What is left to prove, in which order, and what the cause of a failure is."""

from __future__ import annotations

from pathlib import Path

import pytest

from envbuilder.environment import Catalog, Environment, Filters
from envbuilder.matrix import evidence, load
from envbuilder.matrix.model import Level
from envbuilder.versions import key
from tests.conftest import A3_SGLANG, Edit, environment
from tools.prove import USUAL, Run, cause_of, in_order, left

ROW = "verl-v0.8.0-sglang-a3-aarch64"
MEGATRON, TWO = Run(backend="megatron"), Run(devices=2)


def test_the_newest_release_comes_first_and_proves_more() -> None:
    found = list(in_order(Catalog(load(everything=True)).select((), Filters(arch="aarch64"))))
    newest = [item.coordinates for item, is_newest in found if is_newest]
    assert [item for item, _ in found[: len(newest)]] == [item for item, is_newest in found if is_newest]
    assert newest[0].framework == "verl" and newest[0].hardware != "cpu"
    for where in newest:
        alike = [item for item, _ in found if item.coordinates._replace(branch=where.branch) == where]
        assert max(alike, key=lambda item: key(item.coordinates.branch)).coordinates == where
    assert found[len(newest)][0].coordinates.branch == "v0.4.0", "the source documents are on the oldest"
    assert len(found) == len({item.id for item, _ in found})


def recorded(edit: Edit, identifier: str, *lines: dict[str, str]) -> Path:
    """Return matrices in which these lines are all the evidence of a row."""
    row = environment(load(everything=True), identifier)
    folder = edit(
        f"evidence/{row.coordinates.framework}/{row.coordinates.branch}.yaml", "environments:", "environments:"
    )
    level: Level = "smoke-cpu" if row.hardware.cpu_only else "rehearsed"
    evidence.record(folder, row.coordinates.folder, "resolved", alone=True)
    for details in lines:
        evidence.record(folder, row.coordinates.folder, level, "a machine", details)
    return folder


def row_of(folder: Path) -> Environment:
    return environment(load(folder, everything=True), ROW)


ENGINE = {"depth": "engine"}


@pytest.mark.parametrize(
    ("lines", "is_newest", "runs"),
    [
        ([], False, (USUAL,)),
        ([{"depth": "import"}], False, (USUAL,)),
        ([ENGINE], False, ()),
        ([ENGINE], True, (MEGATRON, TWO)),
        ([ENGINE, {**ENGINE, "devices": "2"}], True, (MEGATRON,)),
        ([ENGINE, {**ENGINE, "backend": "megatron"}, {**ENGINE, "devices": "2"}], True, ()),
        ([{**ENGINE, "backend": "megatron"}], False, (USUAL,)),
    ],
)
def test_what_is_recorded_is_not_proven_again(
    edit: Edit, lines: list[dict[str, str]], is_newest: bool, runs: tuple[Run, ...]
) -> None:
    row = row_of(recorded(edit, ROW, *lines))
    assert left(row, is_newest=is_newest).runs == runs


def test_a_trainer_that_needs_a_device_gets_a_stand_in_on_a_cpu() -> None:
    row = environment(load(everything=True), "openrlhf-v0.7.5-vllm-cpu-aarch64")
    assert left(row, is_newest=False).options == ["--device", "stand-in"]
    assert left(environment(load(everything=True), A3_SGLANG), is_newest=False).options == ["--rehearse"]


def test_a_failure_is_recorded_until_the_row_is_proven_or_locked_anew(edit: Edit) -> None:
    folder = recorded(edit, ROW, ENGINE)
    place = row_of(folder).coordinates.folder
    failure = evidence.failure("a machine", 'train: process: it said "no"', "0123456789abcdef")
    evidence.record_failure(folder, place, failure)
    evidence.record(folder, place, "rehearsed", "a machine", {**ENGINE, "backend": "megatron"})
    found = row_of(folder)
    assert found.failure == failure and len(found.evidence) == 3
    evidence.record_failure(folder, place, None)
    assert row_of(folder).failure is None
    evidence.record_failure(folder, place, failure)
    evidence.record(folder, place, "resolved", alone=True)
    assert row_of(folder).failure is None


def test_the_cause_is_what_the_error_says_after_its_first_line() -> None:
    output = (
        "building verl\nerror: prove/verl:x failed 1 of 80 checks\n  train: process: the trainer ended with code 1:"
        " ModuleNotFoundError: No module named 'sgl_kernel'\nhint: training log: /x.log\n"
    )
    assert cause_of(output) == (
        "train: process: the trainer ended with code 1: ModuleNotFoundError: No module named 'sgl_kernel'"
    )
    assert cause_of("error: no such file\n") == "no such file"
    assert cause_of("Killed\n") == "" and len(cause_of(f"error: {'x' * 1000}")) < 420
