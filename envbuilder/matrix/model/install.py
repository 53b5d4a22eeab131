"""How things are installed, on which hardware, by which engine and framework."""

from collections.abc import Mapping
from typing import Annotated, Literal

from envbuilder.errors import Where
from envbuilder.matrix.model.logs import LogSpec
from envbuilder.matrix.model.scalars import INJECTED, Arch, Date, Line, Name, Number, Prose, StepValue, Version
from envbuilder.matrix.model.server import RunSpec
from envbuilder.matrix.model.settings import Settings, SettingsFile, When
from envbuilder.matrix.record import NOTHING, Record


class StepSpec(Record):
    """One step of a layer: the name of a template under templates/steps, and what it is filled with."""

    kind: Name
    with_: Mapping[Name, StepValue] = NOTHING
    # a step that makes sense for one form of the source only, or for some environments
    only_from: Literal["git", "sdist"] | None = None
    when: When | None = None
    where: Annotated[Where, INJECTED]


class Product(Record):
    """A file that a source build leaves among the installed packages, and a library that it is linked with."""

    file: Line
    links: Line | None = None


class LayerSpec(Record):
    """A component that is built from source: steps that make wheels, or work on a source tree that is kept."""

    title: Line
    component: Name
    steps: tuple[StepSpec, ...]
    # what its build needs, where that is less than `build_packages` of the environment
    build_packages: tuple[Name, ...] = ()
    # what its metadata requires, although this build of it does not
    unmet: tuple[Name, ...] = ()
    # proof that it was compiled, and for what
    products: tuple[Product, ...] = ()
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
    # a job takes one device, or whole cards
    devices_per_card: int = 1
    memory_gb: int | None = None
    soc: Mapping[Name, Line] = NOTHING
    # how containers are started, where that is not as on every host of NPUs
    run: RunSpec | None = None
    note: Prose | None = None


class UpstreamImage(Record):
    """An image that somebody else publishes of the same row."""

    image: Line
    tag: Line
    source: Line
    when: When | None = None
    where: Annotated[Where, INJECTED]


class Engine(SettingsFile):
    title: Line
    engine: Name
    plugin: Name
    # among the installed packages, a file that is there only where the engine was compiled for the CPU
    cpu_product: Line | None = None
    layers: tuple[LayerSpec, ...]
    upstream: tuple[UpstreamImage, ...] = ()


class Thresholds(Record):
    """The published limits of the mean absolute error against a GPU, in percent."""

    loss_percent: Number
    reward_percent: Number
    # the throughput is the mean of that of the first steps
    throughput_steps: int | None = None
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
    upstream: tuple[UpstreamImage, ...] = ()
    thresholds: Thresholds
    logs: LogSpec | None = None
    history: tuple[History, ...] = ()
