"""What the matrices say: one class per kind of YAML file, and the parts they are made of.

The classes are the schema. `matrix.shape` reads their fields to decode YAML strictly and to write the JSON
Schema, so a new key is one line here. Annotations stay objects (no `from __future__`), as evaluating text takes
longer than the rest of the import. A trailing underscore (`with_`) is Python's business, not the key's.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple, TypeAlias

from envbuilder.errors import Where
from envbuilder.record import NOTHING, Record


class Text(NamedTuple):
    """What a scalar may hold. Nothing here admits a control character, so no value can start a new line."""

    pattern: str
    what: str


Name: TypeAlias = Annotated[str, Text(r"[a-z0-9][a-z0-9._-]*", "a lower-case name")]
Version: TypeAlias = Annotated[str, Text(r"[A-Za-z0-9][A-Za-z0-9._+-]*", "a version")]
Family: TypeAlias = Annotated[str, Text(r"[A-Za-z0-9][A-Za-z0-9._+-]*", "a version, or a family such as 25.2.X")]
_CLAUSE = r"\s*(==|!=|~=|<=|>=|<|>)\s*[0-9A-Za-z][0-9A-Za-z.+_-]*(\.\*)?\s*"
Specifier: TypeAlias = Annotated[str, Text(rf"{_CLAUSE}(,{_CLAUSE})*", "a version condition such as '>=1.2,<2'")]
Commit: TypeAlias = Annotated[str, Text(r"[0-9a-f]{40}", "a full commit: 40 hexadecimal digits")]
Date: TypeAlias = Annotated[str, Text(r"\d{4}-\d{2}-\d{2}", "a date: YYYY-MM-DD")]
Url: TypeAlias = Annotated[str, Text(r"https?://[A-Za-z0-9][A-Za-z0-9._~:/?#@%&=+-]*", "an http(s) address")]
Variable: TypeAlias = Annotated[str, Text(r"[A-Za-z_][A-Za-z0-9_]*", "a name of an environment variable")]
Requirement: TypeAlias = Annotated[
    str,
    Text(
        r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._, -]+\])?[^\x00-\x1f\x7f-\x9f\u2028\u2029]*",
        "a requirement such as 'ray>=2.41'",
    ),
]
Line: TypeAlias = Annotated[
    str, Text(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]*", "one line of text without control characters")
]
# Prose is for people: it reaches a terminal or a comment, never a command.
Prose: TypeAlias = str
StepValue: TypeAlias = Line | tuple[Line, ...] | Mapping[Variable, Line]

Arch: TypeAlias = Literal["aarch64", "x86_64"]
Severity: TypeAlias = Literal["error", "warning", "info"]
Level: TypeAlias = Literal["resolved", "built", "smoke-cpu", "smoke-npu"]


# marks a field that the loader fills in from the path or place of a file
INJECTED = "injected"


class Pin(Record):
    """One chosen version. `documented` is what the source says where that differs, `because` is why."""

    version: Version
    source: Line
    documented: Line | None = None
    because: Prose | None = None
    where: Annotated[Where, INJECTED]


class Setting(Record):
    """A variable of the running environment."""

    value: Line
    source: Line
    because: Prose | None = None
    where: Annotated[Where, INJECTED]


class Append(Record):
    """A list that adds to the one of the layer below instead of replacing it."""

    append: tuple[Line, ...]
    where: Annotated[Where, INJECTED]


Items: TypeAlias = tuple[Line, ...] | Append
_NOTHING_ADDED = Append(append=(), where=Where(""))


class Settings(Record):
    """What every layer of the cascade may say."""

    pins: Mapping[Name, Pin] = NOTHING
    variables: Mapping[Variable, Setting] = NOTHING
    system_packages: Items = _NOTHING_ADDED
    # where a package comes from, when not from the user's own index
    indexes: Mapping[Name, Url] = NOTHING
    requirements: Items = _NOTHING_ADDED
    # the part of the lock that source builds use
    build_packages: Items = _NOTHING_ADDED
    remove: Items = _NOTHING_ADDED
    # pins that hold against whatever other packages require of them
    force: Items = _NOTHING_ADDED
    # the build of a wheel that this layer needs: torch==2.5.1 becomes torch==2.5.1+cpu
    local_versions: Mapping[Name, Name] = NOTHING
    # the day whose package index the lock sees, and packages that may be newer than it
    exclude_newer: Date | None = None
    newer_packages: Mapping[Name, Date] = NOTHING


class When(Record):
    """Conditions over the dimensions of an environment; all that are given must hold."""

    framework: tuple[Name, ...] = ()
    branch: tuple[Name, ...] = ()
    engine: tuple[Name, ...] = ()
    hardware: tuple[Name, ...] = ()
    family: tuple[Name, ...] = ()
    arch: tuple[Arch, ...] = ()
    pins: Mapping[Name, Specifier] = NOTHING
    where: Annotated[Where, INJECTED]


class Override(Settings):
    when: When
    where: Annotated[Where, INJECTED]


class SettingsFile(Settings):
    """A file that takes part in the cascade. `sources` gives names to sources that its values share."""

    sources: Mapping[Name, Line] = NOTHING
    overrides: tuple[Override, ...] = ()
    name: Annotated[str, INJECTED]
    where: Annotated[Where, INJECTED]


# --- the known world -------------------------------------------------------------------------------------


class Release(Record):
    """One release of a component and what it goes with, in two levels: paired, and stated to be compatible."""

    version: Version
    date: Date | None = None
    commit: Commit | None = None
    python: Specifier | None = None
    # conditions on what is not a Python package: the vendor's toolkit, the driver
    needs: Mapping[Name, Specifier] = NOTHING
    requires: tuple[Requirement, ...] = ()
    build_requires: tuple[Requirement, ...] = ()
    # what the published wheel asks for and a build for this field does not: its conflicts are expected
    metadata_requires: tuple[Requirement, ...] = ()
    paired: Mapping[Name, tuple[Family, ...]] = NOTHING
    compatible: Mapping[Name, tuple[Family, ...]] = NOTHING
    excluded: Mapping[Name, tuple[Family, ...]] = NOTHING
    images: tuple[Line, ...] = ()
    build: Mapping[Name, Line] = NOTHING
    status: Literal["known", "candidate"] = "known"
    sources: tuple[Line, ...] = ()
    note: Prose | None = None
    where: Annotated[Where, INJECTED]


class Sdist(Record):
    """A source archive on the package index: the declared alternative to the repository."""

    # the folder of the repository that the archive holds
    holds: Line = "."
    # whether its metadata is that of the CUDA build, so that installers complain about it
    foreign_metadata: bool = False


class Component(Record):
    """Everything known about one piece of software. `complete` means that a release not listed does not exist."""

    title: Line
    kind: Literal["wheel", "git", "vendor"]
    source: Line
    distribution: Name | None = None
    # whether releases of the same name on the package index are releases of this
    on_index: bool = True
    # its setup.py tags every wheel for one platform, so that `pip check` complains on the others
    wrong_platform_tag: bool = False
    # how its source archive on the package index differs from the repository, where it has one
    sdist: Sdist | None = None
    repository: Url | None = None
    # a large wheel, installed in a layer of its own
    heavy: bool = False
    # shares its files with another package, so it is installed once more after everything else
    last: bool = False
    complete: bool = True
    build: Mapping[Name, Line] = NOTHING
    releases: tuple[Release, ...] = ()
    name: Annotated[str, INJECTED]
    where: Annotated[Where, INJECTED]


class ChipFamily(Record):
    title: Line
    supported: bool = True
    chips: tuple[Line, ...] = ()
    soc_names: tuple[Line, ...] = ()
    note: Prose | None = None
    where: Annotated[Where, INJECTED]


class Chips(Record):
    """chips.yaml: the chip families, what npu-smi calls their chips, and the SOC names compilers take."""

    source: Line
    families: Mapping[Name, ChipFamily]


class Tool(Record):
    version: Version
    source: Line


class Defaults(Record):
    framework: Name
    engine: Name
    hardware: Name


class Package(Record):
    """A distribution that must never be installed under this name."""

    reason: Prose
    source: Line
    where: Annotated[Where, INJECTED]


class Root(Record):
    """matrix.yaml: what holds for every environment. A folder that has this file is a whole matrix."""

    defaults: Defaults
    tools: Mapping[Name, Tool]
    refused_packages: Mapping[Name, Package] = NOTHING


# --- how things are installed ----------------------------------------------------------------------------


class StepSpec(Record):
    """One step of a layer: the name of a template under templates/steps, and what it is filled with."""

    kind: Name
    with_: Mapping[Name, StepValue] = NOTHING
    # a step that makes sense for one form of the source only, or for some environments
    only_from: Literal["git", "sdist"] | None = None
    when: When | None = None
    where: Annotated[Where, INJECTED]


class LayerSpec(Record):
    """A component that is built from source: steps that make wheels, or work on a source tree that is kept."""

    title: Line
    component: Name
    steps: tuple[StepSpec, ...]
    # what its build needs, where that is less than `build_packages` of the environment
    build_packages: tuple[Name, ...] = ()
    # what its metadata requires, although this build of it does not
    unmet: tuple[Name, ...] = ()
    # what the environment does once the wheels are installed
    then: tuple[StepSpec, ...] = ()
    keep_source: bool = False
    needs: tuple[Name, ...] = ()
    when: When | None = None
    # for where no layer before it makes this component
    fallback: bool = False
    # values that a release may lack, such as a build target; the layer is left out where it does
    defined: tuple[Line, ...] = ()
    where: Annotated[Where, INJECTED]


class Base(Record):
    """The image a build starts from. `listed_in` names the component whose releases list the tags that exist."""

    image: Line
    tag: Line
    listed_in: Name | None = None
    where: Annotated[Where, INJECTED]


class LocalBase(Record):
    """A base image that can be made here from a distribution's packages."""

    suite: Name
    python: Version
    packages: tuple[Name, ...]


