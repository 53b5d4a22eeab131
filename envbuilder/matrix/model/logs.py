"""What a framework writes while it trains: the names of its metrics, and what two runs of it are compared by."""

from collections.abc import Mapping
from typing import Literal

from envbuilder.matrix.model.scalars import Line, Name, Number
from envbuilder.matrix.record import NOTHING, Record


class Limit(Record):
    """How far a metric may be from that of the run it is compared with; percent is of that other run's value."""

    limit: Number
    unit: Literal["absolute", "percent"] = "absolute"
    # where only getting worse is refused
    side: Literal["both", "above", "below"] = "both"
    # what is compared: the mean of the steps, or the value of the last step
    at: Literal["mean", "last"] = "mean"
    # judged where both logs have it; any other has to be there
    optional: bool = False


class Gate(Record):
    """Limits on what becomes of a run, over some of its steps."""

    source: Line
    first_step: int
    last_step: int
    limits: Mapping[Name, Limit]


class LogSpec(Record):
    source: Line
    # what is compared, and what the framework calls it; the first that both logs have is the one
    metrics: Mapping[Name, tuple[Line, ...]]
    # words of a log that tell on what kind of device it ran
    devices: Mapping[Name, tuple[Line, ...]] = NOTHING
    gates: Mapping[Name, Gate] = NOTHING
