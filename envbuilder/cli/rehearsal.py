"""Chooses what `build --rehearse` builds without an identifier."""

from __future__ import annotations

from envbuilder import platforms
from envbuilder.cli.arguments import Dimensions
from envbuilder.cli.console import Console
from envbuilder.environment import Catalog
from envbuilder.environment.coordinates import spelled
from envbuilder.language import tr


def for_this_machine(catalog: Catalog, dimensions: Dimensions, console: Console) -> Dimensions:
    """Return the dimensions with the architecture of this machine, where nothing has to be emulated.

    A product that does not exist with it gives way to its family, whose images are the same.
    """
    if dimensions.arch is not None:
        return dimensions
    here = Dimensions(**{**dimensions.__dict__, "arch": platforms.arch()})
    if catalog.has(here.filters):
        return here
    name = spelled(dimensions.hw or "")
    for family, hardware in catalog.hardware.items():
        alike = Dimensions(**{**here.__dict__, "hw": family})
        if name in hardware.products and catalog.has(alike.filters):
            product = hardware.products[name]
            named = {"product": product.title, "arches": ", ".join(product.arches), "family": hardware.title}
            console.talk(
                tr("{product} exists for {arches} alone: rehearsing {family} on {arch}", **named, arch=here.arch)
            )
            return alike
    # the architecture that exists is emulated, or is an error
    return dimensions
