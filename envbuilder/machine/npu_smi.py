"""Reads the output of npu-smi: its table in every layout of the vendor, also quoted, cut or redacted as in pasted
reports; single values (`-t health`, `-t board`); and its error messages.

Cells of a table are recognized by their content, not by their column: rows are often wider than their borders.
"""

from __future__ import annotations

import re
from typing import NamedTuple

# no output of npu-smi has such a number, and Python refuses one of thousands of digits
_LONG_NUMBER = re.compile(r"\d{19,}")
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_TITLE = re.compile(r"npu-smi\s+(?P<tool>\S+)\s+Version:\s*(?P<driver>\S+)")
_FIRST = re.compile(r"(?P<npu>\d+)(?:\s+(?P<name>\S.*))?$")
_SECOND = re.compile(r"(?P<chip>\d+)?(?:\s+(?P<phy>\d+))?$")
# redacted numbers may be replaced by any letter
_BUS = re.compile(r"(?:[\w*]{1,8}:[\w*]{1,2}:[\w*]{1,2}\.[\w*]|NA|N/A|-|[x*]+)$", re.IGNORECASE)
_HEALTH = re.compile(r"[A-Za-z-][A-Za-z /-]*$")
_USAGE = re.compile(r"(\d+)\s*/\s*(\d+)")
_COMMAND = re.compile(r"npu-smi\s+info\s+.*-i\s+(?P<npu>\d+)(?:\s+-c\s+(?P<chip>\d+))?")
_VALUE = re.compile(r"^\s*(?P<key>[A-Z][A-Za-z0-9 ()/-]*?)\s*:\s*(?P<value>\S.*?)\s*$")
_FAILURE = re.compile(r"failed|invalid card|error parameter|command not found|no such file|can't|cannot", re.IGNORECASE)


class Npu(NamedTuple):
    """One device: the chip of a card, or one of its two dies."""

    npu: int
    chip: int = 0
    # the driver's number of the device, if the table has it
    phy_id: int | None = None
    name: str | None = None
    health: str | None = None
    bus_id: str | None = None
    memory_total_mb: int | None = None
    memory_kind: str | None = None


class Process(NamedTuple):
    npu: int
    chip: int
    pid: int
    name: str


class Reading(NamedTuple):
    """The content of an output of npu-smi."""

    tool_version: str | None = None
    driver_version: str | None = None
    devices: tuple[Npu, ...] = ()
    processes: tuple[Process, ...] = ()
    # error messages
    failures: tuple[str, ...] = ()


def read(text: str) -> Reading:
    """Return everything that can be read from a text; that may be nothing."""
    text = _LONG_NUMBER.sub("", _COLOURS.sub("", text))
    lines = [line.replace("\t", " ").rstrip() for line in text.splitlines()]
    title = next((found for line in lines if (found := _TITLE.search(line))), None)
    devices, processes = _table(lines)
    if not devices:
        devices = _values(lines)
    failures = (line.strip() for line in lines if _FAILURE.search(line) and "|" not in line)
    return Reading(
        tool_version=title["tool"] if title else None,
        driver_version=title["driver"] if title else None,
        devices=tuple(devices),
        processes=tuple(processes),
        failures=() if devices else tuple(failures),
    )


def board(text: str) -> dict[str, str]:
    """Return the values of `npu-smi info -t board` and similar outputs, by their names in lower case."""
    found = (_VALUE.match(line) for line in text.splitlines())
    return {match["key"].lower(): match["value"] for match in found if match}


def _cells(line: str) -> list[str]:
    """Return the texts between the bars of a line; a border, or a line outside a table, has none."""
    start = line.find("|")
    if start < 0 or "+" in line[:start] or not re.search(r"[A-Za-z0-9]", line):
        return []
    parts = [part.strip() for part in line[start + 1 :].split("|")]
    return parts[:-1] if parts[-1] == "" else parts


def _table(lines: list[str]) -> tuple[list[Npu], list[Process]]:
    devices: list[Npu] = []
    processes: list[Process] = []
    two_kinds = True
    for line in lines:
        cells = _cells(line)
        if cells and "Bus-Id" in cells[-2:][0]:
            two_kinds = "HBM" in cells[-1]
        elif device := _first_row(cells):
            devices.append(device)
        elif devices and (more := _second_row(cells, devices[-1], two_kinds)):
            devices[-1] = more
        elif process := _process(cells):
            processes.append(process)
    return devices, processes


def _first_row(cells: list[str]) -> Npu | None:
    """Read `0     910B1 | OK | 94.6 ...`, also with a bar between number and name."""
    if len(cells) >= 4 and cells[0].isdecimal() and not cells[1].isdecimal():
        cells = [f"{cells[0]} {cells[1]}", *cells[2:]]
    if len(cells) < 2:
        return None
    first = _FIRST.match(cells[0])
    if first is None or first["name"] is None or first["name"].isdecimal() or not _HEALTH.match(cells[1]):
        return None
    return Npu(npu=int(first["npu"]), name=first["name"], health=cells[1])


def _second_row(cells: list[str], device: Npu, two_kinds: bool) -> Npu | None:
    """Read `0 [phy] | 0000:C1:00.0 | 0   0 / 0   3373 / 65536`; the newest chips have no chip number."""
    if len(cells) == 4 and cells[0] == cells[1] == "":
        cells = cells[1:]
    if len(cells) < 2 or device.bus_id is not None or not _BUS.match(cells[1]):
        return None
    second = _SECOND.match(cells[0])
    if second is None:
        return None
    total, kind = _memory(cells[2] if len(cells) > 2 else "", two_kinds)
    return device._replace(
        chip=int(second["chip"] or 0),
        phy_id=int(second["phy"]) if second["phy"] else None,
        bus_id=cells[1],
        memory_total_mb=total,
        memory_kind=kind,
    )


def _memory(cell: str, two_kinds: bool) -> tuple[int | None, str | None]:
    """Return the size and the kind of the memory: HBM, or DDR if the table has no HBM or a size of zero for it."""
    totals = [int(total) for _, total in _USAGE.findall(cell)]
    if two_kinds and len(totals) == 2:
        return (totals[1], "hbm") if totals[1] or not totals[0] else (totals[0], "ddr")
    if not two_kinds and totals:
        return totals[0], "ddr"
    return None, "hbm" if two_kinds else "ddr"


def _process(cells: list[str]) -> Process | None:
    if len(cells) < 3 or not cells[1].isdecimal():
        return None
    place = cells[0].split()
    if not place or not all(part.isdecimal() for part in place):
        return None
    return Process(int(place[0]), int(place[1]) if len(place) > 1 else 0, int(cells[1]), cells[2])


def _values(lines: list[str]) -> list[Npu]:
    """Read outputs about single devices, each after the command that printed it."""
    found: list[Npu] = []
    npu = chip = 0
    for line in lines:
        if command := _COMMAND.search(line):
            npu, chip = int(command["npu"]), int(command["chip"] or 0)
        value = _VALUE.match(line)
        if value and value["key"].lower() in {"health status", "health"}:
            found.append(Npu(npu, chip, health=value["value"]))
    return found
