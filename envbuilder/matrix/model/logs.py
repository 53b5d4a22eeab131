"""The training logs of a framework: the names of its metrics, and the limits for comparing two runs."""

from collections.abc import Mapping
from typing import Literal

from envbuilder.matrix.model.scalars import Line, Name, Number
from envbuilder.matrix.record import NOTHING, Record


class Limit(Record):
    """The allowed difference of a metric between two runs; percent refers to the value of the reference run."""

    limit: Number
    unit: Literal["absolute", "percent"] = "absolute"
    # above or below: only a difference in this direction counts
    side: Literal["both", "above", "below"] = "both"
    # the mean of the steps, or the value of the last step
    at: Literal["mean", "last"] = "mean"
    # compared only if both logs have it; without `optional` both must have it
    optional: bool = False


class Gate(Record):
    """Limits on the metrics of a run over a range of its steps."""

    source: Line
    first_step: int
    last_step: int
    limits: Mapping[Name, Limit]


class LogSpec(Record):
    """How to read and compare the logs of a framework."""

    source: Line
    # compared metrics, each with its names in logs; the first name that both logs have is used
    metrics: Mapping[Name, tuple[Line, ...]]
    # words in a log that identify the kind of device
    devices: Mapping[Name, tuple[Line, ...]] = NOTHING
    gates: Mapping[Name, Gate] = NOTHING
