"""The GPU twins of rows: the same releases, wheels of the package index, and nothing of NPUs."""

from __future__ import annotations

import json

import pytest

from envbuilder.check import check_environment
from envbuilder.environment import Catalog, Environment
from envbuilder.environment.proof import height
from envbuilder.environment.twins import are_twins, differences, twin_of
from envbuilder.matrix import Matrix, evidence, load
from envbuilder.matrix.model import CPU, GPU
from envbuilder.plan import make_plan
from envbuilder.quickstart.choose import TrainingOptions, training_of
from envbuilder.quickstart.steps import ClusterNetwork, inside
from envbuilder.validate.smoke.job import Job, NotRun, Place, smoke_job
from tests.conftest import Edit, environment, run, succeeded

TWIN = "verl-v0.8.0-vllm-cuda-x86_64"
CORE = ("transformers", "tensordict", "ray", "numpy")


@pytest.fixture(scope="module")
def twins(matrix: Matrix) -> list[Environment]:
    return [item for item in Catalog(matrix).environments if item.hardware.has_gpus]


def test_every_row_from_the_first_on_has_a_twin(matrix: Matrix, twins: list[Environment]) -> None:
    first = min((item.branch.date, item.branch.name) for item in twins)
    rows = {(branch.name, name) for branch in matrix.branches if branch.framework == "verl" and branch.date >= first[0]
            for name in branch.engines}  # fmt: skip
    assert {(item.branch.name, item.engine.name) for item in twins} == rows
    assert all(item.lock is not None for item in twins)


def test_a_twin_has_the_releases_of_its_row(matrix: Matrix, twins: list[Environment]) -> None:
    for item in twins:
        other = twin_of(Catalog(matrix), item)
        assert other is not None and other.hardware.has_npus and are_twins(item, other)
        for name in (item.framework.component, item.engine.engine, *CORE):
            assert item.version(name) == other.version(name), (item.id, name)
        back = twin_of(Catalog(matrix), other)
        assert back is not None and back.hardware.has_gpus and are_twins(back, item)


def test_a_twin_has_nothing_of_npus(twins: list[Environment]) -> None:
    for item in twins:
        assert item.lock is not None
        names = {*item.pins, *item.lock.versions, *item.packages.parts["torch"]}
        assert not [name for name in names if "ascend" in name or "npu" in name.replace("cpu", "").split("_")], item.id
        assert not names & {"cann", "hdk", "torch_npu", "torch-npu"}
        assert not [name for name in item.variables if "ASCEND" in name or "HCCL" in name]
        assert item.engine.engine in item.lock.versions, "the engine is a wheel of the package index"
        assert make_plan(item).components == (item.framework.component,)
        codes = {found.code for found in check_environment(item) if found.severity in {"error", "warning"}}
        assert not codes, (item.id, codes)


def test_a_cpu_environment_has_no_twin(matrix: Matrix) -> None:
    assert twin_of(Catalog(matrix), environment(matrix, "verl-v0.8.0-vllm-cpu-x86_64")) is None


def test_what_differs(matrix: Matrix) -> None:
    one, other = environment(matrix, TWIN), environment(matrix, "verl-v0.8.0-vllm-a3-aarch64")
    found = {item.name: item for item in differences(one, other)}
    torch = one.version("torch"), other.version("torch")
    assert (found["torch"].here, found["torch"].there) == torch
    assert found["cann"].here is None and not found["cann"].is_of_both
    assert not {"transformers", "ray", "verl", "vllm"} & found.keys()
    assert not are_twins(one, environment(matrix, "verl-v0.9.0-vllm-a3-aarch64"))


def test_show_names_the_twin_and_what_differs() -> None:
    text = succeeded_text("show", TWIN)
    assert "twin, to compare" in text and "verl-v0.8.0-vllm-a" in text and "only here: cuda" in text
    data = json.loads(succeeded_text("show", "verl-v0.8.0-sglang-a3-aarch64", "--json"))["environment"]["twin"]
    assert data["id"] == "verl-v0.8.0-sglang-cuda-x86_64" and data["differing"]["torch"]["here"]
    assert json.loads(succeeded_text("show", "--hw", "cpu", "--json"))["environment"]["twin"] is None


def succeeded_text(*words: str) -> str:
    return succeeded(run(*words)).stdout


def test_a_twin_trains_on_a_gpu_alone(matrix: Matrix) -> None:
    twin = environment(matrix, TWIN)
    assert isinstance(smoke_job(twin, CPU, Place("", "")), NotRun)
    job = smoke_job(twin, GPU, Place("", ""), devices=2)
    assert isinstance(job, Job) and job.settings["trainer.device"] == "cuda"
    assert (job.document()["gpus"], job.document()["resources"]) == (2, {})


def test_its_quickstart_names_gpus(matrix: Matrix) -> None:
    for name in (TWIN, "verl-v0.6.0-sglang-cuda-x86_64"):
        training = training_of(environment(matrix, name), None, TrainingOptions(nodes=2, npus=4))
        text = "\n".join(step.text for step in inside(training, ClusterNetwork()) if "python3 - " not in step.text)
        assert "--num-gpus=4" in text and "main_ppo" in text
        assert not [word for word in ("ASCEND", "HCCL", "attention_backend=ascend", "device=npu") if word in text], text


def test_a_run_on_a_gpu_is_evidence_that_names_its_torch(edit: Edit) -> None:
    folder, place = edit("evidence/verl/v0.8.0.yaml", "environments:", "environments:"), environment_folder(TWIN)
    run_of = {"depth": "trainer", "steps": "24", "reward": "0.100 -> 0.500", "seconds_per_step": "1.00"}
    evidence.record(folder, place, "gpu", "x86_64, 1 x a GPU", {"torch": "2.11.0+cu130", **run_of})
    (written,) = (item for item in load(folder).evidence[place].evidence if item.level == "gpu")
    assert (written.torch, written.depth) == ("2.11.0+cu130", "trainer")
    assert height("rehearsed") < height("gpu") < height("smoke-npu"), "it is no proof of an NPU"
    shown = succeeded_text("show", TWIN, "--matrices", str(folder))
    assert "with torch 2.11.0+cu130 in place" in " ".join(shown.split())


def environment_folder(identifier: str) -> str:
    return environment(load(), identifier).coordinates.folder
