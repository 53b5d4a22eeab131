"""envbuilder base"""

from __future__ import annotations

from envbuilder.cli import options
from envbuilder.cli.arguments import Dimensions, MatrixFolder, Talk
from envbuilder.errors import UsageError
from envbuilder.language import tr


@options.command("base")
@options.dimensions
@options.apt_mirror
@options.matrices
@options.talk
def command(dimensions: Dimensions, apt_mirror: str | None, matrices: MatrixFolder, talk: Talk) -> None:
    """Make the base image of CPU environments from the distribution's own packages (mmdebstrap).

    `build` does this automatically if the registry of the base image cannot be reached.
    """
    from envbuilder.docker.engine import Docker
    from envbuilder.inputs.base_image import local_base

    catalog = matrices.catalog()
    environment = dimensions.environment(catalog, None, talk)
    local = environment.hardware.local_base
    if local is None:
        possible = [name for name, hardware in catalog.hardware.items() if hardware.local_base]
        title = environment.hardware.title
        raise UsageError(
            tr("the base image of {hardware} comes from its vendor and cannot be made from packages", hardware=title),
            hint=f"--hw {tr(' or ').join(possible)}",
        )
    talk.console.out(local_base(environment, local, apt_mirror, Docker(), talk.console.talk))
