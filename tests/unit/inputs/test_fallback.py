"""Wheels of the package index replace those of another index that cannot be reached."""

from __future__ import annotations

from pathlib import Path

import pytest

from envbuilder.environment import Catalog, Environment, image_names
from envbuilder.environment.locks import read_lock
from envbuilder.inputs.other_indexes import within_reach
from envbuilder.matrix import Matrix, evidence, load
from envbuilder.plan import make_plan
from tests.conftest import Edit, environment
from tests.helpers.web_server import reply, serving

CPU = "verl-v0.7.1-vllm-cpu-x86_64"
NPU = "verl-v0.7.1-vllm-a2-x86_64"
OFFICIAL = "https://download.pytorch.org/whl/cpu/"
OUT_OF_REACH = "http://127.0.0.1:9/whl/"


def at(edit: Edit, address: str) -> Environment:
    """Return the CPU environment with another address of the index."""
    return environment(load(edit("hardware/cpu.yaml", OFFICIAL, address, count=3), everything=True), CPU)


def test_a_cpu_environment_on_x86_64_has_the_build_for_cpus(matrix: Matrix) -> None:
    lock = environment(matrix, CPU).lock
    assert lock is not None and lock.versions["torch"] == "2.8.0+cpu"
    assert not any(name.startswith("nvidia") for name in lock.versions)
    assert {"torch", "torchvision", "nvidia-cublas-cu12"} <= {item.name for item in lock.fallback}
    assert read_lock(lock.files()) == lock


def test_the_fallback_has_every_package_once_and_in_its_part(matrix: Matrix) -> None:
    own = environment(matrix, CPU)
    other = own.from_package_index()
    assert own.lock is not None and other.lock is not None
    assert other.lock.versions["torch"] == "2.8.0" and other.lock.versions["nvidia-cublas-cu12"]
    assert len(other.lock.versions) == len(other.lock.packages)
    # the rest is the same
    gone = {item.name for item in own.lock.fallback}
    rest = {name: version for name, version in other.lock.versions.items() if name not in gone}
    assert rest.items() <= own.lock.versions.items()
    # a source build imports torch, which needs these libraries
    assert "nvidia-cublas-cu12" in {item.name for item in other.lock.parts["torch"]}
    plan = make_plan(other)
    assert plan.labels[image_names.FALLBACK] == other.fallback == "torch 2.8.0, torchvision 0.23.0"
    assert plan.labels[image_names.LOCK] != make_plan(own).labels[image_names.LOCK]
    assert image_names.FALLBACK not in make_plan(own).labels
    assert not any(OFFICIAL in str(step.values) for layer in plan.layers for step in layer.steps)
    assert own.as_labelled(plan.labels).lock == other.lock and own.as_labelled({}) is own


def test_only_a_cpu_environment_may_fall_back(matrix: Matrix) -> None:
    assert environment(matrix, CPU).has_fallback
    real = environment(matrix, NPU)
    assert real.lock is not None and real.lock.fallback
    assert not real.has_fallback and real.rehearsed().has_fallback
    assert not environment(matrix, CPU.replace("x86_64", "aarch64")).has_fallback


def test_an_unreachable_index_is_replaced_with_a_message(edit: Edit) -> None:
    said: list[str] = []
    own = at(edit, OUT_OF_REACH)
    found = within_reach(own, None, said.append)
    assert found.fallback == "torch 2.8.0, torchvision 0.23.0"
    assert "http://127.0.0.1:9/whl/ cannot be reached for torch 2.8.0+cpu, torchvision 0.23.0+cpu" in said[0]
    assert "CUDA" in said[1]


@pytest.mark.parametrize(("status", "falls_back"), [(200, False), (404, True), (503, True)])
def test_an_index_that_answers_is_taken(edit: Edit, status: int, falls_back: bool) -> None:
    with serving(lambda handler, number: reply(handler, status)) as server:
        own = at(edit, server.url)
        assert bool(within_reach(own, None, lambda text: None).fallback) is falls_back


def test_an_environment_of_npus_uses_no_fallback(matrix: Matrix) -> None:
    real = environment(matrix, NPU)
    assert within_reach(real, None, pytest.fail) is real


def test_evidence_of_a_fallback_replaces_no_better_one(tmp_path: Path, edit: Edit) -> None:
    folder = edit("hardware/cpu.yaml", OFFICIAL, OFFICIAL, count=3)
    details = {"depth": "engine", "steps": "24"}

    def recorded() -> list[str | None]:
        found = Catalog(load(folder, everything=True)).find(CPU)
        assert found is not None
        return [item.fallback for item in found.evidence if item.level == "smoke-cpu"]

    def record(**more: str) -> None:
        evidence.record(folder, place, "smoke-cpu", None, {**details, **more})

    place = environment(load(folder), CPU).coordinates.folder
    evidence.record(folder, place, "resolved", alone=True)
    record(fallback="torch 2.8.0")
    assert recorded() == ["torch 2.8.0"]
    record(fallback="torch 2.8.0, more")
    assert recorded() == ["torch 2.8.0, more"]
    record()
    assert recorded() == [None]
    record(fallback="torch 2.8.0")
    assert recorded() == [None, "torch 2.8.0"]
