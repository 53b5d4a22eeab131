"""A replacement of npu-smi that describes the chips of a stand-in, for containers and for tests of hosts."""

from __future__ import annotations

_WIDTHS = (27, 15, 52)


def npu_smi(soc: str, devices: int, per_card: int, memory_gb: int, driver: str) -> str:
    """Return a shell script that answers `npu-smi info`, `info -l` and `info -t board`."""
    cards = -(-devices // per_card)
    return "\n".join(
        [
            "#!/bin/sh",
            'case "$*" in',
            f"info) cat <<'END'\n{_table(soc, devices, per_card, memory_gb, driver)}END\n;;",
            f"'info -l') printf '\\tTotal Count : {cards}\\n'",
            *(f"  printf '\\n\\tNPU ID : {card}\\n\\tChip Count : {per_card}\\n'" for card in range(cards)),
            ";;",
            "*'-t board'*)",
            f"  printf '\\tNPU ID : 0\\n\\tSoftware Version : {driver}\\n'",
            '  case "$*" in *-c*)',
            *(f"    printf '\\t{name} : {value}\\n'" for name, value in _board(soc)),
            "  esac ;;",
            "*) echo \"npu-smi of a stand-in does not support '$*'\" >&2; exit 1 ;;",
            "esac\n",
        ]
    )


def _board(soc: str) -> list[tuple[str, str]]:
    """Return the names by which builds recognize a chip: two parts of its SOC name, split in one of two ways."""
    chip, _, number = soc.partition("_")
    if number:
        return [("Chip Name", chip), ("NPU Name", number)]
    letters = soc.rstrip("0123456789-BC")
    return [("Chip Type", letters), ("Chip Name", soc.removeprefix(letters))]


def _table(soc: str, devices: int, per_card: int, memory_gb: int, driver: str) -> str:
    chip = dict(_board(soc))["Chip Name"]
    whole = sum(_WIDTHS) + 2

    def row(*cells: str) -> str:
        return "|" + "|".join(f" {cell}".ljust(width) for cell, width in zip(cells, _WIDTHS, strict=True)) + "|"

    def border(mark: str) -> str:
        return "+" + "+".join(mark * width for width in _WIDTHS) + "+"

    lines = [
        "+" + "-" * whole + "+",
        f"| npu-smi stand-in    Version: {driver}".ljust(whole + 1) + "|",
        border("-"),
        row("NPU   Name", "Health", "Power(W)    Temp(C)           Hugepages-Usage(page)"),
        row("Chip  Phy-ID", "Bus-Id", "AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)"),
        border("="),
    ]
    for device in range(devices):
        card, die = divmod(device, per_card)
        lines += [
            row(f"{card:<5} {chip}", "OK", "0           0                 0    / 0"),
            row(
                f"{die:<5} {device}",
                f"0000:{device + 1:02X}:00.0",
                f"0           0    / 0          0    / {memory_gb * 1024}",
            ),
            border("="),
        ]
    lines += [border("-"), row("NPU     Chip", "Process id", "Process name | Process memory(MB)"), border("=")]
    lines += [
        f"| No running processes found in NPU {card}".ljust(whole + 1) + "|" for card in range(-(-devices // per_card))
    ]
    return "\n".join([*lines, border("="), ""])
