"""What this host has of what a container needs; what it lacks is named, with the way out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envbuilder.doctor.fit import judge
from envbuilder.doctor.machine import Machine
from envbuilder.environment import Environment
from envbuilder.errors import HostError
from envbuilder.launch.cards import possible_devices
from envbuilder.launch.container import (
    ContainerOptions,
    Needs,
    Site,
    interface_note,
    listed,
    mounts_of,
    needs_of,
    numbers_of,
)
from envbuilder.matrix.model import Hardware, RunSpec

_ROUTES = "/proc/net/route"
_EVERYWHERE = "00000000"


def misfit(environment: Environment, machine: Machine) -> str | None:
    """What must change before an environment runs on a machine; None where it does."""
    return "; ".join(judge(environment, machine).changes) or None


def needs_here(
    environment: Environment, machine: Machine, options: ContainerOptions, *, free: bool = True
) -> tuple[Needs, tuple[str, ...]]:
    """What a container needs of this host, which has it, and what to know of that. `free`: it is about to start."""
    fit = judge(environment, machine)
    if not fit.fits:
        raise HostError(
            f"{environment.id} does not run on this host: {'; '.join(fit.changes)}",
            hint="envbuilder doctor tells what does; --print writes it for another host",
        )
    hardware = environment.hardware
    asked = (free_devices(hardware, machine, options.free) if options.free else None) or options.npus
    numbers = numbers_of(hardware, machine.cards, asked, "this host")
    site = site_of(environment, machine, numbers, options)
    if free:
        refuse_held(machine, numbers)
    notes = [*fit.notes, *busy(hardware, machine, numbers)]
    notes += [f"the container {name} is privileged, and may use any NPU" for name in machine.docker.privileged]
    if options.multi_node:
        notes.append(interface_note(environment.run, site.interface))
    return needs_of(environment, numbers, site, options), tuple(notes)


def site_of(environment: Environment, machine: Machine, numbers: Sequence[int], options: ContainerOptions) -> Site:
    """Where everything lies on this host."""
    run = environment.run
    if run is None:
        return Site()
    runtime = run.runtime if run.runtime and run.runtime.name in machine.docker.runtimes else None
    nodes = [f"{run.device}{number}" for number in numbers]
    paths = list(mounts_of(run, options.multi_node))
    if runtime is None:
        nodes += run.device_nodes
    else:
        paths = [path for path in paths if path not in runtime.gives]
    places = {path: place for path in paths if (place := _place(run, machine, path)) is not None}
    missing = [node for node in nodes if not machine.file(node).exists()]
    missing += [path for path in paths if path not in places]
    if missing:
        raise HostError(
            f"this host has no {', no '.join(missing)}",
            hint="they come with the driver of the NPUs: install it, or load it; envbuilder doctor looks closer",
        )
    # of another network nobody knows the interfaces
    own_network = options.multi_node and options.network in {None, run.network}
    return Site(runtime is not None, places, interface_of(machine) if own_network else None)


def _place(run: RunSpec, machine: Machine, path: str) -> str | None:
    known = (path, *run.elsewhere.get(path, ()))
    return next((place for place in known if machine.file(place).exists()), None)


def interface_of(machine: Machine) -> str | None:
    """That of the default route."""
    for line in machine.read(_ROUTES).splitlines()[1:]:
        name, destination, *_ = line.split()
        if destination == _EVERYWHERE:
            return name
    return None


def free_devices(hardware: Hardware, machine: Machine, count: int) -> str | None:
    """So many that no container was given, on whole cards where it is more than one; None where they are too few."""
    free = [number for number in machine.cards if number not in _held(machine)]
    found = (free if count == 1 else possible_devices(hardware, free, free))[:count]
    return listed(found) if len(found) == count else None


def _held(machine: Machine) -> dict[int, str]:
    return {number: name for name, cards in machine.docker.holders.items() for number in cards}


def refuse_held(machine: Machine, numbers: Sequence[int]) -> None:
    """A device of another container: both would fail, and late."""
    held = _held(machine)
    taken = {number: held[number] for number in numbers if number in held}
    if not taken:
        return
    free = listed([number for number in machine.cards if number not in held])
    told = ", ".join(f"NPU {number} is given to the container {name}" for number, name in sorted(taken.items()))
    stop = f"docker stop {' '.join(dict.fromkeys(taken.values()))}"
    raise HostError(told, hint=f"--npus {free}, or {stop}" if free else stop)


def busy(hardware: Hardware, machine: Machine, numbers: Sequence[int]) -> Iterator[str]:
    """Processes on the devices, of the host or of containers that were given all of them: it may still work."""
    known = {(item.npu, item.chip): item.phy_id for item in machine.npus.devices}
    for process in machine.npus.processes:
        number = known.get((process.npu, process.chip))
        if number is None:
            number = process.npu * hardware.devices_per_card + process.chip
        if number in numbers:
            yield f"NPU {number} is used by {process.name} (process {process.pid})"
