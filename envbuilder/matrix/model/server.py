"""Servers: what their system should be set to, what a container needs of them, what is seen when something is wrong."""

from collections.abc import Mapping
from typing import Annotated

from envbuilder.errors import Where
from envbuilder.matrix.model.scalars import INJECTED, Line, Name, Prose, Severity, Size, Variable
from envbuilder.matrix.model.settings import Setting
from envbuilder.matrix.record import NOTHING, Record


class HostSetting(Record):
    """A value of a file of the system, and why it should be another one."""

    name: Name
    file: Line
    wanted: Line | None = None
    at_most: int | None = None
    because: Prose
    remedy: Line


class VendorRuntime(Record):
    """A runtime of docker that is told the numbers of devices and gives their nodes, and these paths, by itself."""

    name: Name
    variable: Variable
    gives: tuple[Line, ...] = ()
    source: Line


class MultiNode(Record):
    """What a container needs besides, where its job spans several machines."""

    mounts: tuple[Line, ...] = ()
    variables: Mapping[Variable, Setting] = NOTHING
    # variables that name the interface of the host that the machines talk over
    interface: tuple[Variable, ...] = ()


class RunSpec(Record):
    """How a container is started. Variables of the image are not among these."""

    source: Line
    shm_size: Size
    # the node of a device without its number, and the variable that says which of those inside are used
    device: Line | None = None
    visible: Variable | None = None
    device_nodes: tuple[Line, ...] = ()
    mounts: tuple[Line, ...] = ()
    # where some hosts have a path of `mounts`
    elsewhere: Mapping[Line, tuple[Line, ...]] = NOTHING
    network: Name | None = None
    # what the plugin of a cluster calls a device
    resource: Line | None = None
    runtime: VendorRuntime | None = None
    variables: Mapping[Variable, Setting] = NOTHING
    multi_node: MultiNode | None = None


class Host(Record):
    """host.yaml: what holds for every host of NPUs."""

    source: Line
    sources: Mapping[Name, Line] = NOTHING
    settings: tuple[HostSetting, ...] = ()
    run: RunSpec | None = None


class Symptom(Record):
    """Words that people see, what causes them and what helps. Where several match, each is told."""

    code: Name
    severity: Severity = "error"
    # regular expressions, upper and lower case alike; one of them is enough
    patterns: tuple[Line, ...]
    # it means something else where one of these is seen too
    unless: tuple[Line, ...] = ()
    cause: Prose
    remedy: Prose
    source: Line
    # whether the words prove the cause; otherwise it is a suspicion
    certain: bool = True
    where: Annotated[Where, INJECTED]


class Symptoms(Record):
    """symptoms.yaml"""

    symptoms: tuple[Symptom, ...]
