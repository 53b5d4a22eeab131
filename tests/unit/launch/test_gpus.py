"""Containers with GPUs: docker's --gpus, the reservation of compose, and the resource of a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from envbuilder.errors import HostError
from envbuilder.launch import FORMS
from envbuilder.launch.container import ContainerOptions, Launch, needs_elsewhere, needs_in_cluster
from envbuilder.launch.docker import arguments
from envbuilder.launch.on_this_host import needs_here
from envbuilder.machine.machine import look
from envbuilder.matrix import Matrix
from tests.conftest import environment, run, succeeded
from tests.helpers.nvidia_tables import nvidia_smi_output

TWIN = "verl-v0.8.0-vllm-cuda-x86_64"


def launch(matrix: Matrix, options: ContainerOptions, form: str = "docker") -> Launch:
    needs_of = needs_in_cluster if form == "k8s" else needs_elsewhere
    return Launch(image="some/image:1", arch="x86_64", needs=needs_of(environment(matrix, TWIN), options), title="x")


@pytest.mark.parametrize(
    ("options", "value", "reserved"),
    [
        (ContainerOptions(), "all", {"count": "all"}),
        (ContainerOptions(npus=2), "2", {"count": 2}),
        (ContainerOptions(devices="3"), "device=3", {"device_ids": ["3"]}),
        (ContainerOptions(devices="0,2-3"), '"device=0,2,3"', {"device_ids": ["0", "2", "3"]}),
    ],
)
def test_docker_and_compose(matrix: Matrix, options: ContainerOptions, value: str, reserved: dict[str, object]) -> None:
    what = launch(matrix, options)
    words = arguments(what)
    assert words[words.index("--gpus") + 1] == value
    assert not {"--device", "--privileged", "--runtime"} & set(words)
    service = yaml.safe_load(FORMS["compose"](what))["services"]["x"]
    (device,) = service["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "capabilities": ["gpu"], **reserved}


def test_a_pod(matrix: Matrix) -> None:
    pod = yaml.safe_load(FORMS["k8s"](launch(matrix, ContainerOptions(npus=4), "k8s")))
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": 4}


def test_containers_of_npus_have_no_gpus(matrix: Matrix) -> None:
    needs = needs_elsewhere(environment(matrix, "verl-v0.8.0-vllm-a3-aarch64"), ContainerOptions())
    assert needs.gpus is None and needs.devices


def test_on_a_host(matrix: Matrix, tmp_path: Path) -> None:
    (tmp_path / "nvidia-smi.txt").write_text(nvidia_smi_output(gpus=2))
    machine, twin = look(tmp_path), environment(matrix, TWIN)
    needs, _ = needs_here(twin, machine, ContainerOptions(devices="1"))
    assert needs.gpus == ("nvidia", "device=1")
    with pytest.raises(HostError, match="this host has no GPU 4"):
        needs_here(twin, machine, ContainerOptions(devices="1,4"))
    with pytest.raises(HostError, match="2 GPUs, and not 3"):
        needs_here(twin, machine, ContainerOptions(npus=3))


def test_the_command() -> None:
    shown = succeeded(run("run", TWIN, "--gpus", "2", "--print", "docker"))
    assert "--gpus 2" in shown.stdout and "it has no GPUs" in shown.stderr
