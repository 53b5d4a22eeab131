"""The rows: the pins of one branch of a framework, and the evidence of its environments."""

from collections.abc import Mapping
from typing import Annotated, Literal

from envbuilder.errors import Where
from envbuilder.matrix.model.components import Package
from envbuilder.matrix.model.scalars import INJECTED, Arch, Date, Depth, Level, Line, Name, Number, Prose, Variable
from envbuilder.matrix.model.settings import Setting, Settings, SettingsFile, When
from envbuilder.matrix.record import NOTHING, Record


class Patch(Record):
    """A change of a component's source: one exact line is commented out; a missing line is an error."""

    component: Name
    file: Line
    comment_out: Line
    where: Annotated[Where, INJECTED]


class KnownIssue(Record):
    """A known problem of a row, and its workaround."""

    what: Prose
    source: Line
    when: When | None = None
    # regular expressions of what its users see, case-insensitive; one match is enough
    messages: tuple[Line, ...] = ()
    workaround: Prose | None = None
    patch: Patch | None = None
    # variables of the workaround; with `opt_in` the user sets them
    variables: Mapping[Variable, Setting] = NOTHING
    opt_in: bool = False
    where: Annotated[Where, INJECTED]

    def place_in(self, text: str) -> int | None:
        """Return the first place where a text shows one of the messages."""
        from envbuilder.matrix.patterns import first_place

        return first_place(self.messages, text, self.source, self.where)


class Algorithm(Record):
    """A training algorithm with a published measurement: on which hardware, and its error against a GPU."""

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
    """The pins of one branch with one engine, on the documented hardware."""

    hardware: tuple[Name, ...]
    # the architectures of a hardware that it has wheels for, if not all
    arches: Mapping[Name, tuple[Arch, ...]] = NOTHING
    source: Line
    where: Annotated[Where, INJECTED]


class Branch(SettingsFile):
    title: Line
    date: Date
    # a row that `matrix draft` wrote, and that no person has decided on, is a draft
    status: Literal["known", "draft"] = "known"
    engines: Mapping[Name, EngineRow]
    known_issues: tuple[KnownIssue, ...] = ()
    support: Support = Support()
    framework: Annotated[str, INJECTED]


class Evidence(Record):
    """A record that an environment was resolved, built, trained in or compared, with date and machine."""

    level: Level
    date: Date
    machine: Line
    # the builds of the package index that replaced those of the row
    fallback: Line | None = None
    # the torch that ran, if it was not that of the environment
    torch: Line | None = None
    # how much of the environment ran; for a training run the number of steps, reward and speed
    depth: Literal[Depth, "import"] | None = None
    # what trained the model, if not the default, and on how many devices, if on more than one
    backend: Name | None = None
    devices: int | None = None
    steps: int | None = None
    reward: Line | None = None
    seconds_per_step: Number | None = None
    # for a build: its duration, and the size of the image
    seconds: int | None = None
    size_gb: Number | None = None
    # for a comparison with a GPU: the error of each metric, and the ratio of the throughputs
    error: Line | None = None
    throughput_ratio: Number | None = None
    where: Annotated[Where, INJECTED]


class Failure(Record):
    """The last proof that failed, with its cause."""

    date: Date
    machine: Line
    cause: Line
    # the digest of the row and of the code that proved it: with the same ones it would fail again
    of: Line


class EnvironmentEvidence(Record):
    """The evidence of one environment; `unresolved` is the reason why it has no lock."""

    evidence: tuple[Evidence, ...] = ()
    unresolved: Line | None = None
    failure: Failure | None = None


class EvidenceFile(Record):
    """The evidence of one release, by engine, hardware and architecture."""

    environments: Mapping[Name, EnvironmentEvidence]