class Hardware(SettingsFile):
    title: Line
    family: Name
    base: Base
    local_base: LocalBase | None = None
    # the middle of the tag of a built image
    image_tag: Line
    # what a build needs at the docker root
    disk_gb: int
    arches: Mapping[Arch, Settings]  # the first is the default
    source: Line
    provides: tuple[Name, ...] = ()
    # a rehearsal takes part in every row, leaving out what it does not provide
    rehearsal: bool = False
    devices: int = 0
    memory_gb: int | None = None
    soc: Mapping[Name, Line] = NOTHING
    device_nodes: tuple[Line, ...] = ()
    mounts: tuple[Line, ...] = ()
    note: Prose | None = None


class Engine(SettingsFile):
    title: Line
    engine: Name
    plugin: Name
    layers: tuple[LayerSpec, ...]


class Thresholds(Record):
    """The published limits of the mean absolute error against a GPU, in percent."""

    loss_percent: Line
    reward_percent: Line
    source: Line


class History(Record):
    """What an older document said, kept so that a reader of it finds it."""

    date: Date | None = None
    source: Line
    documented: Mapping[Name, Line]
    note: Prose | None = None


class Framework(SettingsFile):
    title: Line
    component: Name
    layers: tuple[LayerSpec, ...]
    thresholds: Thresholds
    history: tuple[History, ...] = ()


# --- the rows --------------------------------------------------------------------------------------------


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
    where: Annotated[Where, INJECTED]


class EvidenceFile(Record):
    """What was done with one environment; `unresolved` says why there is no lock of it."""

    evidence: tuple[Evidence, ...] = ()
    unresolved: Line | None = None
