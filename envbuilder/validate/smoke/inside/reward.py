"""The reward of the smoke run: half the share of digits in the answer, half the share of the right digit.

A random model scores near zero, and any trainer that trains raises it within a few steps: first to a half, by answering
with digits, then to one, by answering with the right digit. The published reward of the data set gives a random model
zero throughout, so that a run with it succeeds and trains nothing.
"""

from __future__ import annotations

import re
from typing import Any


def compute_score(data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None, **_: Any) -> float:
    text = re.sub(r"<\|[a-z_]+\|>", "", solution_str).strip()
    digits = sum(character in "0123456789" for character in text)
    return (digits + text.count(str(ground_truth))) / 2 / max(len(text), 1)


def reward_func(queries: list[str], prompts: list[str], labels: list[str]) -> Any:
    """Return the scores of a batch for OpenRLHF, where each text begins with its prompt."""
    import torch

    answers = (query.removeprefix(prompt) for query, prompt in zip(queries, prompts, strict=True))
    return torch.tensor([compute_score("", answer, label) for answer, label in zip(answers, labels, strict=True)])
