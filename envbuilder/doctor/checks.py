"""The checks of a machine: each is a function that yields findings, with a hint if something is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from envbuilder import versions
from envbuilder.check import Finding
from envbuilder.environment import Catalog, Filters
from envbuilder.language import counted, tr
from envbuilder.machine.chips import family_of, supported
from envbuilder.machine.choice import choose
from envbuilder.machine.fit import family_here, hardware_here, runs_with
from envbuilder.machine.machine import Machine
from envbuilder.machine.vendor import disagreements

CheckFunction = Callable[[Catalog, Machine], Iterator[Finding]]
# the group and the code of a check, and its function
CHECKS: list[tuple[str, str, CheckFunction]] = []


def check(group: str, code: str) -> Callable[[CheckFunction], CheckFunction]:
    """Add a function to the checks; its findings get the group and the code."""

    def add(function: CheckFunction) -> CheckFunction:
        CHECKS.append((group, code, function))
        return function

    return add


def examine(catalog: Catalog, machine: Machine) -> list[Finding]:
    """Return the findings of all checks on a machine."""
    return [
        replace(finding, code=code, group=group)
        for group, code, function in CHECKS
        for finding in function(catalog, machine)
    ]


# --- the machine -----------------------------------------------------------------------------------------


@check("host", "system")
def system(catalog: Catalog, machine: Machine) -> Iterator[Finding]:
    parts = [
        machine.os,
        tr("kernel {version}", version=machine.kernel) if machine.kernel else None,
        machine.arch,
        machine.processor,
    ]
    known = tr(", ").join(part for part in parts if part)
    yield Finding("ok", known) if known else Finding("info", tr("the operating system is unknown"))


@check("host", "memory")
def memory(catalog: Catalog, machine: Machine) -> Iterator[Finding]:
    if machine.memory_gb is None:
        return
    parts = [tr("{cores} cores, {memory} GB", cores=machine.cores, memory=f"{machine.memory_gb:.0f}")]
    if machine.shm_gb is not None:
        parts.append(tr("{size} GB of shared memory", size=f"{machine.shm_gb:.0f}"))
    if machine.huge_pages:
        parts.append(tr("{number} huge pages", number=machine.huge_pages))
    yield Finding("ok", tr(", ").join(parts))


@check("host", "disk")
def disk(catalog: Catalog, machine: Machine) -> Iterator[Finding]:
    if machine.disk_free_gb is None:
        return
    message = tr("{size} GB are free where docker keeps its images", size=f"{machine.disk_free_gb:.0f}")
    rows = hardware_here(catalog, machine)
    needed = max(item.disk_gb for name, item in catalog.hardware.items() if (name in rows if rows else item.cpu_only))
    if machine.disk_free_gb < needed:
        message = tr("{message}; a build takes up to {needed}", message=message, needed=needed)
        yield Finding("warning", message, tr("run docker system prune, or use another data-root"))
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
        named = {"setting": setting.name, "value": value}
        too_much = setting.at_most is not None and value.isdecimal() and float(value) > setting.at_most
        if too_much or (setting.wanted is not None and value != setting.wanted):
            named["wanted"] = setting.wanted or tr("at most {value}", value=setting.at_most)
            named["because"] = _translated(setting.because)
            message = tr("{setting} is {value}, and should be {wanted}: {because}", **named)
            yield Finding("warning", message, f"`{setting.remedy}`")
        else:
            yield Finding("ok", tr("{setting} is {value}", **named))


# --- NPUs ------------------------------------------------------------------------------------------------


@check("npu", "npu-smi")
def npu_smi(catalog: Catalog, machine: Machine) -> Iterator[Finding]:
    reading = machine.npus
    if reading.devices:
        named = {
            "devices": counted(len(reading.devices), "device"),
            "cards": counted(len({device.npu for device in reading.devices}), "card"),
            "chips": ", ".join(sorted({device.name or tr("unnamed") for device in reading.devices})),
        }
        yield Finding("ok", tr("npu-smi shows {devices} on {cards}: {chips}", **named))
    elif output := machine.npu_smi_output.strip():
        found = [item for item in catalog.symptoms if item.place_in(machine.npu_smi_output) is not None]
        for symptom in found:
            message = tr("npu-smi fails: {cause}", cause=_translated(symptom.cause))
            yield Finding("error", message, _translated(symptom.remedy))
        if not found:
            message = tr("npu-smi shows no device: {line}", line=(reading.failures or output.splitlines())[0])
            yield Finding("error", message, tr("give the whole output to envbuilder diagnose"))
    elif machine.pci:
        count = tr("{number} NPUs are on the PCI bus", number=len(machine.pci))
        message = tr("{count}, and npu-smi is missing: no driver is installed", count=count)
        yield Finding("error", message, tr("install the driver and firmware of the row (HDK)"))
    else:
        yield Finding("info", tr("no NPU was found: environments can be built, and rehearsed on the CPU"))


@check("npu", "family")
def family(catalog: Catalog, machine: Machine) -> Iterator[Finding]:
    names = sorted({device.name for device in machine.npus.devices if device.name})
    shown = ", ".join(names)
    if len({family_of(catalog.chips, name) for name in names}) > 1:
        message = tr("chips of several families are in one machine: {names}", names=shown)
        yield Finding("warning", message, tr("use rows of one family"))
    family = family_here(catalog.chips, machine)
    if family is None:
        if names:
            message = tr("the chip {names} is not known", names=shown)
            yield Finding("warning", message, tr("`envbuilder hardware` lists the servers that rows support"))
        return
    known = catalog.chips.families[family]
    if known.supported:
        yield Finding("ok", tr("the chips are {family}", family=known.title))
    else:
        message = tr("the chips are {family}, which no row supports", family=known.title)
        if known.note:
            message = tr("; ").join((message, _translated(known.note)))
        yield Finding("error", message, tr("use hardware of {families}", families=supported(catalog.chips)))


@check("npu", "health")
def health(catalog: Catalog, machine: Machine) -> Iterator[Finding]:
    for device in machine.npus.devices:
        if device.health in {"OK", None}:
            continue
        where = tr("NPU {npu} chip {chip}", npu=device.npu, chip=device.chip)
        message = tr("{where} reports {health}; it may still be usable", where=where, health=device.health)
        command = f"npu-smi info -t health -i {device.npu} -c {device.chip}"
        yield Finding("warning", message, tr("`{command}` shows why", command=command))


@check("npu", "dies")
def dies(catalog: Catalog, machine: Machine) -> Iterator[Finding]:
    """Warn about a slice of a card, which shows both dies and has only one of them."""
    places = [(device.npu, device.phy_id) for device in machine.npus.devices if device.phy_id is not None]
    for npu, phy_id in sorted({place for place in places if places.count(place) > 1}):
        message = tr(
            "NPU {npu} shows two dies with the same physical number {phy_id}: only one of them exists",
            npu=npu,
            phy_id=phy_id,
        )
        yield Finding("warning", message, tr("count it as one device"))


@check("npu", "in-use")
def in_use(catalog: Catalog, machine: Machine) -> Iterator[Finding]:
    for name, cards in machine.docker.holders.items():
        message = tr("container {name} holds {cards}", name=name, cards=_cards(cards))
        yield Finding("info", message, tr("docker stop {name} frees them", name=name))
    if machine.npus.devices:
        for name in machine.docker.privileged:
            message = tr("container {name} is privileged, and may use any NPU", name=name)
            yield Finding("info", message, tr("docker exec {name} npu-smi info shows whether it does", name=name))
    busy = sorted({process.npu for process in machine.npus.processes})
    if busy:
        yield Finding("info", tr("processes run on {cards}", cards=_cards(busy)), tr("npu-smi info names them"))


@check("npu", "devices")
def devices(catalog: Catalog, machine: Machine) -> Iterator[Finding]:
    """Check whether this user may use the device nodes, which usually belong to a user of the driver."""
    if not machine.nodes:
        if machine.npus.devices and machine.is_here:
            message = tr("npu-smi shows NPUs, and /dev has none of their nodes")
            yield Finding("error", message, tr("load the driver, or mount the nodes"))
        return
    uid, groups = machine.user
    closed = [
        path
        for path, node in machine.nodes.items()
        if not (uid == 0 or node.uid == uid or (node.gid in groups and node.mode & 0o060) or node.mode & 0o006)
    ]
    if closed and machine.is_here:
        node = machine.nodes[closed[0]]
        named = {"path": closed[0], "owner": node.uid, "mode": f"{node.mode:04o}"}
        message = tr("this user may not use {path} (owner {owner}, mode {mode})", **named)
        yield Finding("error", message, tr("add the user to group {group}, or run as root", group=node.gid))
    else:
        yield Finding("ok", tr("{number} device nodes", number=len(machine.cards)))


@check("gpu", "nvidia-smi")
def nvidia_smi(catalog: Catalog, machine: Machine) -> Iterator[Finding]:
    """Report the GPUs of a machine, which train the reference of a run on NPUs."""
    reading = machine.gpus
    if reading.devices:
        named = {
            "devices": counted(len(reading.devices), "device"),
            "names": ", ".join(sorted({item.name for item in reading.devices})),
            "driver": reading.driver_version or tr("unknown"),
        }
        yield Finding("ok", tr("nvidia-smi shows {devices}: {names}; driver {driver}", **named))
        runtimes = machine.docker.runtimes
        if runtimes and "nvidia" not in runtimes:
            message = tr("docker does not have the runtime of NVIDIA's container toolkit, which --gpus needs")
            yield Finding("warning", message, tr("install nvidia-container-toolkit, or use a CDI specification"))
    elif reading.failure:
        message = tr("nvidia-smi shows no device: {line}", line=reading.failure)
        yield Finding("warning", message, tr("install or load the driver of NVIDIA"))


# --- driver and toolkit ----------------------------------------------------------------------------------


@check("driver", "driver")
def driver(catalog: Catalog, machine: Machine) -> Iterator[Finding]:
    version, shown = machine.driver_version, machine.npus.driver_version
    if version is None:
        return
    firmware = machine.firmware.get("version") or machine.board.get("firmware version")
    named = {"version": version, "firmware": firmware}
    text = tr("driver {version}, firmware {firmware}", **named) if firmware else tr("driver {version}", version=version)
    yield Finding("ok", text, _with_newer_driver(catalog, machine))
    if shown and shown[0].isdecimal() and not versions.same(version, shown):
        message = tr("version.info has driver {version}, and npu-smi shows {shown}", version=version, shown=shown)
        yield Finding("warning", message, tr("restart, so that the new driver is loaded"))
    tool = machine.npus.tool_version
    if shown and tool and tool != shown:
        yield Finding("info", tr("npu-smi is version {tool}, and the driver is {shown}", tool=tool, shown=shown))


def _with_newer_driver(catalog: Catalog, machine: Machine) -> str | None:
    """Return which driver would allow a better environment than this one, and where that is stated."""
    if not hardware_here(catalog, machine):
        return None
    choice = choose(catalog, Filters(), machine)
    newer = choice.with_newer_driver or choice.environment
    if runs_with(newer, machine.driver_version or "") or (least := newer.least_driver) is None:
        return None
    fields = {"least": least.version, "newer": newer.branch.title, "source": least.source}
    return tr("driver {least} or later would allow {newer}, see {source}", **fields)


@check("driver", "firmware")
def firmware(catalog: Catalog, machine: Machine) -> Iterator[Finding]:
    for message in disagreements(machine.driver, machine.firmware):
        yield Finding("warning", message, tr("install driver and firmware of one HDK release"))


@check("driver", "ascendhal")
def ascendhal(catalog: Catalog, machine: Machine) -> Iterator[Finding]:
    """Compare the interface of the driver with the one that each toolkit needs."""
    have = machine.driver.get("ascendhal_version")
    for item in machine.cann:
        if have and item.required_hal and versions.key(have) < versions.key(item.required_hal):
            named = {"package": item.package, "version": item.version, "wanted": item.required_hal, "have": have}
            message = tr("{package} {version} needs ascendhal {wanted}; the driver has {have}", **named)
            yield Finding("error", message, tr("install a newer driver, or an older toolkit"))


@check("cann", "cann")
def cann(catalog: Catalog, machine: Machine) -> Iterator[Finding]:
    for item in machine.cann:
        inner = f" ({item.inner})" if item.inner else ""
        yield Finding("ok", tr("{package} at {path}", package=f"{item.package} {item.version}{inner}", path=item.path))
        if item.arch and machine.arch and item.arch != machine.arch:
            named = {"package": item.package, "version": item.version, "arch": item.arch, "machine": machine.arch}
            message = tr("{package} {version} is for {arch}, and this machine is {machine}", **named)
            yield Finding("error", message, tr("install the package for this machine"))
    installed = sorted({item.version for item in machine.cann if item.version})
    if len(installed) > 1:
        message = tr("several versions of CANN are installed: {versions}", versions=", ".join(installed))
        yield Finding("warning", message, tr("source the set_env.sh of one of them only"))


# --- containers ------------------------------------------------------------------------------------------


@check("container", "engine")
def engine(catalog: Catalog, machine: Machine) -> Iterator[Finding]:
    docker = machine.docker
    if docker.trouble is not None:
        message = tr("no docker engine answers: {reason}", reason=docker.trouble)
        yield Finding("warning", message, tr("`systemctl start docker`, or set DOCKER_HOST to another engine"))
    elif docker.version is not None:
        buildx = f"buildx {docker.buildx}" if docker.buildx else tr("without buildx")
        named = {"version": docker.version, "buildx": buildx, "root": docker.root}
        yield Finding("ok", tr("docker {version}, {buildx}, images at {root}", **named))


@check("container", "runtime")
def runtime(catalog: Catalog, machine: Machine) -> Iterator[Finding]:
    """Look for the vendor's container runtime, which `envbuilder run` works without."""
    docker, name = machine.docker, "ascend"
    if docker.default_runtime == name and name in docker.runtimes:
        yield Finding("ok", tr("Ascend Docker Runtime is installed and is the default"))
    elif name in docker.runtimes:
        yield Finding("ok", tr("Ascend Docker Runtime is installed"))
    elif machine.npus.devices:
        yield Finding("info", tr("Ascend Docker Runtime is not installed; envbuilder run works without it"))


def _translated(text: str) -> str:
    """Return a text of the matrices in the language of the user."""
    return tr(" ".join(text.split()))


def _cards(numbers: Iterable[int]) -> str:
    shown = ", ".join(map(str, numbers))
    return tr("NPUs {numbers}", numbers=shown) if "," in shown else tr("NPU {numbers}", numbers=shown)
