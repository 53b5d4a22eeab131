"""The compare command refuses runs of two rows, whose curves differ by their versions too."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from envbuilder.matrix import load
from tests.conftest import run as envbuilder
from tests.helpers.training_logs import LOSS, REWARD, console, write

NPU, TWIN = "verl-v0.8.0-vllm-a3-aarch64", "verl-v0.8.0-vllm-cuda-x86_64"
OLDER = "verl-v0.7.0-vllm-cuda-x86_64"


@pytest.fixture
def logs(tmp_path: Path) -> list[str]:
    values = {LOSS: [0.1, 0.05, -0.02] * 5, REWARD: [0.1 + 0.05 * at for at in range(15)]}
    near = {**values, REWARD: [value + 0.01 for value in values[REWARD]]}
    texts = {"npu": console(near, device="npu"), "gpu": console(values, device="cuda")}
    return [write(tmp_path, f"{name}.log", text) for name, text in texts.items()]


def test_runs_of_twins_are_compared(logs: list[str]) -> None:
    assert envbuilder("compare", *logs, "--environment", NPU, "--gpu-environment", TWIN).returncode == 0


def test_runs_of_other_rows_are_refused_with_the_pins(logs: list[str]) -> None:
    words = ("compare", *logs, "--environment", NPU, "--gpu-environment", OLDER)
    refused = envbuilder(*words)
    assert refused.returncode == 2 and not refused.stdout
    assert "transformers 4.57.6 / 4.57.1" in refused.stderr and "--anyway" in refused.stderr
    assert envbuilder(*words, "--anyway").returncode == 0


def test_a_twin_is_not_recorded_as_a_run_on_npus(logs: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "matrices" / "hardware"
    folder.mkdir(parents=True)
    shutil.copy(load().files["hardware/cuda.yaml"].path, folder)
    told = envbuilder("compare", *logs, "--environment", TWIN, "--record", "--matrices", str(folder.parent))
    assert told.returncode == 2 and "has no NPU" in told.stderr
