"""Finds on this host what a container needs, and reports what is missing with a remedy."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from envbuilder.docker.which import is_without_root
from envbuilder.environment import Environment
from envbuilder.errors import HostError
from envbuilder.language import tr
from envbuilder.launch.cards import check_number, possible_devices
from envbuilder.launch.container import (
    ContainerOptions,
    Needs,
    Site,
    first_devices,
    interface_note,
    listed,
    mounts_of,
    needs_of,
    numbers_of,
    parsed,
)
from envbuilder.machine.fit import judge
from envbuilder.machine.machine import Machine
from envbuilder.matrix.model import Hardware, RunSpec

_ROUTES = "/proc/net/route"
_DEFAULT_DESTINATION = "00000000"


def misfit(environment: Environment, machine: Machine) -> str | None:
    """Return what must change before an environment runs on a machine, or None if it runs."""
    return tr("; ").join(judge(environment, machine).changes) or None


def needs_here(
    environment: Environment, machine: Machine, options: ContainerOptions, *, free: bool = True
) -> tuple[Needs, tuple[str, ...]]:
    """Return what a container needs on this host, and notes for the user. `free` refuses devices that are held."""
    fit = judge(environment, machine)
    if not fit.fits:
        changes = tr("; ").join(fit.changes)
        raise HostError(
            tr("{environment} does not run on this host: {changes}", environment=environment.id, changes=changes),
            hint=tr("envbuilder doctor lists environments that do; --print writes the container for another host"),
        )
    hardware = environment.hardware
    wanted = options.devices
    if hardware.has_gpus:
        check_gpus(machine, options)
        return needs_of(environment, (), Site(interface=_interface(environment, machine, options)), options), fit.notes
    if options.npus is not None:
        check_number(hardware, options.npus)
        wanted = free_devices(hardware, machine, options.npus) or first_devices(options.npus)
    numbers = numbers_of(hardware, machine.cards, wanted, tr("this host"))
    site = _site(environment, machine, numbers, options)
    if free:
        _refuse_held(machine, numbers)
        _refuse_closed(environment, machine, numbers)
    notes = [*fit.notes, *_busy(hardware, machine, numbers)]
    notes += [
        tr("the container {name} is privileged, and may use any NPU", name=name) for name in machine.docker.privileged
    ]
    if options.multi_node:
        notes.append(interface_note(environment.run, site.interface))
    return needs_of(environment, numbers, site, options), tuple(notes)


def check_gpus(machine: Machine, options: ContainerOptions) -> None:
    """Refuse GPUs that this host does not have; whether another container uses them does not matter."""
    present = machine.gpu_numbers
    if options.npus is not None and options.npus > len(present):
        raise HostError(tr("this host has {number} GPUs, and not {wanted}", number=len(present), wanted=options.npus))
    absent = [number for number in parsed(options.devices or listed(present)) if number not in present]
    if absent:
        raise HostError(
            tr("this host has no GPU {numbers}", numbers=listed(absent)),
            hint=tr("it has {numbers}", numbers=listed(present)),
        )


def _interface(environment: Environment, machine: Machine, options: ContainerOptions) -> str | None:
    """Return the network interface to other machines; those of a network that the user chose are unknown."""
    own_network = options.multi_node and environment.run and options.network in {None, environment.run.network}
    return _default_interface(machine) if own_network else None


def _site(environment: Environment, machine: Machine, numbers: Sequence[int], options: ContainerOptions) -> Site:
    """Return the facts about this host; a missing device or path is an error."""
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
            tr("this host has no {paths}", paths=tr(", no ").join(missing)),
            hint=tr("they come with the NPU driver: install or load it; envbuilder doctor shows details"),
        )
    return Site(runtime is not None, places, _interface(environment, machine, options))


def _place(run: RunSpec, machine: Machine, path: str) -> str | None:
    known = (path, *run.elsewhere.get(path, ()))
    return next((place for place in known if machine.file(place).exists()), None)


def _default_interface(machine: Machine) -> str | None:
    """Return the network interface of the default route."""
    for line in machine.read(_ROUTES).splitlines()[1:]:
        name, destination, *_ = line.split()
        if destination == _DEFAULT_DESTINATION:
            return name
    return None


def free_devices(hardware: Hardware, machine: Machine, count: int) -> str | None:
    """Return this many devices that no container holds, more than one as whole cards; None if too few are free."""
    free = [number for number in machine.cards if number not in _held(machine)]
    found = (free if count == 1 else possible_devices(hardware, free, free))[:count]
    return listed(found) if len(found) == count else None


def _held(machine: Machine) -> dict[int, str]:
    return {number: name for name, cards in machine.docker.holders.items() for number in cards}


def _refuse_held(machine: Machine, numbers: Sequence[int]) -> None:
    """Refuse devices that another container holds: both jobs would fail, long after their start."""
    held = _held(machine)
    taken = {number: held[number] for number in numbers if number in held}
    if not taken:
        return
    free = listed([number for number in machine.cards if number not in held])
    conflicts = tr(", ").join(
        tr("NPU {number} is given to the container {name}", number=number, name=name)
        for number, name in sorted(taken.items())
    )
    stop = f"docker stop {' '.join(dict.fromkeys(taken.values()))}"
    raise HostError(conflicts, hint=tr("--devices {free}, or {stop}", free=free, stop=stop) if free else stop)


def _refuse_closed(environment: Environment, machine: Machine, numbers: Sequence[int]) -> None:
    """Refuse devices that this user may not open, if the engine has no more rights than the user."""
    run = environment.run
    if run is None or not is_without_root():
        return
    nodes = (*(f"{run.device}{number}" for number in numbers), *run.device_nodes)
    closed = [node for node in nodes if not os.access(machine.file(node), os.R_OK | os.W_OK)]
    if closed:
        raise HostError(
            tr("neither this user nor the engine, which runs as this user, may open {paths}", paths=", ".join(closed)),
            hint=tr("add the user to the group of these devices (ls -l), log in again, and restart the engine"),
        )


def _busy(hardware: Hardware, machine: Machine, numbers: Sequence[int]) -> Iterator[str]:
    """Yield a note for each process that uses a device, on the host or in a privileged container: both may work."""
    known = {(item.npu, item.chip): item.phy_id for item in machine.npus.devices}
    for process in machine.npus.processes:
        number = known.get((process.npu, process.chip))
        if number is None:
            number = process.npu * hardware.devices_per_card + process.chip
        if number in numbers:
            named = {"number": number, "name": process.name, "pid": process.pid}
            yield tr("NPU {number} is used by {name} (process {pid})", **named)
