"""Prints tables of npu-smi in each of its layouts, for hosts of tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from envbuilder.machine.npu_smi import Npu


class Layout(NamedTuple):
    """The columns: the second word of the chip row, memory beside the cores, a bar behind the number."""

    second: str = ""
    hbm: bool = True
    barred: bool = False
    widths: tuple[int, int, int] = (27, 15, 52)
    fifth: bool = False


LAYOUTS = {
    "310": Layout(second="Device", hbm=False, widths=(31, 17, 54)),
    "910": Layout(),
    "a3": Layout(second="Phy-ID"),
    "950": Layout(barred=True, widths=(27, 15, 53)),
    "wide": Layout(second="Phy-ID", widths=(27, 15, 70), fifth=True),
}


def table(layout: Layout, tool: str, driver: str, devices: Sequence[Npu], busy: Sequence[int] = ()) -> str:
    whole = sum(layout.widths) + 2
    names = ("NPU ID | Name", "       |") if layout.barred else ("NPU   Name", f"Chip  {layout.second}")
    cores = "NPU Util(%)" if layout.barred else "AICore(%)"
    memory = "Memory-Usage(MB)  HBM-Usage(MB)" if layout.hbm else "Memory-Usage(MB)"

    def row(*cells: str) -> str:
        return "|" + "|".join(f" {cell}".ljust(width) for cell, width in zip(cells, layout.widths, strict=True)) + "|"

    def border(mark: str) -> str:
        return "+" + "+".join(mark * width for width in layout.widths) + "+"

    lines = [
        "+" + "-" * whole + "+",
        f"| npu-smi {tool}    Version: {driver}".ljust(whole + 1) + "|",
        border("-"),
        row(names[0], "Health", "Power(W)    Temp(C)           Hugepages-Usage(page)"),
        row(names[1], "Bus-Id", f"{cores}   {memory}"),
        border("="),
    ]
    for place, device in enumerate(devices):
        used = f"0    / 0          {7 * place:<5}/ {device.memory_total_mb}"
        if not layout.hbm:
            used = f"{7 * place} / {device.memory_total_mb}"
        number = f"{device.npu:<6} | {device.name}" if layout.barred else f"{device.npu:<5} {device.name}"
        chip = "       |" if layout.barred else f"{device.chip:<5} {'' if device.phy_id is None else device.phy_id}"
        power = "-" if device.chip else "94.6"
        lines += [
            row(number, device.health or "", f"{power}        49                0    / 0"),
            row(chip, device.bus_id or "NA", f"0           {used}"),
            border("="),
        ]
    title = "NPU     Chip | Process id | Process name | Process memory(MB)" + (
        " | Process id in container" if layout.fifth else ""
    )
    lines += [border("-"), f"| {title}".ljust(whole + 1) + "|", border("=")]
    for npu in sorted({device.npu for device in devices}):
        line = f"| No running processes found in NPU {npu}"
        if npu in busy:
            line = f"| {npu}       0                 | {4000 + npu}    | python   | 30710 " + (
                "| 17 " if layout.fifth else ""
            )
        lines += [line.ljust(whole + 1) + "|", border("=")]
    return "\n".join(lines) + "\n"
