"""The content of a training log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class LoggedStep(NamedTuple):
    """The metrics of one step in one line of a log; a step may have several lines, as for training and validation."""

    number: int
    metrics: Mapping[str, float]


class Log(NamedTuple):
    """A training log. A baseline has no steps, only a mean of each metric."""

    steps: tuple[LoggedStep, ...] = ()
    means: Mapping[str, float] = {}
    # the whole log, if it is text
    text: str = ""
    # SHA-256 of the content, to recognize a copy
    digest: str = ""
    # how many lines of a JSONL file are not JSON
    unread: int = 0
