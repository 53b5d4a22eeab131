"""Hardware, engines and frameworks, and how their components are installed."""

from collections.abc import Mapping
from typing import Annotated, Literal

from envbuilder.errors import Where
from envbuilder.matrix.model.components import LocalBase
from envbuilder.matrix.model.logs import LogSpec
from envbuilder.matrix.model.reads import Read
from envbuilder.matrix.model.scalars import (
    GPU,
    INJECTED,
    Arch,
    Date,
    ImageDigest,
    Line,
    Name,
    Number,
    Prose,
    StepValue,
    Variable,
)
from envbuilder.matrix.model.server import RunSpec
from envbuilder.matrix.model.settings import Settings, SettingsFile, When
from envbuilder.matrix.record import NOTHING, Record


class StepSpec(Record):
    """One step of a layer: the name of a template in templates/steps and the values for it."""

    kind: Name
    with_: Mapping[Name, StepValue] = NOTHING
    # limits the step to one form of the source, or to some environments
    only_from: Literal["git", "sdist"] | None = None
    when: When | None = None
    where: Annotated[Where, INJECTED]


class Product(Record):
    """A file that a source build adds to the installed packages, and a library that it is linked with."""

    file: Line
    links: Line | None = None


class Toolkit(Record):
    """How a source build sets up the vendor's toolkit, without the driver of a device."""

    scripts: tuple[Line, ...]
    # folders of libraries that replace those of the driver, separated by colons
    stubs: Line
    variables: Mapping[Variable, Line] = NOTHING
    where: Annotated[Where, INJECTED]


class LayerSpec(Record):
    """A component that is built from source: steps that make wheels, or that use a kept source tree."""

    title: Line
    component: Name
    steps: tuple[StepSpec, ...]
    # packages for its build, if it needs fewer than `build_packages` of the environment
    build_packages: tuple[Name, ...] = ()
    # packages that its metadata requires, but this build does not
    unmet: tuple[Name, ...] = ()
    # files that prove that it was compiled, and for which device
    products: tuple[Product, ...] = ()
    # steps to run in the environment after the wheels are installed
    then: tuple[StepSpec, ...] = ()
    keep_source: bool = False
    needs: tuple[Name, ...] = ()
    when: When | None = None
    # titles of layers; this one is used only if none of them is
    instead_of: tuple[Line, ...] = ()
    # values such as a build target; the layer is left out if the release lacks one
    defined: tuple[Line, ...] = ()
    where: Annotated[Where, INJECTED]


class Base(Record):
    """The base image of a build. `listed_in` names the component whose releases list the existing tags.

    `digests` has the digests of tags, as far as they are known: whoever owns a tag can give it another image.
    """

    image: Line
    tag: Line
    listed_in: Name | None = None
    digests: Mapping[Line, ImageDigest] = NOTHING
    where: Annotated[Where, INJECTED]


class HardwareProduct(Record):
    """A server or card with the chips of a hardware, as its vendor sells it."""

    title: Line
    # the architectures of its processors; empty if they are not published
    arches: tuple[Arch, ...] = ()
    devices: int | None = None
    source: Line
    note: Prose | None = None
    where: Annotated[Where, INJECTED]


class ToolkitNames(Record):
    """The components that are the toolkit and the driver of a hardware."""

    component: Name
    driver: Name


class Hardware(SettingsFile):
    title: Line
    family: Name
    aliases: tuple[Name, ...] = ()
    # by name; the first of an architecture gives the number of devices, unless a user names another
    products: Mapping[Name, HardwareProduct] = NOTHING
    base: Base
    local_base: LocalBase | None = None
    # operating systems of its base images, by their names in matrix.yaml; the first is the default
    systems: tuple[Name, ...] = ()
    # the middle of the tag of a built image
    image_tag: Line
    # free space that a build needs in the data folder of docker
    disk_gb: int
    arches: Mapping[Arch, Settings]  # the first is the default
    source: Line
    provides: tuple[Name, ...] = ()
    # its toolkit and driver, if not those of NPUs
    toolkit: ToolkitNames | None = None
    # every row has an environment on it, without the layers that need a device
    cpu_only: bool = False
    # the hardware whose chips the stand-in of CANN has in a rehearsal
    stand_in_for: Name | None = None
    devices: int = 0
    # a job uses one device or whole cards
    devices_per_card: int = 1
    memory_gb: int | None = None
    soc: Mapping[Name, Line] = NOTHING
    # how containers are started, if not as on other hosts with NPUs
    run: RunSpec | None = None
    # paths of the host that its containers need besides those of `run`
    mounts: tuple[Line, ...] = ()
    note: Prose | None = None

    @property
    def has_gpus(self) -> bool:
        return GPU in self.provides

    @property
    def has_npus(self) -> bool:
        return not self.cpu_only and not self.has_gpus


