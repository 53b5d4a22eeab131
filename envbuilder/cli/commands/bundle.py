"""envbuilder bundle"""

from __future__ import annotations

from pathlib import Path

from envbuilder.cli import options
from envbuilder.cli.arguments import (
    Dimensions,
    IndexArguments,
    MatrixFolder,
    ReachArguments,
    SourceArguments,
    Talk,
)
from envbuilder.errors import UsageError
from envbuilder.language import tr


@options.command("bundle")
@options.identifier
@options.dimensions
@options.option("-o", "--output", type=options.OUTPUT_FILE, required=True, help="File to write.")
@options.option(
    "--for-build", is_flag=True,
    help="Add what `build --offline` needs: the base image and packages of its distribution; needs the docker engine.",
)  # fmt: skip
@options.bundle_sign_key
@options.reach
@options.sources
@options.index
@options.matrices
@options.talk
def command(
    identifier: str | None, dimensions: Dimensions, output: Path, for_build: bool, sign_key: Path | None,
    reach: ReachArguments, sources: SourceArguments, index: IndexArguments, matrices: MatrixFolder, talk: Talk,
) -> None:  # fmt: skip
    """Write everything that a site without a network needs of an environment into one file, for `--offline`.

    The file contains the locked wheels, sources at their commits, the Dockerfile and the script, each with its digest.
    """
    from envbuilder.bundle.make import BundleOptions, make_bundle
    from envbuilder.cli.passwords import private_key
    from envbuilder.cli.progress import shown

    environment = dimensions.environment(matrices.catalog(everything=True), identifier, talk)
    if for_build and environment.system and environment.system.installer == "dnf":
        raise UsageError(
            tr("--for-build gathers packages of Ubuntu and Debian, not of {system}", system=environment.system.title),
            hint=tr("leave --os out, or build the image where there is a network and move it with docker save"),
        )
    key = private_key(sign_key) if sign_key else None
    network = reach.network(index.ca_bundle)
    settings = BundleOptions(sources.options(index), reach.base(), network, for_build, key)
    with shown(talk.console) as progress:
        size = make_bundle(environment, output, settings, progress)
    talk.console.talk(f"{environment.id}: {size / 10**9:.2f} GB")
    talk.console.out(str(output))
