"""The smoke run of a framework: what it trains, how it is told to, and what it must reach."""

from collections.abc import Mapping
from typing import Annotated, Literal

from envbuilder.errors import Where
from envbuilder.matrix.model.scalars import INJECTED, Depth, Device, Line, Name, Number, Variable
from envbuilder.matrix.model.settings import When
from envbuilder.matrix.record import NOTHING, Record


class SmokeRunPart(Record):
    """What a run is told on top, where the conditions hold."""

    when: When | None = None
    device: Device | None = None
    depth: Depth | None = None
    # who generates the samples, and which code of that is ours and not upstream's
    rollout: Line | None = None
    ours: Line | None = None
    settings: Mapping[Line, Line] = NOTHING
    variables: Mapping[Variable, Line] = NOTHING
    # variables of the environment that this run must not see
    unset: tuple[Variable, ...] = ()
    where: Annotated[Where, INJECTED]


class NotYet(Record):
    """Where a run cannot be done although the device is there, and why."""

    device: Device
    when: When
    because: Line
    where: Annotated[Where, INJECTED]


class SmokeRun(Record):
    """Values of settings may name the numbers here, `${steps}`, and where things lie: `${folder}`, `${code}`."""

    source: Line
    # the module of the framework that is run, and how it takes its settings: a=b, or --a b
    trainer: Line
    style: Literal["assignment", "option"]
    devices: tuple[Device, ...]
    # as many groups of models stand side by side, each on devices of its own; `${devices_per_group}` are those of one
    groups: int = 1
    steps: int
    prompts_per_step: int
    samples_per_prompt: int
    prompt_tokens: int
    response_tokens: int
    learning_rate: Number
    kl_coefficient: Number
    seed: int
    # the mean reward of the last `window` steps must exceed that of the first by the margin
    window: int
    reward_margin: Number
    minutes: Mapping[Depth, int]
    # words of a log that mean that work was not done on the device
    fallbacks: tuple[Line, ...] = ()
    # what a run is judged by, and what the framework calls it, of which a log may have any
    metrics: Mapping[Name, tuple[Line, ...]]
    settings: Mapping[Line, Line]
    variables: Mapping[Variable, Line] = NOTHING
    parts: tuple[SmokeRunPart, ...]
    not_yet: tuple[NotYet, ...] = ()
    name: Annotated[str, INJECTED]
    where: Annotated[Where, INJECTED]
