"""The rule for devices that share a card: a job takes one device, or whole cards."""

from __future__ import annotations

from collections.abc import Sequence

from envbuilder.errors import HostError
from envbuilder.matrix.model import Hardware


def possible_number(hardware: Hardware, wanted: int) -> int:
    """How many a job can take where somebody wants so many: the same, or more."""
    step = hardware.devices_per_card
    return wanted if wanted <= 1 else -(-wanted // step) * step


def possible_devices(hardware: Hardware, wanted: Sequence[int], there: Sequence[int]) -> tuple[int, ...]:
    """Which a job can take where somebody wants these, of those that are there: the same, or all of their cards."""
    if len(wanted) <= 1:
        return tuple(wanted)
    step = hardware.devices_per_card
    cards = [range(card * step, (card + 1) * step) for card in dict.fromkeys(number // step for number in wanted)]
    return tuple(number for card in cards if set(card) <= set(there) for number in card)


def part_of_a_card(hardware: Hardware, wanted: str, possible: str) -> HostError:
    """What was wanted, in words, and what `--npus` takes instead, if anything."""
    on_a_card = f"{hardware.title} has {hardware.devices_per_card} devices on a card"
    return HostError(
        f"{on_a_card}, and a job takes 1 of them or whole cards: {wanted} are neither",
        hint=f"--npus {possible}" if possible else None,
    )
