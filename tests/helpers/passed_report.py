"""A report of a validation that passed at every level."""

from __future__ import annotations

from envbuilder.matrix.model import CPU
from envbuilder.validate.report import Check, Report, TrainingResult

RUN = TrainingResult(
    device=CPU, depth="trainer", backend=None, devices=1, trainer="toy.train", rollout="its own <generator>", draws="a <die>", ours=("a <patch>",), steps=4,
    steps_wanted=4, curves={"reward": (0.1, 0.2, 0.4, 0.5), "loss": (0.2, -0.1, 0.0, float("nan"))}, reward_margin=0.2,
    reward_first=0.1, reward_last=0.5, seconds=60.0, start_seconds=20.0, step_seconds=1.5, peak_memory_gb=2.5, log="/x.log",
)  # fmt: skip
CHECKS = (
    Check("static", "pin torch", "passed", seconds=0.1),
    Check("static", "library libhccl.so", "not-checked", "needs <CANN> & more"),
    Check("import", "import torch", "passed"),
    Check("train", "reward", "passed", "the reward went from 0.100 to 0.500"),
)
REPORT = Report(
    environment="toy-1", title="Toy", image="x/toy:1", image_id="sha256:1", level="train", device=CPU,
    machine="aarch64, 2 cores, no NPU", started="2026-01-02T03:04:05Z", seconds=70.0, pins={"torch": "2.6.0"},
    fallback="torch 2.6.0", times={"static": 2.5, "import": 5.0, "train": 62.0},     checks=CHECKS, training=RUN,
)  # fmt: skip
