"""What levels of evidence prove, and the proof that makes an environment the default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from envbuilder.environment.coordinates import Coordinates
from envbuilder.matrix import Matrix
from envbuilder.matrix.model import Arch, EnvironmentEvidence, Evidence, Level

# what each level of evidence proves, and what it does not; the lowest level first
PROVES: Mapping[Level, str] = {
    "resolved": "versions resolved, never built",
    "built": "the image was built; nothing was run in it",
    "smoke-cpu": "a GRPO run learned on a CPU; no code for the NPU ran, and at depth trainer not the engine either",
    "rehearsed": (
        "the image for the NPU ran on a stand-in of CANN; nothing is known of numerics, speed, memory, HCCL between"
        " hosts, CANN's operators, compiled kernels and the driver"
    ),
    "gpu": "a GRPO run learned on a GPU: a reference for runs on NPUs, of which it proves nothing",
    "smoke-npu": "a GRPO run learned on NPUs; its accuracy and speed were not compared",
    "compared": "a training on NPUs was compared with one on GPUs",
}


def height(level: Level | None) -> int:
    """Return the place of a level among all levels; that of None is below them."""
    return list(PROVES).index(level) if level else -1


def best(evidence: tuple[Evidence, ...]) -> Evidence | None:
    """Return the evidence of the highest level."""
    return max(evidence, key=lambda item: height(item.level), default=None)


class TrainingProof(NamedTuple):
    """Evidence that something ran in an environment, and the architecture on which it ran."""

    evidence: Evidence
    arch: Arch


def proof_of(matrix: Matrix, coordinates: Coordinates) -> TrainingProof | None:
    """Return the best proof of an environment, or else of the same row for another architecture."""
    own = coordinates.arch
    for arch in sorted(matrix.hardware[coordinates.hardware].arches, key=lambda arch: arch != own):
        recorded = matrix.evidence.get(coordinates._replace(arch=arch).folder, EnvironmentEvidence())
        found = best(recorded.evidence)
        # an image that was only built, or whose modules were only imported, has trained nothing
        if found is not None and height(found.level) > height("built") and found.depth != "import":
            return TrainingProof(found, arch)
    return None
