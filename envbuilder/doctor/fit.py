"""Which environments a machine can run, best first, and what would have to change for the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from envbuilder import versions
from envbuilder.check import RULES, Finding, RuleContext
from envbuilder.doctor.chips import family_of, family_on_bus
from envbuilder.doctor.machine import Machine
from envbuilder.environment import Catalog, Environment
from envbuilder.matrix.model import Chips, Hardware

_TOOLKIT, _DRIVER = "cann", "hdk"


@dataclass(frozen=True)
class Fit:
    """A word on one environment. `changes` stand in its way, `notes` do not."""

    environment: str
    rehearsal: bool
    proven: str | None
    changes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        return not self.changes


def family_here(chips: Chips, machine: Machine) -> str | None:
    """Of the chips that npu-smi names, or of what is on the bus; None where there are none or nobody knows them."""
    named = {family_of(chips, device.name) for device in machine.npus.devices if device.name}
    known = named - {None}
    return known.pop() if len(known) == 1 else family_on_bus(chips, machine.pci)


def hardware_here(catalog: Catalog, machine: Machine) -> list[str]:
    """The rows of hardware that have these chips and this architecture; those of the same size first."""
    family = family_here(catalog.chips, machine)
    found = [
        name
        for name, hardware in catalog.hardware.items()
        if not hardware.rehearsal and hardware.family == family and machine.arch in hardware.arches
    ]
    return sorted(found, key=lambda name: _other_size(catalog.hardware[name], machine))


def _other_size(hardware: Hardware, machine: Machine) -> bool:
    return hardware.devices != (len(machine.npus.devices) or len(machine.cards))


def judge(environment: Environment, machine: Machine) -> Fit:
    changes, notes = list(_changes(environment, machine)), []
    if environment.hardware.rehearsal:
        notes.append("a rehearsal: no NPU takes part")
    elif not changes:
        findings = list(_driver(environment, machine.driver_version))
        changes += [_told(item) for item in findings if item.severity == "error"]
        notes += [_told(item) for item in findings if item.severity == "warning"]
        if machine.driver_version is None:
            notes.append("the version of the driver is unknown")
    return Fit(environment.id, environment.hardware.rehearsal, environment.proven, tuple(changes), tuple(notes))


def fits(catalog: Catalog, machine: Machine) -> list[Fit]:
    """All of them: those that fit, on hardware of this size, with the driver that they are published with, that at
    least resolve, the newest first; then the others by how little is missing."""
    newest_first = sorted(catalog.environments, key=lambda item: versions.key(item.coordinates.branch), reverse=True)
    judged = [(judge(item, machine), item) for item in newest_first]

    def rank(pair: tuple[Fit, Environment]) -> tuple[object, ...]:
        fit, item = pair
        return (
            not fit.fits, fit.rehearsal, len(fit.changes), _other_size(item.hardware, machine), bool(fit.notes),
            fit.proven is None, not item.is_default_framework,
        )  # fmt: skip

    return [fit for fit, _ in sorted(judged, key=rank)]


def _changes(environment: Environment, machine: Machine) -> Iterator[str]:
    arch, hardware = environment.coordinates.arch, environment.hardware
    if machine.arch is not None and machine.arch != arch:
        yield f"it is for {arch}, and this machine is {machine.arch}"
    if hardware.rehearsal:
        return
    family = family_here(environment.chips, machine)
    wanted = environment.chip_family.title
    if family is None and not machine.npus.devices:
        yield f"it needs chips of {wanted}, and no NPU was found"
    elif family is None:
        yield f"it needs chips of {wanted}, and the chips here are not known"
    elif family != hardware.family:
        yield f"it needs chips of {wanted}, and these are {environment.chips.families[family].title}"


def _driver(environment: Environment, version: str | None) -> Iterator[Finding]:
    """The published word on the row's toolkit with the driver that is here. Drivers go on to serve older toolkits, so
    one that is newer than every published one is a warning."""
    if version is None or not version[0].isdecimal():
        return
    context = RuleContext(environment.with_versions({_DRIVER: version}))
    release = context.release(_TOOLKIT)
    listed = (*release.paired.get(_DRIVER, ()), *release.compatible.get(_DRIVER, ())) if release else ()
    is_newer = all(versions.key(version) > versions.key(item.lower().replace("x", "9999")) for item in listed)
    for finding in RULES["cann-hdk"].check(context):
        yield replace(finding, severity="warning") if is_newer else finding


def _told(finding: Finding) -> str:
    return f"{finding.message} ({finding.hint})" if finding.hint else finding.message
