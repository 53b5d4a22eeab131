"""Finds the environments that a machine can run, best first, and the changes that the others need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from envbuilder import versions
from envbuilder.check import RULES, Finding, RuleContext
from envbuilder.environment import Catalog, Environment
from envbuilder.language import tr
from envbuilder.machine.chips import family_of, family_on_bus
from envbuilder.machine.machine import Machine
from envbuilder.matrix.model import Chips

_TOOLKIT, _DRIVER = "cann", "hdk"


@dataclass(frozen=True)
class Fit:
    """How an environment fits a machine: it can run only after all `changes`; `notes` do not prevent it."""

    environment: str
    cpu_only: bool
    proven: str | None
    changes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        return not self.changes


def family_here(chips: Chips, machine: Machine) -> str | None:
    """Return the family of the chips by npu-smi or by the PCI bus, or None if there are none or they are unknown."""
    named = {family_of(chips, device.name) for device in machine.npus.devices if device.name}
    known = named - {None}
    return known.pop() if len(known) == 1 else family_on_bus(chips, machine.pci)


def hardware_here(catalog: Catalog, machine: Machine) -> list[str]:
    """Return the hardware with the chips and the architecture of a machine."""
    family = family_here(catalog.chips, machine)
    return [
        name
        for name, hardware in catalog.hardware.items()
        if not hardware.cpu_only and hardware.family == family and machine.arch in hardware.arches
    ]


def judge(environment: Environment, machine: Machine) -> Fit:
    """Return how an environment fits a machine."""
    changes, notes = list(_changes(environment, machine)), []
    if environment.hardware.cpu_only:
        notes.append(tr("a CPU environment: no NPU takes part"))
    elif not changes:
        findings = list(driver_findings(environment, machine.driver_version))
        changes += [_text(item) for item in findings if item.severity == "error"]
        notes += [_text(item) for item in findings if item.severity == "warning"]
        if machine.driver_version is None:
            notes.append(tr("the version of the driver is unknown"))
    return Fit(environment.id, environment.hardware.cpu_only, environment.proven, tuple(changes), tuple(notes))


def fits(catalog: Catalog, machine: Machine) -> list[Fit]:
    """Return the fit of every environment, best first.

    Those that fit come first, then those for NPUs before CPU environments, then those that need fewer changes or give
    fewer warnings. Among equals, those of the higher rank come first.
    """
    best_first = sorted(catalog.environments, key=lambda item: item.rank, reverse=True)
    judged = [judge(item, machine) for item in best_first]
    return sorted(judged, key=lambda fit: (not fit.fits, fit.cpu_only, len(fit.changes), bool(fit.notes)))


def _changes(environment: Environment, machine: Machine) -> Iterator[str]:
    arch, hardware = environment.coordinates.arch, environment.hardware
    if machine.arch is not None and machine.arch != arch:
        yield tr("it is for {arch}, and this machine is {machine}", arch=arch, machine=machine.arch)
    if hardware.cpu_only:
        return
    family = family_here(environment.chips, machine)
    wanted = environment.chip_family.title
    if family is None and not machine.npus.devices:
        yield tr("it needs chips of {wanted}, and no NPU was found", wanted=wanted)
    elif family is None:
        yield tr("it needs chips of {wanted}, and the chips of this machine are unknown", wanted=wanted)
    elif family != hardware.family:
        yield tr(
            "it needs chips of {wanted}, and those of this machine are {family}",
            wanted=wanted,
            family=environment.chips.families[family].title,
        )


def driver_findings(environment: Environment, version: str | None) -> Iterator[Finding]:
    """Yield the findings of the compat tables about the row's toolkit with a driver.

    New drivers support older toolkits, so for a driver newer than every published one they are only warnings.
    """
    if version is None or not version[0].isdecimal():
        return
    context = RuleContext(environment.with_versions({_DRIVER: version}))
    release = context.release(_TOOLKIT)
    listed = (*release.paired.get(_DRIVER, ()), *release.compatible.get(_DRIVER, ())) if release else ()
    is_newer = all(versions.key(version) > versions.key(item.lower().replace("x", "9999")) for item in listed)
    for finding in RULES["cann-hdk"].check(context):
        yield replace(finding, severity="warning") if is_newer else finding


def _text(finding: Finding) -> str:
    return f"{finding.message} ({finding.hint})" if finding.hint else finding.message
