"""The rows: what one branch of a framework pins, and what was done with its environments."""

from collections.abc import Mapping
from typing import Annotated, Literal

from envbuilder.errors import Where
from envbuilder.matrix.model.components import Package
from envbuilder.matrix.model.scalars import INJECTED, Date, Depth, Level, Line, Name, Number, Prose, Variable
from envbuilder.matrix.model.settings import Setting, Settings, SettingsFile, When
from envbuilder.matrix.record import NOTHING, Record


class Patch(Record):
    """Comments out one exact line of a component's source, and fails when the line is not there."""

    component: Name
    file: Line
    comment_out: Line
    where: Annotated[Where, INJECTED]


class KnownIssue(Record):
    what: Prose
    source: Line
    when: When | None = None
    workaround: Prose | None = None
    patch: Patch | None = None
    # what the workaround sets; with opt_in it is shown to the user instead of being set
    variables: Mapping[Variable, Setting] = NOTHING
    opt_in: bool = False
    where: Annotated[Where, INJECTED]


class Algorithm(Record):
    """A training algorithm that someone has measured, on what, and how far from a GPU it was."""

    name: Line
    status: Literal["supported", "testing", "to-be-optimized"]
    error_percent: Line | None = None
    measured_on: Mapping[Name, Line] = NOTHING
    devices: tuple[Line, ...] = ()
    source: Line
    note: Prose | None = None


class Support(Record):
    algorithms: tuple[Algorithm, ...] = ()
    unsupported_features: Mapping[Line, Line] = NOTHING
    unsupported_packages: Mapping[Name, Package] = NOTHING


class EngineRow(Settings):
    """The pins of one branch with one engine, on the hardware its document names."""

    hardware: tuple[Name, ...]
    source: Line
    where: Annotated[Where, INJECTED]


class Branch(SettingsFile):
    title: Line
    date: Date
    engines: Mapping[Name, EngineRow]
    known_issues: tuple[KnownIssue, ...] = ()
    support: Support = Support()
    framework: Annotated[str, INJECTED]


class Evidence(Record):
    """Something that was really done with an environment, when and on what kind of machine."""

    level: Level
    date: Date
    machine: Line
    # of a training run: how deep it went, how long it took, and how far it came
    depth: Depth | None = None
    steps: int | None = None
    reward: Line | None = None
    seconds_per_step: Number | None = None
    # of a comparison with a GPU: how far from it each metric was, and how fast against it
    error: Line | None = None
    throughput_ratio: Number | None = None
    where: Annotated[Where, INJECTED]


class EvidenceFile(Record):
    """What was done with one environment; `unresolved` says why there is no lock of it."""

    evidence: tuple[Evidence, ...] = ()
    unresolved: Line | None = None
