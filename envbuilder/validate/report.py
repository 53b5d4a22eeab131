"""The result of a validation, as data: every check with its outcome, and the training run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from envbuilder.files import digest_of_document
from envbuilder.matrix.model import CPU, GPU, NPU, STAND_IN, Depth, Device, Level

SCHEMA_VERSION = 1
# where files of an image come from that no layer has changed
BASE = "base image"

ValidationLevel: TypeAlias = Literal["static", "import", "train"]
LEVELS: tuple[ValidationLevel, ...] = ("static", "import", "train")
# a check that could not be made counts as neither passed nor failed
Status: TypeAlias = Literal["passed", "failed", "not-checked"]

_EVIDENCE: Mapping[Device, Level] = {NPU: "smoke-npu", GPU: "gpu", STAND_IN: "rehearsed", CPU: "smoke-cpu"}


@dataclass(frozen=True)
class Check:
    level: ValidationLevel
    name: str
    status: Status
    message: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Account:
    """Where the files of an image come from, and what of it may run by itself."""

    files: int
    # the number of files by where they come from
    kinds: Mapping[str, int]
    # how many come from nowhere, and the first of them with the reasons
    lost: int
    unaccounted: Mapping[str, str]
    # the number of layers of the base image, and the digest of all of them
    base: Mapping[str, int | str]
    # what may run by itself, by kind, with where it comes from
    runs: Mapping[str, Mapping[str, str]]

    @property
    def added(self) -> dict[str, dict[str, str]]:
        """Return what may run by itself besides what the base image has."""
        found = {
            kind: {name: origin for name, origin in names.items() if origin != BASE}
            for kind, names in self.runs.items()
        }
        return {kind: names for kind, names in found.items() if names}


@dataclass(frozen=True)
class TrainingResult:
    """The result of a training run: how it was set up, and what it logged."""

    device: Device
    depth: Depth
    # None for the usual one of the framework
    backend: str | None
    devices: int
    trainer: str
    rollout: str
    # how the samples were drawn, and whether another device draws the same
    draws: str | None
    # code of envbuilder that the run used where the upstream code does not work
    ours: tuple[str, ...]
    steps: int
    steps_wanted: int
    curves: Mapping[str, Sequence[float]]
    reward_margin: float
    reward_first: float | None
    reward_last: float | None
    seconds: float
    # until the first step was logged: imports, workers, models
    start_seconds: float | None
    step_seconds: float | None
    peak_memory_gb: float | None
    log: str


@dataclass(frozen=True)
class Report:
    environment: str
    title: str
    # None where this host was validated
    image: str | None
    image_id: str | None
    level: ValidationLevel
    device: Device
    machine: str
    started: str
    seconds: float
    pins: Mapping[str, str]
    # the builds of the package index that replace those of the row
    fallback: str | None
    # seconds by level
    times: Mapping[str, float]
    checks: tuple[Check, ...]
    training: TrainingResult | None
    # None for a host
    account: Account | None = None

    @property
    def passed(self) -> bool:
        return not any(check.status == "failed" for check in self.checks)

    @property
    def proven(self) -> ValidationLevel | None:
        """Return the highest level that has a passed check and no failed one, as have all levels before it."""
        found: ValidationLevel | None = None
        for level in LEVELS:
            counts = self.count(level)
            if counts["failed"] or not counts["passed"]:
                break
            found = level
        return found

    def count(self, level: ValidationLevel) -> Counter[str]:
        return Counter(check.status for check in self.checks if check.level == level)

    def evidence(self) -> tuple[Level, dict[str, str]] | None:
        """Return the level and the details to record, or None if the training run is missing or did not pass.

        On a stand-in the imports count as well, as nothing else imports the code for the NPU.
        """
        run = self.training
        if run is None and self.passed and self.device == STAND_IN and self.proven == "import":
            return _EVIDENCE[STAND_IN], {"depth": "import"}
        if run is None or not self.passed or run.step_seconds is None:
            return None
        return _EVIDENCE[run.device], {
            "depth": run.depth,
            **({"backend": run.backend} if run.backend else {}),
            **({"devices": str(run.devices)} if run.devices > 1 else {}),
            "steps": str(run.steps),
            "reward": f"{run.reward_first:.3f} -> {run.reward_last:.3f}",
            "seconds_per_step": f"{run.step_seconds:.2f}",
        }

    def document(self) -> dict[str, Any]:
        found = {"schema_version": SCHEMA_VERSION, "passed": self.passed, "proven": self.proven, **asdict(self)}
        if self.training is not None:
            # JSON has no NaN and no infinity
            found["training"]["curves"] = {
                name: [value if math.isfinite(value) else None for value in values]
                for name, values in self.training.curves.items()
            }
        return found

    @property
    def digest(self) -> str:
        """Return the digest that identifies this result; the image has it as a label."""
        return digest_of_document(self.document())
