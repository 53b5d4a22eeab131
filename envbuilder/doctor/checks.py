"""The checks of a machine: each is a function that yields findings, with a hint where something is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from envbuilder import versions
from envbuilder.check import Finding
from envbuilder.environment import Catalog
from envbuilder.errors import counted
from envbuilder.machine.chips import family_of, supported
from envbuilder.machine.fit import family_here, hardware_here
from envbuilder.machine.machine import Machine
from envbuilder.machine.vendor import disagreements

_START = "systemctl start docker, or set DOCKER_HOST to another engine"
CheckFunction = Callable[[Catalog, Machine], Iterator[Finding]]


class _Check(NamedTuple):
    group: str
    code: str
    look: CheckFunction


CHECKS: list[_Check] = []


def check(group: str, code: str) -> Callable[[CheckFunction], CheckFunction]:
    """Enter a function in the table of checks, which stamps the group and the code on its findings."""

    def enter(look: CheckFunction) -> CheckFunction:
        CHECKS.append(_Check(group, code, look))
        return look

    return enter


def examine(catalog: Catalog, machine: Machine) -> list[Finding]:
    """Return the findings of every check on a machine."""
    return [
        replace(finding, code=item.code, group=item.group) for item in CHECKS for finding in item.look(catalog, machine)
    ]


# --- the machine -----------------------------------------------------------------------------------------


@check("host", "system")
def system(catalog: Catalog, machine: Machine) -> Iterator[Finding]:
    parts = [machine.os, f"kernel {machine.kernel}" if machine.kernel else None, machine.arch, machine.processor]
    known = ", ".join(part for part in parts if part)
    yield Finding("ok", known) if known else Finding("info", "the operating system is unknown")


@check("host", "memory")
def memory(catalog: Catalog, machine: Machine) -> Iterator[Finding]:
    if machine.memory_gb is not None:
        parts = [f"{machine.cores} cores, {machine.memory_gb:.0f} GB"]
        parts += [f"{machine.shm_gb:.0f} GB of shared memory"] if machine.shm_gb is not None else []
        parts += [f"{machine.huge_pages} huge pages"] if machine.huge_pages else []
        yield Finding("ok", ", ".join(parts))


@check("host", "disk")
def disk(catalog: Catalog, machine: Machine) -> Iterator[Finding]:
    if machine.disk_free_gb is None:
        return
    message = f"{machine.disk_free_gb:.0f} GB are free where docker keeps its images"
    rows = hardware_here(catalog, machine)
    needed = max(item.disk_gb for name, item in catalog.hardware.items() if (name in rows if rows else item.rehearsal))
    if machine.disk_free_gb < needed:
        yield Finding(
            "warning", f"{message}; a build takes up to {needed}", "run docker system prune, or use another data-root"
        )
    else:
        yield Finding("ok", message)


@check("settings", "settings")
def settings(catalog: Catalog, machine: Machine) -> Iterator[Finding]:
    """Check the settings of the host, on machines with NPUs only."""
    if not (machine.npus.devices or machine.pci):
        return
    for setting in catalog.host.settings:
        value = machine.read(setting.file).strip()
        if not value:
            continue
        too_much = setting.at_most is not None and value.isdecimal() and int(value) > setting.at_most
        if too_much or (setting.wanted is not None and value != setting.wanted):
            wanted = setting.wanted if setting.wanted is not None else f"at most {setting.at_most}"
            yield Finding(
                "warning", f"{setting.name} is {value}, and should be {wanted}: {setting.because}", setting.remedy
            )
        else:
            yield Finding("ok", f"{setting.name} is {value}")


# --- NPUs ------------------------------------------------------------------------------------------------


@check("npu", "npu-smi")
def npu_smi(catalog: Catalog, machine: Machine) -> Iterator[Finding]:
    reading = machine.npus
    if reading.devices:
        cards = len({device.npu for device in reading.devices})
        chips = sorted({device.name or "unnamed" for device in reading.devices})
        devices = counted(len(reading.devices), "device")
        yield Finding("ok", f"npu-smi shows {devices} on {counted(cards, 'card')}: {', '.join(chips)}")
    elif machine.npu_smi_output.strip():
        found = [item for item in catalog.symptoms if item.place_in(machine.npu_smi_output) is not None]
        for symptom in found:
            yield Finding("error", f"npu-smi fails: {symptom.cause}", symptom.remedy)
        if not found:
            line = (reading.failures or machine.npu_smi_output.strip().splitlines())[0]
            yield Finding("error", f"npu-smi shows no device: {line}", "give the whole output to envbuilder diagnose")
    elif machine.pci:
        count = f"{len(machine.pci)} NPUs are on the PCI bus"
        yield Finding(
            "error",
            f"{count}, and npu-smi is missing: no driver is installed",
            "install the driver and firmware of the row (HDK)",
        )
    else:
        yield Finding("info", "no NPU was found: environments can be built, and rehearsed on the CPU")


@check("npu", "family")
def family(catalog: Catalog, machine: Machine) -> Iterator[Finding]:
    names = sorted({device.name for device in machine.npus.devices if device.name})
    found = {name: family_of(catalog.chips, name) for name in names}
    if len(set(found.values())) > 1:
        yield Finding(
            "warning", f"chips of several families are in one machine: {', '.join(names)}", "use rows of one family"
        )
    family = family_here(catalog.chips, machine)
    if family is None:
        if names:
            yield Finding(
                "warning", f"the chip {', '.join(names)} is not known", "envbuilder matrix lists the known chips"
            )
        return
    known = catalog.chips.families[family]
    if known.supported:
        yield Finding("ok", f"the chips are {known.title}")
    else:
        note = f"; {known.note}" if known.note else ""
        yield Finding(
            "error",
            f"the chips are {known.title}, which no row supports{note}",
            f"use hardware of {supported(catalog.chips)}",
        )


@check("npu", "health")
def health(catalog: Catalog, machine: Machine) -> Iterator[Finding]:
    ill = [device for device in machine.npus.devices if device.health not in {"OK", None}]
    for device in ill:
        where = f"NPU {device.npu} chip {device.chip}"
        command = f"npu-smi info -t health -i {device.npu} -c {device.chip}"
        yield Finding("warning", f"{where} reports {device.health}; it may still be usable", f"{command} shows why")


@check("npu", "dies")
def dies(catalog: Catalog, machine: Machine) -> Iterator[Finding]:
    """Warn of a slice of a card, which shows both dies and has only one of them."""
    places = [(device.npu, device.phy_id) for device in machine.npus.devices if device.phy_id is not None]
    for npu, phy_id in sorted({place for place in places if places.count(place) > 1}):
        yield Finding(
            "warning",
            f"NPU {npu} shows two dies with the same physical number {phy_id}: only one of them exists",
            "count it as one device",
        )


@check("npu", "in-use")
def in_use(catalog: Catalog, machine: Machine) -> Iterator[Finding]:
    for name, cards in machine.docker.holders.items():
        yield Finding("info", f"container {name} holds {_cards(cards)}", f"docker stop {name} frees them")
    if machine.npus.devices:
        for name in machine.docker.privileged:
            yield Finding(
                "info",
                f"container {name} is privileged, and may use any NPU",
                f"docker exec {name} npu-smi info shows whether it does",
            )
    busy = sorted({process.npu for process in machine.npus.processes})
    if busy:
        yield Finding("info", f"processes run on {_cards(busy)}", "npu-smi info names them")


@check("npu", "devices")
def devices(catalog: Catalog, machine: Machine) -> Iterator[Finding]:
    """Check whether this user may use the device nodes, which usually belong to a user of the driver."""
    if not machine.nodes:
        if machine.npus.devices and machine.is_here:
            yield Finding(
                "error", "npu-smi shows NPUs, and /dev has none of their nodes", "load the driver, or mount the nodes"
            )
        return
    uid, groups = machine.user
    closed = [
        path
        for path, node in machine.nodes.items()
        if not (uid == 0 or node.uid == uid or (node.gid in groups and node.mode & 0o060) or node.mode & 0o006)
    ]
    if closed and machine.is_here:
        node = machine.nodes[closed[0]]
        helps = f"add the user to group {node.gid}, or run as root"
        yield Finding("error", f"this user may not use {closed[0]} (owner {node.uid}, mode {node.mode:04o})", helps)
    else:
        yield Finding("ok", f"{len(machine.cards)} device nodes")


# --- driver and toolkit ----------------------------------------------------------------------------------


@check("driver", "driver")
def driver(catalog: Catalog, machine: Machine) -> Iterator[Finding]:
    version, shown = machine.driver_version, machine.npus.driver_version
    if version is None:
        return
    firmware = machine.firmware.get("version") or machine.board.get("firmware version")
    yield Finding("ok", f"driver {version}" + (f", firmware {firmware}" if firmware else ""))
    if shown and shown[0].isdecimal() and not versions.same(version, shown):
        yield Finding(
            "warning",
            f"version.info has driver {version}, and npu-smi shows {shown}",
            "restart, so that the new driver is loaded",
        )
    tool = machine.npus.tool_version
    if shown and tool and tool != shown:
        yield Finding("info", f"npu-smi is version {tool}, and the driver is {shown}")


@check("driver", "firmware")
def firmware(catalog: Catalog, machine: Machine) -> Iterator[Finding]:
    for message in disagreements(machine.driver, machine.firmware):
        yield Finding("warning", message, "install driver and firmware of one HDK release")


@check("driver", "ascendhal")
def ascendhal(catalog: Catalog, machine: Machine) -> Iterator[Finding]:
    """Compare the interface of the driver with the one that each toolkit needs."""
    have = machine.driver.get("ascendhal_version")
    for item in machine.cann:
        if have and item.required_hal and versions.key(have) < versions.key(item.required_hal):
            message = f"{item.package} {item.version} needs ascendhal {item.required_hal}; the driver has {have}"
            yield Finding("error", message, "install a newer driver, or an older toolkit")


@check("cann", "cann")
def cann(catalog: Catalog, machine: Machine) -> Iterator[Finding]:
    for item in machine.cann:
        inner = f" ({item.inner})" if item.inner else ""
        yield Finding("ok", f"{item.package} {item.version}{inner} at {item.path}")
        if item.arch and machine.arch and item.arch != machine.arch:
            yield Finding(
                "error",
                f"{item.package} {item.version} is for {item.arch}, and this machine is {machine.arch}",
                "install the package for this machine",
            )
    parts = {item.version for item in machine.cann if item.version}
    if len(parts) > 1:
        yield Finding(
            "warning",
            f"several versions of CANN are installed: {', '.join(sorted(parts))}",
            "source the set_env.sh of one of them only",
        )


# --- containers ------------------------------------------------------------------------------------------


@check("container", "engine")
def engine(catalog: Catalog, machine: Machine) -> Iterator[Finding]:
    docker = machine.docker
    if docker.trouble is not None:
        yield Finding("warning", f"no docker engine answers: {docker.trouble}", _START)
    elif docker.version is not None:
        buildx = f"buildx {docker.buildx}" if docker.buildx else "without buildx"
        yield Finding("ok", f"docker {docker.version}, {buildx}, images at {docker.root}")


@check("container", "runtime")
def runtime(catalog: Catalog, machine: Machine) -> Iterator[Finding]:
    """Look for the vendor's container runtime, which `envbuilder run` works without."""
    docker, name = machine.docker, "ascend"
    if name in docker.runtimes:
        is_default = docker.default_runtime == name
        installed = "Ascend Docker Runtime is installed"
        yield Finding("ok", "Ascend Docker Runtime is installed and is the default" if is_default else installed)
    elif machine.npus.devices:
        yield Finding("info", "Ascend Docker Runtime is not installed; envbuilder run works without it")


def _cards(numbers: Iterable[int]) -> str:
    found = [str(number) for number in numbers]
    return f"NPU{'s' if len(found) > 1 else ''} {', '.join(found)}"
