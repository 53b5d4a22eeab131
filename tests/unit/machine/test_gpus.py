"""Machines with GPUs: the table of nvidia-smi, which environments fit, and what doctor says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from envbuilder.doctor.checks import examine
from envbuilder.environment import Catalog, Filters
from envbuilder.machine import nvidia_smi
from envbuilder.machine.choice import choose
from envbuilder.machine.fit import fits, judge
from envbuilder.machine.machine import Machine, look
from envbuilder.matrix import Matrix
from tests.conftest import environment, run
from tests.helpers.fake_host import fake_host, npu_smi_output
from tests.helpers.nvidia_tables import nvidia_smi_output

TWIN = "verl-v0.8.0-vllm-cuda-x86_64"
NEW_CUDA = "verl-v0.9.1-vllm-cuda-x86_64"


def machine(root: Path, text: str) -> Machine:
    root.mkdir(exist_ok=True)
    (root / "nvidia-smi.txt").write_text(text)
    return look(root)


def test_a_table_is_read() -> None:
    found = nvidia_smi.read(nvidia_smi_output(gpus=3))
    assert [item.number for item in found.devices] == [0, 1, 2]
    assert {(item.name, item.memory_mb) for item in found.devices} == {("NVIDIA H200", 143771)}
    assert (found.driver_version, found.cuda_version, found.failure) == ("570.86.15", "12.8", None)


@pytest.mark.parametrize(
    "text", ["", "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", "| 0  cut"]
)
def test_no_device_is_found_in_other_outputs(text: str) -> None:
    found = nvidia_smi.read(text)
    assert (found.devices, found.driver_version) == ((), None)
    assert found.failure == (text.strip() or None)


def test_the_driver_decides_which_twins_fit(matrix: Matrix, tmp_path: Path) -> None:
    twin, newer = environment(matrix, TWIN), environment(matrix, NEW_CUDA)
    old = machine(tmp_path / "old", nvidia_smi_output(driver="535.183.01"))
    assert judge(twin, old).fits and judge(twin, old).notes, "an older driver of the generation runs it, and is noted"
    assert "580.X" in " ".join(judge(newer, old).changes)
    ancient = machine(tmp_path / "ancient", nvidia_smi_output(driver="470.82.01"))
    assert not judge(twin, ancient).fits
    new = machine(tmp_path / "new", nvidia_smi_output(driver="595.10"))
    assert judge(twin, new).fits and judge(newer, new).fits
    least = twin.least_driver
    assert least is not None and least.version == "525" and least.source


def test_without_gpus_no_twin_fits(matrix: Matrix, tmp_path: Path) -> None:
    assert judge(environment(matrix, TWIN), machine(tmp_path, "")).changes == (
        "it needs a chip of NVIDIA GPU, and none was found",
    )


def test_doctor_suggests_a_twin_only_where_there_is_a_gpu(matrix: Matrix, tmp_path: Path) -> None:
    catalog = Catalog(matrix)
    here = machine(tmp_path, nvidia_smi_output())
    assert any("nvidia-smi shows 2 devices: NVIDIA H200" in item.message for item in examine(catalog, here))
    assert catalog.find(fits(catalog, here)[0].environment).hardware.has_gpus  # type: ignore[union-attr]
    assert not any(item.group == "gpu" for item in examine(catalog, machine(tmp_path / "none", "")))


def test_a_machine_with_both_gets_npus(matrix: Matrix, tmp_path: Path) -> None:
    """Somebody with NPUs gets their environments, whatever other cards the machine has."""
    catalog = Catalog(matrix)
    fake_host(tmp_path)
    (tmp_path / "nvidia-smi.txt").write_text(nvidia_smi_output())
    both = look(tmp_path, npu_smi_output())
    assert choose(catalog, Filters(), both).environment.hardware.has_npus
    assert choose(catalog, Filters(engine="vllm"), both).environment.hardware.has_npus
    unfit = replace(both, arch="aarch64", driver={"version": "20.0.0"}, gpus=both.gpus._replace(driver_version="595.1"))
    assert not choose(catalog, Filters(), unfit).environment.hardware.has_gpus, "not even where no row for NPUs fits"
    gpu = next(name for name, item in matrix.hardware.items() if item.has_gpus)
    assert choose(catalog, Filters(hardware=gpu), both).environment.hardware.has_gpus
    assert catalog.find(fits(catalog, both)[0].environment).hardware.has_npus  # type: ignore[union-attr]


def test_the_default_is_never_a_twin(matrix: Matrix, tmp_path: Path) -> None:
    for found in (None, machine(tmp_path, nvidia_smi_output())):
        assert not choose(Catalog(matrix), Filters(), found).environment.hardware.has_gpus


def test_doctor_of_a_folder_names_the_gpus(tmp_path: Path) -> None:
    machine(tmp_path, nvidia_smi_output(driver="470.82.01"))
    told = run("doctor", TWIN, "--root", str(tmp_path))
    assert told.returncode == 5 and "NVIDIA H200; driver 470.82.01" in told.stdout
