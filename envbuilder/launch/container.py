"""What a container needs: of the hardware, and of whoever starts it. Nothing here looks at a machine."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import NamedTuple

from envbuilder.environment import Environment
from envbuilder.errors import HostError, UsageError
from envbuilder.launch.cards import part_of_a_card, possible_devices
from envbuilder.matrix.model import Hardware, RunSpec

_NUMBERS = re.compile(r"\d{1,3}(-\d{1,3})?(,\d{1,3}(-\d{1,3})?)*")


class Mount(NamedTuple):
    source: str
    target: str
    read_only: bool = True

    @property
    def is_named(self) -> bool:
        """A volume that the engine, or the cluster, keeps under a name; everything else is a path of the host."""
        return "/" not in self.source

    def covers(self, path: str) -> bool:
        """Whether a path of the container lies in it."""
        return PurePosixPath(path).is_relative_to(self.target)


class ContainerOptions(NamedTuple):
    """What somebody asks for that the hardware has a say in."""

    # which devices, as text; all where it is None
    npus: str | None = None
    multi_node: bool = False
    # whether the image lacks the variables of the row, which ours have in them
    foreign: bool = False
    network: str | None = None
    # so many that nobody has, where the host can be asked and has as many; otherwise `npus`
    free: int | None = None


class Site(NamedTuple):
    """What is known of the host that it will run on; of another one, nothing."""

    # whether the vendor's runtime of docker is there
    runtime: bool = False
    # where paths lie that are not at their usual place
    paths: Mapping[str, str] = {}
    # the network interface that other machines are reached by
    interface: str | None = None


@dataclass(frozen=True)
class Needs:
    """What a hardware asks for. A variable without a value has that of whoever starts the container."""

    devices: tuple[str, ...] = ()
    mounts: tuple[Mount, ...] = ()
    variables: Mapping[str, str | None] = field(default_factory=dict)
    runtime: str | None = None
    shm_size: str | None = None
    network: str | None = None
    # in a cluster: what its plugin calls a device, and how many of them
    resource: str | None = None
    count: int = 0


@dataclass(frozen=True)
class Launch:
    """A container, in words that every form of it can be written from."""

    image: str
    arch: str
    needs: Needs
    # of a service or a pod; a container has it only where somebody asked for one
    title: str
    name: str | None = None
    command: tuple[str, ...] = ()
    volumes: tuple[Mount, ...] = ()
    keep: bool = False
    detach: bool = False
    stdin: bool = False
    terminal: bool = False


def needs_of(environment: Environment, numbers: Sequence[int], site: Site, options: ContainerOptions) -> Needs:
    """On a host that is known, with these devices of it."""
    run = environment.run
    variables = _variables(environment, options)
    if run is None:
        return Needs(variables=variables, network=options.network)
    if options.multi_node and run.multi_node and site.interface:
        variables |= dict.fromkeys(run.multi_node.interface, site.interface)
    mounts = mounts_of(run, options.multi_node)
    devices = (*(f"{run.device}{number}" for number in numbers), *run.device_nodes)
    runtime = run.runtime if site.runtime else None
    if runtime is not None:
        variables[runtime.variable] = listed(numbers)
        mounts = tuple(path for path in mounts if path not in runtime.gives)
        devices = ()
    if run.visible and numbers:
        # inside they are counted from 0, whichever they are on the host
        variables[run.visible] = listed(range(len(numbers)))
    return Needs(
        devices=devices,
        mounts=tuple(Mount(site.paths.get(path, path), path) for path in mounts),
        variables=variables,
        runtime=runtime.name if runtime else None,
        shm_size=run.shm_size,
        network=options.network or run.network,
    )


def needs_elsewhere(environment: Environment, options: ContainerOptions) -> Needs:
    """On a host that is as its hardware should be."""
    return needs_of(environment, _all_or_asked(environment.hardware, options), Site(), options)


def needs_in_cluster(environment: Environment, options: ContainerOptions) -> Needs:
    """Where a plugin chooses the devices and gives what goes with them, and pods have a network already."""
    hardware, run = environment.hardware, environment.run
    return Needs(
        variables=_variables(environment, options),
        shm_size=run.shm_size if run else None,
        network=options.network or (run.network if run and options.multi_node else None),
        resource=run.resource if run else None,
        count=len(_all_or_asked(hardware, options)),
    )


def _all_or_asked(hardware: Hardware, options: ContainerOptions) -> tuple[int, ...]:
    if not hardware.devices and (options.npus or options.multi_node):
        raise UsageError(f"{hardware.title} has no NPUs", hint="leave --npus and --multi-node out, or another --hw")
    return numbers_of(hardware, range(hardware.devices), options.npus, hardware.title)


def interface_note(run: RunSpec | None, interface: str | None) -> str:
    """Nobody can know it for sure, and a wrong one is a time-out half an hour later."""
    variables = run.multi_node.interface if run and run.multi_node else ()
    named = " ".join(f"--env {name}=..." for name in variables)
    if interface is None:
        return f"the interface that other machines are reached over is not known here: {named}"
    return f"other machines are reached over {interface}; over another one: {named}"


def mounts_of(run: RunSpec, multi_node: bool) -> tuple[str, ...]:
    more = run.multi_node if multi_node else None
    return (*run.mounts, *(more.mounts if more else ()))


def _variables(environment: Environment, options: ContainerOptions) -> dict[str, str | None]:
    """Of the hardware where the row says nothing, and those of the row where the image cannot have them."""
    run, row = environment.run, environment.variables
    settings = {**run.variables} if run else {}
    if run and run.multi_node and options.multi_node:
        settings |= run.multi_node.variables
    found: dict[str, str | None] = {name: item.value for name, item in settings.items() if name not in row}
    return found | {name: item.value for name, item in row.items()} if options.foreign else found


def numbers_of(hardware: Hardware, there: Sequence[int], asked: str | None, owner: str) -> tuple[int, ...]:
    """The devices that are meant, which its owner has: all where nobody asked. One, or whole cards."""
    numbers = tuple(there) if asked is None else _parsed(asked)
    absent = [number for number in numbers if number not in there]
    if absent:
        raise HostError(f"{owner} has no NPU {listed(absent)}", hint=f"it has {listed(there)}")
    possible = possible_devices(hardware, numbers, there)
    if numbers != possible:
        raise part_of_a_card(hardware, f"NPU {listed(numbers)}", listed(possible))
    return numbers


def _parsed(text: str) -> tuple[int, ...]:
    if _NUMBERS.fullmatch(text) is None:
        raise UsageError(f"--npus takes numbers such as 0,1 or 0-3, not '{text}'")
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return tuple(sorted(found))


def listed(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))
