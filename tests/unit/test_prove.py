"""What `make prove` would prove, in which order."""

from __future__ import annotations

import argparse
import io
import os
import runpy
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from envbuilder.environment import Environment
from envbuilder.matrix import Matrix, evidence, load
from envbuilder.versions import key
from tests.conftest import Edit, environment

ROOT = Path(__file__).resolve().parents[2]
ROW, NEWEST = "verl-v0.8.0-sglang-a3-aarch64", "verl-v0.9.1-sglang-a2-aarch64"
ENGINE = {"depth": "engine"}
USUAL, MEGATRON, TWO = "[]", "[--backend megatron]", "[--npus 2]"


def planned(*words: str) -> dict[str, str]:
    """Return what a dry run prints; it runs in this process, as reading the matrices takes longest."""
    shown = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(shown):
        patch.setattr(sys, "argv", ["prove", "--dry-run", "--arch", "aarch64", *words])
        runpy.run_module("tools.prove", run_name="__main__")
    return dict(line.split(" ", 1) for line in shown.getvalue().splitlines())


def recorded(edit: Edit, identifier: str, *lines: dict[str, str]) -> Path:
    """Return matrices in which these lines are all the evidence of a row."""
    row = environment(load(everything=True), identifier)
    file = f"evidence/{row.coordinates.framework}/{row.coordinates.branch}.yaml"
    folder = edit(file, "environments:", "environments:")
    evidence.record(folder, row.coordinates.folder, "resolved", alone=True)
    for details in lines:
        evidence.record(folder, row.coordinates.folder, "rehearsed", "a machine", details)
    return folder


def row_of(folder: Path) -> Environment:
    return environment(load(folder, everything=True), ROW)


def test_the_newest_release_of_each_engine_comes_first(matrix: Matrix) -> None:
    rows = [environment(matrix, name) for name in planned("--again")]
    found = [item.coordinates for item in rows if not item.hardware.has_gpus]
    assert all(item.hardware.has_gpus for item in rows[len(found) :]), "twins for GPUs are last"
    seen, newest = set(), []
    for where in found:
        group = (where.framework, where.engine, where.hardware)
        if group not in seen:
            newest.append(where)
            seen.add(group)
    assert found[: len(newest)] == newest
    assert newest[0].framework == "verl" and newest[0].hardware != "cpu"
    for where in newest:
        alike = [item.branch for item in found if item._replace(branch=where.branch) == where]
        assert max(alike, key=key) == where.branch
    assert found[len(newest)].branch == "v0.4.0", "the source documents are on the oldest"


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        ([], USUAL),
        ([{"depth": "import"}], USUAL),
        ([ENGINE], None),
        ([{**ENGINE, "backend": "megatron"}], USUAL),
    ],
)
def test_what_is_recorded_is_not_proven_again(edit: Edit, lines: list[dict[str, str]], left: str | None) -> None:
    folder = str(recorded(edit, ROW, *lines))
    assert planned("--matrices", folder, ROW).get(ROW) == (f"--rehearse {left}" if left else None)


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        ([], f"{USUAL} {MEGATRON} {TWO}"),
        ([ENGINE], f"{MEGATRON} {TWO}"),
        ([ENGINE, {**ENGINE, "devices": "2"}], MEGATRON),
        ([ENGINE, {**ENGINE, "backend": "megatron"}, {**ENGINE, "devices": "2"}], None),
    ],
)
def test_one_row_of_the_newest_release_is_proven_in_all_ways(
    edit: Edit, lines: list[dict[str, str]], left: str | None
) -> None:
    folder = str(recorded(edit, NEWEST, *lines))
    assert planned("--matrices", folder, NEWEST).get(NEWEST) == (f"--rehearse {left}" if left else None)
    sibling = NEWEST.replace("-a2-", "-a3-")
    assert planned("--again", sibling)[sibling] == f"--rehearse {USUAL}"


def test_a_trainer_that_needs_a_device_gets_a_stand_in_on_a_cpu() -> None:
    name = "openrlhf-v0.7.5-vllm-cpu-aarch64"
    assert planned("--again", name)[name].startswith("--device stand-in ")


def test_a_python_that_debian_does_not_have_comes_with_a_base_image() -> None:
    name = "verl-v0.9.0-vllm-a3-aarch64"
    assert planned("--again", name)[name].startswith("--rehearse --base-image python:3.12 ")


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


def test_a_full_disk_is_cleared_once_and_then_ends_the_run(edit: Edit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise every row that is left would fail in seconds, and none would be proven."""
    module, calls = runpy.run_module("tools.prove", alter_sys=True), list[str]()

    def prove(proof: Any, options: object, results: object) -> None:
        calls.append(proof.environment.id)
        raise module["CommandError"](5, "a build needs about 20 GB; 2 GB are free")

    def docker(*words: str) -> str:
        calls.append(" ".join(words[:2]))
        return ""

    # the names that its functions use
    own = module["attempt"].__globals__
    for name, value in (("_LACKING", Event()), ("prove", prove), ("docker", docker), ("is_ours", lambda: True)):
        monkeypatch.setitem(own, name, value)
    given = argparse.Namespace(
        matrices=recorded(edit, ROW), arch="aarch64", identifiers=[ROW], again=False, results=Path(),
        git_mirror=None, jobs=None,
    )  # fmt: skip
    (task,) = module["planned"](given)
    assert [module["attempt"](task, given) for _ in range(2)] == [5, 5]
    assert calls[:3] == [ROW, "builder prune", ROW] and calls.count(ROW) == 2
    assert row_of(given.matrices).failure is None, "the row is not to blame"


def test_a_dry_run_keeps_its_priority() -> None:
    before = os.nice(0)
    planned(ROW)
    assert os.nice(0) == before


def test_a_long_cause_keeps_its_first_and_its_last_words() -> None:
    downloads = "".join(f"  |  Downloaded package-{number}\n" for number in range(100))
    output = f"error: step 3 failed\n$ uv pip install\n{downloads}  | cause: operation timed out\nhint: the network\n"
    code = "import sys; from tools.prove import cause_of; print(cause_of(sys.stdin.read()))"
    words = [sys.executable, "-c", code]
    cause = subprocess.run(words, cwd=ROOT, input=output, capture_output=True, text=True, check=True).stdout.strip()
    assert cause.startswith("$ uv pip install; ") and cause.endswith("cause: operation timed out")
    assert len(cause) < len(downloads)
