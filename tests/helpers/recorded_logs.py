"""Logs of smoke runs that differ in device, seed, precision or learning rate, without the metrics that no test reads.

own: verl's own seeding; seedN: another seed; drawN: samples from a generator on the CPU, seeded with N; bf16: bfloat16, the
others float32; lr0, lr0.1x, lr10x: a wrong learning rate, with the samples of draw1. gpu-seed2 and -again are one command
that ran twice.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from envbuilder.compare import LoggedRun, open_run
from tests.helpers.corpus import FOLDER

LOGS = Path(__file__).resolve().parents[1] / "unit" / "compare" / "logs"
# the whole collection of logs, of which those above are a part
ALL = FOLDER.parent / "feas4" / "gpu"
BROKEN = ("gpu-lr0", "gpu-lr0.1x", "gpu-lr10x")
# runs with the same samples, whatever the device and the precision
SAME = (
    {"cpu-draw1", "gpu-draw1", "gpu-bf16-draw1"},
    {"cpu-seed2", "gpu-draw2"},
    {"gpu-seed2", "gpu-seed2-again", "gpu-seed2-third", "gpu-bf16-seed2"},
)


def log(name: str) -> str:
    return str(LOGS / f"{name}.log")


@cache
def runs(folder: Path = LOGS) -> dict[str, LoggedRun]:
    return {path.stem: open_run(path) for path in sorted(folder.glob("*.log"))}


def are_same(one: str, other: str) -> bool:
    return any({one, other} <= names for names in SAME)
