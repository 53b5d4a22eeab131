"""The smoke run of a framework: what it trains, the settings of the trainer, and the reward it must reach."""

from collections.abc import Mapping
from typing import Annotated, Literal

from envbuilder.errors import Where
from envbuilder.matrix.model.scalars import INJECTED, Depth, Device, Line, Name, Number, Variable
from envbuilder.matrix.model.settings import When
from envbuilder.matrix.record import NOTHING, Record


class SmokeRunPart(Record):
    """Additional settings of a run where the conditions hold."""

    when: When | None = None
    device: Device | None = None
    depth: Depth | None = None
    backend: Name | None = None
    # what generates the samples, and the part of its code that is envbuilder's instead of upstream's
    rollout: Line | None = None
    ours: Line | None = None
    # how the samples are drawn, and whether another device draws the same
    draws: Line | None = None
    # limit of the mean difference between the probabilities of the engine and of the trainer for the same tokens
    probability_limit: Number | None = None
    settings: Mapping[Line, Line] = NOTHING
    variables: Mapping[Variable, Line] = NOTHING
    # variables of the environment that are unset for this run
    unset: tuple[Variable, ...] = ()
    where: Annotated[Where, INJECTED]


class SmokeRun(Record):
    """A smoke run. Values of settings may use its numbers, `${steps}`, and paths: `${folder}`, `${code}`."""

    source: Line
    # the module of the framework to run, and the style of its settings: a=b, or --a b
    trainer: Line
    style: Literal["assignment", "option"]
    # whether it runs within Ray, with the devices as its resources
    ray: bool = True
    devices: tuple[Device, ...]
    # what can train the model, the default first; a run has the parts of one of them
    backends: tuple[Name, ...] = ()
    # the number of groups of models, each with separate devices; `${devices_per_group}` is the number for one group
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
    # words in a log that show that work was not done on the device
    fallbacks: tuple[Line, ...] = ()
    # metrics that decide whether a run passes, each with its possible names in logs
    metrics: Mapping[Name, tuple[Line, ...]]
    settings: Mapping[Line, Line]
    variables: Mapping[Variable, Line] = NOTHING
    parts: tuple[SmokeRunPart, ...]
    name: Annotated[str, INJECTED]
    where: Annotated[Where, INJECTED]
