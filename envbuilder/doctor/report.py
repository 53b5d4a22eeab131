"""Writes the state of a machine as data for scripts, and as a text for maintainers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from envbuilder import __version__
from envbuilder.check import Finding
from envbuilder.environment import Catalog
from envbuilder.machine.fit import Fit, family_here
from envbuilder.machine.machine import Machine

_FILES = ("etc/os-release", "etc/ascend_install.info", "etc/docker/daemon.json")


def host_data(machine: Machine) -> dict[str, Any]:
    numbers = ("memory_gb", "shm_gb", "disk_free_gb")
    return {
        **{name: getattr(machine, name) for name in ("arch", "os", "kernel", "processor", "cores", "huge_pages")},
        **{name: round(value, 1) if (value := getattr(machine, name)) is not None else None for name in numbers},
        "driver": dict(machine.driver),
        "firmware": dict(machine.firmware),
        "cann": [item._asdict() for item in machine.cann],
        "pci": list(machine.pci),
        "device_nodes": list(machine.nodes),
        "docker": {**machine.docker._asdict(), "holders": {k: list(v) for k, v in machine.docker.holders.items()}},
    }


def npu_data(catalog: Catalog, machine: Machine) -> dict[str, Any]:
    family = family_here(catalog.chips, machine)
    # npu-smi's table may lack the column of the memory, and still name the chip
    kind = catalog.chips.families[family].memory if family else None
    names = ("npu", "chip", "phy_id", "name", "health", "bus_id", "memory_total_mb")
    return {
        "tool_version": machine.npus.tool_version,
        "driver_version": machine.npus.driver_version or machine.driver.get("version"),
        "family": family,
        "devices": [
            {**{name: getattr(device, name) for name in names}, "memory_kind": device.memory_kind or kind}
            for device in machine.npus.devices
        ],
    }


def fit_data(fit: Fit) -> dict[str, Any]:
    return {"id": fit.environment, "fits": fit.fits, **{k: v for k, v in asdict(fit).items() if k != "environment"}}


def text_report(catalog: Catalog, machine: Machine, checks: Sequence[Finding], fits: Sequence[Fit]) -> str:
    return "\n".join(_lines(catalog, machine, checks, fits)) + "\n"


def _lines(catalog: Catalog, machine: Machine, checks: Sequence[Finding], fits: Sequence[Fit]) -> Iterator[str]:
    yield f"envbuilder {__version__} doctor"
    yield from _section("checks")
    for item in checks:
        yield f"[{item.severity}] {item.group}/{item.code}: {item.message}" + (f" -> {item.hint}" if item.hint else "")
    yield from _section("environments")
    for fit in fits:
        reasons = "; ".join((*fit.changes, *fit.notes))
        yield f"{'fits' if fit.fits else 'no'}  {fit.environment}" + (f": {reasons}" if reasons else "")
    yield from _section("npu-smi info")
    yield machine.npu_smi_output.rstrip() or "nothing was printed"
    for title, values in (("driver", machine.driver), ("firmware", machine.firmware), ("board 0", machine.board)):
        yield from _section(title)
        yield from (f"{key}={value}" for key, value in values.items())
    yield from _section("CANN")
    yield from (" ".join(str(part) for part in item) for item in machine.cann)
    for name in _FILES:
        yield from _section(f"/{name}")
        yield machine.read(name).rstrip() or "missing or empty"


def _section(title: str) -> tuple[str, str]:
    return "", f"== {title}"
