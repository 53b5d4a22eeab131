"""The rule for devices that share a card: a job takes one device, or whole cards."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from envbuilder.errors import HostError
from envbuilder.language import counted, tr
from envbuilder.matrix.model import Hardware


def possible_devices(hardware: Hardware, wanted: Sequence[int], present: Sequence[int]) -> tuple[int, ...]:
    """Return which of the present devices a job can take for the wanted ones: the same, or all of their cards."""
    if len(wanted) <= 1:
        return tuple(wanted)
    step = hardware.devices_per_card
    cards = [range(card * step, (card + 1) * step) for card in dict.fromkeys(number // step for number in wanted)]
    return tuple(number for card in cards if set(card) <= set(present) for number in card)


def check_number(hardware: Hardware, npus: int) -> None:
    """Refuse a number of devices that a machine does not have, or that splits a card."""
    if hardware.devices and npus > hardware.devices:
        named = {"hardware": hardware.title, "devices": hardware.devices, "npus": npus}
        raise HostError(tr("{hardware} has {devices} NPUs, and not {npus}", **named), hint=tr("--nodes adds machines"))
    cards = ceil(npus / hardware.devices_per_card)
    if npus > 1 and npus != cards * hardware.devices_per_card:
        raise part_of_a_card(hardware, counted(npus, "NPU"), f"--npus {cards * hardware.devices_per_card}")


def part_of_a_card(hardware: Hardware, wanted: str, possible: str | None) -> HostError:
    """Return the error for a choice that splits a card; `possible` is the option to give instead."""
    return HostError(
        tr(
            "{hardware} has {number} devices on a card, and a job takes 1 of them or whole cards: {wanted} are neither",
            hardware=hardware.title,
            number=hardware.devices_per_card,
            wanted=wanted,
        ),
        hint=possible,
    )
