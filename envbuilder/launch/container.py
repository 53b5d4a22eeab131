"""Determines what a container needs from its hardware and its options, without reading anything from a machine."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import NamedTuple

from envbuilder.environment import Environment
from envbuilder.errors import HostError, UsageError
from envbuilder.language import tr
from envbuilder.launch.cards import check_number, part_of_a_card, possible_devices
from envbuilder.matrix.model import Hardware, RunSpec

_NUMBERS = re.compile(r"\d{1,3}(-\d{1,3})?(,\d{1,3}(-\d{1,3})?)*")


class Mount(NamedTuple):
    source: str
    target: str
    read_only: bool = True

    @property
    def is_named(self) -> bool:
        """Whether the source is a named volume of the engine or the cluster, and not a path of the host."""
        return "/" not in self.source

    def covers(self, path: str) -> bool:
        """Return whether a path of the container is inside the mount."""
        return PurePosixPath(path).is_relative_to(self.target)


class ContainerOptions(NamedTuple):
    """Options of a container whose effect depends on the hardware."""

    # the numbers of the devices, as text, or how many of them: on this host those that no container holds
    devices: str | None = None
    npus: int | None = None
    multi_node: bool = False
    # whether another tool built the image, so that it lacks the variables of the row
    foreign: bool = False
    network: str | None = None


class Site(NamedTuple):
    """Facts about the host that a container will run on; the defaults are for a host that cannot be examined."""

    # whether docker has the vendor's runtime
    runtime: bool = False
    # the path of the host for each path of the container
    paths: Mapping[str, str] = {}
    # the network interface to other machines
    interface: str | None = None


@dataclass(frozen=True)
class Needs:
    """What the hardware requires. A variable of None takes its value from the shell that starts the container."""

    devices: tuple[str, ...] = ()
    mounts: tuple[Mount, ...] = ()
    variables: Mapping[str, str | None] = field(default_factory=dict)
    runtime: str | None = None
    # the vendor of the GPUs, and which of them: `all`, a number of them, or `device=0,1`
    gpus: tuple[str, str] | None = None
    shm_size: str | None = None
    network: str | None = None
    # in a cluster: the device plugin's name for a device, and how many of them
    resource: str | None = None
    count: int = 0


@dataclass(frozen=True)
class Launch:
    """A container to start, described independently of the form it is written in."""

    image: str
    arch: str
    needs: Needs
    # the name of the service or pod; `name` is that of the container, if the user asks for one
    title: str
    name: str | None = None
    command: tuple[str, ...] = ()
    volumes: tuple[Mount, ...] = ()
    keep: bool = False
    detach: bool = False
    stdin: bool = False
    terminal: bool = False
    # the numbers of the user and the group, if not those of the image
    user: str | None = None


def needs_of(environment: Environment, numbers: Sequence[int], site: Site, options: ContainerOptions) -> Needs:
    """Return what a container needs on a host with known facts, to use these devices."""
    run = environment.run
    variables = _variables(environment, options)
    if run is None:
        return Needs(variables=variables, network=options.network)
    if options.multi_node and run.multi_node and site.interface:
        variables |= dict.fromkeys(run.multi_node.interface, site.interface)
    mounts = mounts_of(run, options.multi_node)
    nodes = (f"{run.device}{number}" for number in (numbers if run.device else ()))
    devices = (*nodes, *run.device_nodes)
    runtime = run.runtime if site.runtime else None
    if runtime is not None:
        variables[runtime.variable] = listed(numbers)
        mounts = tuple(path for path in mounts if path not in runtime.gives)
        devices = ()
    if run.visible and numbers:
        # a container numbers its devices from 0, whatever their numbers on the host are
        variables[run.visible] = listed(range(len(numbers)))
    return Needs(
        devices=devices,
        mounts=tuple(Mount(site.paths.get(path, path), path) for path in mounts),
        variables=variables,
        runtime=runtime.name if runtime else None,
        gpus=(run.gpus, _gpus(options)) if run.gpus else None,
        shm_size=run.shm_size,
        network=options.network or run.network,
    )


def _gpus(options: ContainerOptions) -> str:
    """Return the GPUs of a container, as docker names them."""
    if options.devices is not None:
        return f"device={listed(parsed(options.devices))}"
    return str(options.npus or "all")


def needs_elsewhere(environment: Environment, options: ContainerOptions) -> Needs:
    """Return what a container needs on a host that has the standard setup of its hardware."""
    return needs_of(environment, _chosen_devices(environment.hardware, options), Site(), options)


def needs_in_cluster(environment: Environment, options: ContainerOptions) -> Needs:
    """Return what a container needs in a cluster, where a plugin adds devices and driver, and pods have a network."""
    hardware, run = environment.hardware, environment.run
    return Needs(
        variables=_variables(environment, options),
        shm_size=run.shm_size if run else None,
        network=options.network or (run.network if run and options.multi_node else None),
        resource=run.resource if run else None,
        count=len(_chosen_devices(hardware, options)),
    )


def _chosen_devices(hardware: Hardware, options: ContainerOptions) -> tuple[int, ...]:
    if not hardware.devices and (options.devices or options.npus or options.multi_node):
        hint = tr("leave out --npus, --devices and --multi-node, or choose another --hw")
        raise UsageError(tr("{hardware} has no NPUs", hardware=hardware.title), hint=hint)
    wanted = options.devices
    if options.npus is not None:
        check_number(hardware, options.npus)
        wanted = first_devices(options.npus)
    return numbers_of(hardware, range(hardware.devices), wanted, hardware.title)


def interface_note(run: RunSpec | None, interface: str | None) -> str:
    """Return a note on the network interface to other machines: a wrong one only shows as a late time-out."""
    variables = run.multi_node.interface if run and run.multi_node else ()
    fields = {"named": " ".join(f"--env {name}=..." for name in variables), "interface": interface}
    if interface is None:
        return tr("the network interface to other machines is not known; set it with {named}", **fields)
    return tr("other machines are reached over {interface}; choose another interface with {named}", **fields)


def mounts_of(run: RunSpec, multi_node: bool) -> tuple[str, ...]:
    more = run.multi_node if multi_node else None
    return (*run.mounts, *(more.mounts if more else ()))


def _variables(environment: Environment, options: ContainerOptions) -> dict[str, str | None]:
    """Return the variables of the hardware that the row does not set, and those of the row if the image lacks them."""
    run, row = environment.run, environment.variables
    settings = {**run.variables} if run else {}
    if run and run.multi_node and options.multi_node:
        settings |= run.multi_node.variables
    found: dict[str, str | None] = {name: item.value for name, item in settings.items() if name not in row}
    return found | {name: item.value for name, item in row.items()} if options.foreign else found


def numbers_of(hardware: Hardware, present: Sequence[int], wanted: str | None, owner: str) -> tuple[int, ...]:
    """Return the chosen devices, by default all that the owner has; refuse absent devices and parts of a card."""
    numbers = tuple(present) if wanted is None else parsed(wanted)
    absent = [number for number in numbers if number not in present]
    if absent:
        raise HostError(
            tr("{owner} has no NPU {numbers}", owner=owner, numbers=listed(absent)),
            hint=tr("it has {numbers}", numbers=listed(present)),
        )
    possible = possible_devices(hardware, numbers, present)
    if numbers != possible:
        raise part_of_a_card(hardware, f"NPU {listed(numbers)}", f"--devices {listed(possible)}" if possible else None)
    return numbers


def parsed(text: str) -> tuple[int, ...]:
    parts = [part.partition("-") for part in text.split(",")] if _NUMBERS.fullmatch(text) else []
    ranges = [range(int(first), int(last or first) + 1) for first, _, last in parts]
    # 3-1 is an empty range
    if not ranges or not all(ranges):
        message = tr("--devices takes numbers such as 0,1 or 0-3, not '{text}'", text=text)
        raise UsageError(message, hint=tr("--npus takes a number of NPUs"))
    return tuple(sorted({number for part in ranges for number in part}))


def first_devices(count: int, after: int = 0) -> str:
    return f"{after}-{after + count - 1}"


def listed(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))
