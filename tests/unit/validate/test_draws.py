"""Samples of the smoke run come from a seeded generator on the CPU; torch is a stand-in that shows who draws."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import envbuilder.validate.smoke

INSIDE = Path(envbuilder.validate.smoke.__file__).parent / "inside" / "cpu"
TORCH = """
import random

class Generator:
    def manual_seed(self, seed):
        self.random = random.Random(seed)
        return self

class Tensor(list):
    device = "npu:0"
    def float(self):
        return self
    def cpu(self):
        found = Tensor(self)
        found.device = "cpu"
        return found
    def to(self, device):
        self.device = device
        return self

def multinomial(weights, num_samples, replacement=False, generator=None):
    source = generator.random if generator else random
    found = Tensor(source.choices(range(len(weights)), list(weights), k=num_samples))
    found.device = weights.device if generator is None else "cpu"
    assert generator is None or weights.device == "cpu", "a generator on the CPU takes weights on the CPU"
    return found
"""
LOOK = """
import torch
from draws import drawn_on_the_cpu
own, weights = torch.multinomial, torch.Tensor([1.0] * 50)
found = []
for _ in range(4):
    with drawn_on_the_cpu():
        drawn = torch.multinomial(weights, num_samples=3)
    assert torch.multinomial is own and drawn.device == "npu:0"
    found.append(list(drawn))
print(found)
"""


@pytest.fixture
def draw(tmp_path: Path) -> Callable[..., str]:
    # without the other patches, which need more of torch
    shutil.copy(INSIDE / "draws.py", tmp_path)
    (tmp_path / "torch.py").write_text(TORCH)

    def run(**variables: str) -> str:
        path = {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
        result = subprocess.run(
            [sys.executable, "-c", LOOK], env={**path, **variables}, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run


def test_a_seed_gives_the_same_samples_and_each_device_its_own(draw: Callable[..., str]) -> None:
    one = draw(SMOKE_DRAWS="1")
    assert draw(SMOKE_DRAWS="1") == one
    assert draw(SMOKE_DRAWS="2") != one and draw(SMOKE_DRAWS="1", RANK="1") != one


def test_without_a_seed_nothing_changes(draw: Callable[..., str]) -> None:
    assert draw() != draw()
