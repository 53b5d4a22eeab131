"""What a log tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class LoggedStep(NamedTuple):
    """What one line of a log says about one step; a step may have several, as training and validation do."""

    number: int
    metrics: Mapping[str, float]


class Log(NamedTuple):
    """What was read. A baseline has no steps, only a mean of each metric."""

    steps: tuple[LoggedStep, ...] = ()
    means: Mapping[str, float] = {}
    # what else the log says, where it is text
    text: str = ""
    # of the content, so that a copy is known for one
    digest: str = ""
    # how many lines of a metric file are not what the others are
    unread: int = 0
