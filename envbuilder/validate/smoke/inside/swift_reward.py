"""The reward of the smoke run as a plugin of ms-swift, which finds rewards by their names in its own table."""

from __future__ import annotations

from typing import Any

from reward import compute_score
from swift.rewards import ORM, orms


class Smoke(ORM):
    def __call__(self, completions: list[str], answer: list[str], **_: Any) -> list[float]:
        return [compute_score("", text, right) for text, right in zip(completions, answer, strict=True)]


orms["smoke"] = Smoke
