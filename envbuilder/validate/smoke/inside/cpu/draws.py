"""Draws samples from a seeded generator on the CPU, so that runs on two devices have the same samples.

Generators of two kinds of device draw differently from one seed. verl also exchanges the state of the device's
generator between training and generation, by which a seed that was set before is lost; it leaves this one alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_SEED = os.environ.get("SMOKE_DRAWS")
# one for each process, so that two devices of a run do not draw the same
_GENERATOR = torch.Generator().manual_seed(int(_SEED) + int(os.environ.get("RANK", "0"))) if _SEED else None


@contextmanager
def drawn_on_the_cpu() -> Iterator[None]:
    """Let transformers draw its samples from the generator, if the run has a seed for it."""
    original = torch.multinomial

    def multinomial(weights: Any, num_samples: int, replacement: bool = False) -> Any:
        return original(weights.float().cpu(), num_samples, replacement, generator=_GENERATOR).to(weights.device)

    if _GENERATOR is not None:
        torch.multinomial = multinomial
    try:
        yield
    finally:
        torch.multinomial = original
