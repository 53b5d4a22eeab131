"""Finds the family of a chip by its name in npu-smi, by its number on the PCI bus, or by the tag of an image."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from envbuilder.language import tr
from envbuilder.matrix.model import Chips


def family_of(chips: Chips, name: str) -> str | None:
    """Return the family of a chip.

    The vendor's own spelling comes first: `Ascend910` is one chip, while `Ascend910B1` is `910B1` with a prefix.
    """
    plain = name.lower().replace(" ", "")
    for spelt in (plain, plain.removeprefix("ascend").lstrip("-_")):
        for family, known in chips.families.items():
            if any(fnmatchcase(spelt, pattern.lower()) for pattern in known.chips):
                return family
    return None


def family_of_number(chips: Chips, number: int) -> str | None:
    """Return the family of a chip by the number that torch_npu has for it."""
    return next((family for family, known in chips.families.items() if number in known.soc_numbers), None)


def family_on_bus(chips: Chips, numbers: Iterable[str]) -> str | None:
    found = {family for number in numbers for family, known in chips.families.items() if number in known.pci}
    return found.pop() if len(found) == 1 else None


def family_of_tag(chips: Chips, tag: str) -> str | None:
    """Return the family that the tag of an image is for, or None if several match."""
    words = tag.lower().replace("_", "-").split("-")
    named = [family for family, known in chips.families.items() if any(word in words for word in known.image_words)]
    if not named:
        named = [family for family, known in chips.families.items() if known.unmarked_images]
    return named[0] if len(named) == 1 else None


def supported(chips: Chips) -> str:
    """Return the titles of the families that rows support, joined by `or`."""
    return tr(" or ").join(known.title for known in chips.families.values() if known.supported and known.chips)
