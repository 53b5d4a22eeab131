"""Servers: settings of the system, how containers are started, and symptoms of problems."""

from collections.abc import Mapping
from typing import Annotated

from envbuilder.errors import Where
from envbuilder.matrix.model.scalars import INJECTED, Arch, Line, Name, Prose, Severity, Size, Variable
from envbuilder.matrix.model.settings import Setting, Settings
from envbuilder.matrix.record import NOTHING, Record


class HostSetting(Record):
    """The recommended value of a system setting, and the reason."""

    name: Name
    file: Line
    wanted: Line | None = None
    at_most: int | None = None
    because: Prose
    remedy: Line


class VendorRuntime(Record):
    """A docker runtime that takes device numbers, and adds the nodes of these devices and the paths in `gives`."""

    name: Name
    variable: Variable
    gives: tuple[Line, ...] = ()
    source: Line


class MultiNode(Record):
    """Additional settings of a container whose job spans several machines."""

    mounts: tuple[Line, ...] = ()
    variables: Mapping[Variable, Setting] = NOTHING
    # variables for the network interface that connects the machines
    interface: tuple[Variable, ...] = ()


class RunSpec(Record):
    """How a container is started, besides the variables that the image sets."""

    source: Line
    shm_size: Size
    # the node of a device without its number, and the variable that selects the devices to use
    device: Line | None = None
    # the vendor whose toolkit of containers adds devices, nodes and paths by itself
    gpus: Name | None = None
    visible: Variable | None = None
    device_nodes: tuple[Line, ...] = ()
    mounts: tuple[Line, ...] = ()
    # other places of a path of `mounts` on some hosts
    elsewhere: Mapping[Line, tuple[Line, ...]] = NOTHING
    network: Name | None = None
    # the resource name of a device in a cluster
    resource: Line | None = None
    runtime: VendorRuntime | None = None
    variables: Mapping[Variable, Setting] = NOTHING
    multi_node: MultiNode | None = None


class Host(Record):
    """host.yaml: settings for every host with NPUs."""

    source: Line
    sources: Mapping[Name, Line] = NOTHING
    settings: tuple[HostSetting, ...] = ()
    # settings of every image for NPUs, and of those for one architecture
    image: Settings = Settings()
    arches: Mapping[Arch, Settings] = NOTHING
    # a library that every bash preloads, if it exists
    preload: Line | None = None
    run: RunSpec | None = None


class Symptom(Record):
    """An error message that users see, its cause and its remedy. All matching symptoms are reported."""

    code: Name
    severity: Severity = "error"
    # regular expressions, case-insensitive; one match is enough
    patterns: tuple[Line, ...]
    # the symptom does not apply if one of these also matches
    unless: tuple[Line, ...] = ()
    cause: Prose
    remedy: Prose
    source: Line
    # whether the message proves the cause; otherwise it is only likely
    certain: bool = True
    # what to run or to look at, to be certain
    ask: Line | None = None
    where: Annotated[Where, INJECTED]

    def place_in(self, text: str) -> int | None:
        """Return the first place where a text shows the symptom."""
        from envbuilder.matrix.patterns import first_place

        if first_place(self.unless, text, self.code, self.where) is not None:
            return None
        return first_place(self.patterns, text, self.code, self.where)


class Symptoms(Record):
    """symptoms.yaml: the symptoms that `envbuilder diagnose` recognizes."""

    symptoms: tuple[Symptom, ...]
