"""What each level of evidence proves, and what it does not, in one sentence each."""

from __future__ import annotations

from collections.abc import Mapping

from envbuilder.matrix.model import Level

# in their order, the lowest first
PROVES: Mapping[Level, str] = {
    "resolved": "the metadata of all packages fits together; nothing was installed",
    "built": "the image was built; nothing was run in it",
    "smoke-cpu": "a GRPO run learned on a CPU; no code for the NPU ran, and at depth trainer not the engine either",
    "rehearsed": (
        "the image for the NPU ran upon a stand-in of CANN; nothing is known of numerics, speed, memory, HCCL between"
        " hosts, CANN's operators, compiled kernels and the driver"
    ),
    "smoke-npu": "a GRPO run learned on NPUs; its accuracy and speed were not compared",
    "compared": "a training on NPUs was compared with one on GPUs",
}


def height(level: Level | None) -> int:
    """Return the place of a level among all of them; nothing proven is below."""
    return list(PROVES).index(level) if level else -1
