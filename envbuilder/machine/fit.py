"""Finds the environments that a machine can run, best first, and the changes that the others need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from envbuilder import versions
from envbuilder.check import RULES, Finding, RuleContext
from envbuilder.environment import Catalog, Environment
from envbuilder.environment.driver import DRIVER, TOOLKIT, published_drivers
from envbuilder.environment.select import Rank
from envbuilder.language import tr
from envbuilder.machine.chips import family_of, family_on_bus
from envbuilder.matrix.model import Chips

if TYPE_CHECKING:
    from envbuilder.machine.machine import Machine


@dataclass(frozen=True)
class Fit:
    """How an environment fits a machine: it can run only after all `changes`; `notes` do not prevent it."""

    environment: str
    cpu_only: bool
    proven: str | None
    changes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    # whether it is for the NPUs and the architecture of the machine; then only the driver can be wrong
    is_here: bool = False
    # whether its toolkit is published for the driver, or for older ones
    published: bool = True

    @property
    def fits(self) -> bool:
        return not self.changes

    @property
    def refusal(self) -> str:
        fields = {"environment": self.environment, "changes": tr("; ").join(self.changes)}
        return tr("{environment} cannot run on this machine: {changes}", **fields)


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
        if hardware.has_npus and hardware.family == family and machine.arch in (None, *hardware.arches)
    ]


def judge(environment: Environment, machine: Machine) -> Fit:
    """Return how an environment fits a machine."""
    changes, notes = list(_changes(environment, machine)), []
    driver = machine.gpus.driver_version if environment.hardware.has_gpus else machine.driver_version
    findings: Sequence[Finding] = ()
    if environment.hardware.cpu_only:
        notes.append(tr("a CPU environment: no NPU takes part"))
    elif not changes:
        findings = list(driver_findings(environment, driver))
        notes += [_text(item) for item in findings if item.severity == "warning"]
        if driver is None:
            notes.append(tr("the version of the driver is unknown"))
    wrong = [_text(item) for item in findings if item.severity == "error"]
    return Fit(
        environment.id,
        environment.hardware.cpu_only,
        environment.proven,
        (*changes, *wrong),
        tuple(notes),
        is_here=not changes and not environment.hardware.cpu_only,
        published=not findings or is_published_for(environment, driver),
    )


def fits(catalog: Catalog, machine: Machine) -> list[Fit]:
    """Return the fit of every environment, best first."""
    return [fit for _, fit in best_first(catalog.environments, machine)]


def best_first(environments: Iterable[Environment], machine: Machine) -> list[tuple[Environment, Fit]]:
    """Return environments with their fit, best first.

    Those that fit come first, then those for NPUs before those for GPUs and CPU environments, then those that need
    fewer changes or whose toolkit is published for the driver. Among equals, those of the higher rank come first. If
    the architecture of the machine is unknown, the usual one of the hardware comes before others.
    """

    def worth(judged: tuple[Environment, Fit]) -> tuple[tuple[bool | int, ...], Rank]:
        item, fit = judged
        is_usual = machine.arch is not None or item.coordinates.arch == next(iter(item.hardware.arches))
        return (
            fit.fits,
            item.hardware.has_npus,
            not fit.cpu_only,
            -len(fit.changes),
            fit.published,
            is_usual,
        ), item.rank

    return sorted(((item, judge(item, machine)) for item in environments), key=worth, reverse=True)


def _changes(environment: Environment, machine: Machine) -> Iterator[str]:
    arch, hardware = environment.coordinates.arch, environment.hardware
    if machine.arch is not None and machine.arch != arch:
        yield tr("it is for {arch}, and this machine is {machine}", arch=arch, machine=machine.arch)
    if hardware.cpu_only:
        return
    wanted = environment.chip_family.title
    if hardware.has_gpus:
        if not machine.gpus.devices:
            yield tr("it needs a chip of {wanted}, and none was found", wanted=wanted)
        return
    family = family_here(environment.chips, machine)
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
    names = environment.hardware.toolkit
    context = RuleContext(environment.with_versions({names.driver if names else DRIVER: version}))
    listed = _published(environment)
    for finding in RULES["toolkit-driver" if names else "cann-hdk"].check(context):
        yield replace(finding, severity="warning") if _is_newer(version, listed) else finding


def runs_with(environment: Environment, driver: str) -> bool:
    """Return whether an environment for NPUs runs on a host with a driver."""
    return environment.hardware.has_npus and not any(
        item.severity == "error" for item in driver_findings(environment, driver)
    )


def is_published_for(environment: Environment, driver: str | None) -> bool:
    """Return whether the toolkit of an environment is published for a driver, or for older ones."""
    listed = _published(environment)
    if driver is None or not listed:
        return False
    return _is_newer(driver, listed) or any(versions.in_family(driver, item) for item in listed)


def _published(environment: Environment) -> tuple[str, ...]:
    if names := environment.hardware.toolkit:
        return published_drivers(environment.release(names.component), names.driver)
    return published_drivers(environment.release(TOOLKIT))


def _is_newer(driver: str, listed: Sequence[str]) -> bool:
    return all(versions.key(driver) > versions.key(item.lower().replace("x", "9999")) for item in listed)


def _text(finding: Finding) -> str:
    return f"{finding.message} ({finding.hint})" if finding.hint else finding.message
