"""envbuilder base"""

from __future__ import annotations

from typing import Any

import click

from envbuilder import platforms
from envbuilder.cli import arguments, options
from envbuilder.environment.resolve import resolve
from envbuilder.environment.select import pick
from envbuilder.errors import UsageError
from envbuilder.plan import make_plan


@click.command("base")
@options.dimensions
@options.apt_mirror
@options.matrices
@options.talking
def command(**given: Any) -> None:
    """The base image of a rehearsal from the distribution's own packages (debootstrap, as root).

    `build` does this by itself where the registry of the base image cannot be reached.
    """
    from envbuilder.docker.engine import Engine
    from envbuilder.inputs.base_image import local_base

    console, matrix = arguments.console_of(given), arguments.matrix_of(given)
    filters = arguments.filters_of(given)
    environment = resolve(matrix, pick(matrix, None, filters._replace(arch=filters.arch or platforms.arch())))
    local = environment.hardware.local_base
    if local is None:
        makers = [name for name, hardware in matrix.hardware.items() if hardware.local_base]
        raise UsageError(
            f"the base image of {environment.hardware.title} comes from its vendor and cannot be made here",
            hint=f"--hw {' or '.join(makers)}",
        )
    standard = make_plan(matrix, environment).base_image
    console.out(local_base(Engine(), local, standard, given["apt_mirror"], console.talk))