class EngineImage(Record):
    """An image of the engine without a framework, which the project of the engine publishes."""

    image: Line
    tag: Line
    source: Line
    when: When | None = None
    where: Annotated[Where, INJECTED]


class UpstreamTag(Record):
    """A published image of the framework, with the versions in it that the project states."""

    tag: Line
    engine: Name
    family: Name
    versions: Mapping[Name, Line]


class UpstreamImages(Record):
    """Every image of a framework that its project publishes."""

    image: Line
    source: Line
    tags: tuple[UpstreamTag, ...]


class UsedModules(Record):
    """Modules that a training run imports."""

    modules: tuple[Line, ...] = ()
    # packages whose modules are imported one by one; the run continues without those that fail
    scanned: tuple[Line, ...] = ()
    when: When | None = None
    # the device without which they cannot be imported
    device: Literal["npu"] | None = None
    # whether a run imports these before all others, which may then find other things
    first: bool = False


class Engine(SettingsFile):
    title: Line
    # its title where it has no plugin
    alone: Line | None = None
    engine: Name
    plugin: Name
    # patterns of the text before its version in its first output, and the variable that makes the plugin treat it as
    # another release
    announces: tuple[Line, ...] = ()
    version_variable: Variable | None = None
    # a file among the installed packages that exists only if the engine was compiled for the CPU; an engine without one
    # needs no compiled code on a CPU
    cpu_product: Line | None = None
    # words in a log that show that the samples are not from the engine's own model
    fallbacks: tuple[Line, ...] = ()
    # MODULE:EXPRESSION, the kind of device that the engine takes
    device_of: Line | None = None
    used: tuple[UsedModules, ...] = ()
    toolkit: Toolkit | None = None
    layers: tuple[LayerSpec, ...]
    images: tuple[EngineImage, ...] = ()
    # how `matrix draft` reads a release, and the reads that decide a component before all others
    reads: tuple[Read, ...] = ()
    authority: Mapping[Name, tuple[Name, ...]] = NOTHING


class MetricNoise(Record):
    """How far correct runs lie apart in a metric, and how a log shows that runs had the same samples."""

    # metrics that are equal in the first step of runs with the same samples, up to this part of their value
    same_at_start: tuple[Line, ...]
    start_tolerance: Number
    # words in a log by which nothing is drawn, so that all runs have the same samples
    nothing_drawn: tuple[Line, ...] = ()
    # measured errors of pairs of correct runs with other samples: the least, the most and the root of their mean square
    least_percent: Number | None = None
    most_percent: Number | None = None
    rms_percent: Number | None = None
    # the number of these runs
    runs: int | None = None
    source: Line


class Noise(Record):
    """How certain a judgement has to be that takes the noise of correct runs into account, in percent."""

    different_confidence: Number
    equal_confidence: Number
    metrics: Mapping[Name, MetricNoise]


class Thresholds(Record):
    """The published limits of the mean absolute error against a GPU, in percent."""

    loss_percent: Number
    reward_percent: Number
    # the number of first steps whose mean is the throughput
    throughput_steps: int | None = None
    # with fewer steps in both logs a comparison shows nothing; ours, as no document has a number
    least_steps: int = 10
    source: Line
    # without it, only the published limits judge
    noise: Noise | None = None


class History(Record):
    """The versions of an older document, for its readers."""

    date: Date | None = None
    source: Line
    documented: Mapping[Name, Line]
    note: Prose | None = None


class Framework(SettingsFile):
    title: Line
    component: Name
    used: tuple[UsedModules, ...] = ()
    layers: tuple[LayerSpec, ...]
    upstream: UpstreamImages | None = None
    # the limits that its documents publish for a comparison with GPUs
    thresholds: Thresholds | None = None
    logs: LogSpec | None = None
    history: tuple[History, ...] = ()
    # how `matrix draft` reads a release, and the reads that decide a component before all others
    reads: tuple[Read, ...] = ()
    authority: Mapping[Name, tuple[Name, ...]] = NOTHING
