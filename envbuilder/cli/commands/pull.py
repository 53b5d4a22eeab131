"""envbuilder pull"""

from __future__ import annotations

from pathlib import Path

from envbuilder.cli import options
from envbuilder.cli.arguments import DeviceArguments, Dimensions, MatrixFolder, Talk
from envbuilder.cli.json import document
from envbuilder.cli.report import show_report
from envbuilder.environment.coordinates import USUAL_REGISTRY
from envbuilder.errors import UsageError
from envbuilder.language import tr


@options.command("pull")
@options.identifier
@options.dimensions
@options.registry_of("Prefix of image names in the registry to pull from.")
@options.mirrors
@options.verify_keys
@options.allow_unsigned
@options.ca_bundle
@options.option(
    "--save", type=options.OUTPUT_FILE,
    help="Write the image into this file, with a checksum, instead of loading it into the engine.",
)  # fmt: skip
@options.option("--upstream", is_flag=True, help="Take an image that the upstream projects publish for the same row.")
@options.option("--verify", is_flag=True, help="Validate the image after the pull, as far as this machine can.")
@options.devices
@options.as_json
@options.matrices
@options.talk
def command(
    identifier: str | None, dimensions: Dimensions, registry: str | None, mirrors: tuple[str, ...],
    verify_keys: tuple[str, ...], allow_unsigned: bool, ca_bundle: Path | None, save: Path | None, upstream: bool,
    verify: bool, devices: DeviceArguments, json_: bool, matrices: MatrixFolder, talk: Talk,
) -> None:  # fmt: skip
    """Pull a prebuilt image of an environment by digest, after a comparison of its labels with the row.

    Without an ID, the options and this machine choose the environment.
    """
    if verify and save is not None:
        raise UsageError(
            tr("an image in a file cannot be validated"), hint=tr("envbuilder load, and then envbuilder validate")
        )
    from envbuilder.cli.passwords import trusted
    from envbuilder.cli.progress import shown
    from envbuilder.docker.engine import Docker
    from envbuilder.registry.pull import RegistryOptions, pull
    from envbuilder.validate.gate import failure, keep
    from envbuilder.validate.proof import prove_image

    console, catalog = talk.console, matrices.catalog()
    environment = dimensions.environment(catalog, identifier, talk)
    if registry is None and not upstream:
        raise UsageError(
            tr("no registry to pull from is set"),
            hint=tr(
                "--registry PREFIX, or `envbuilder config set registry PREFIX`; --upstream takes what "
                "the projects publish, and `envbuilder build` makes the image here"
            ),
        )
    report = None
    with shown(console) as progress:
        trust = trusted(verify_keys, allow_unsigned=allow_unsigned)
        server = RegistryOptions(registry or USUAL_REGISTRY, mirrors, ca_bundle, trust)
        choice = pull(environment, catalog, server, progress, upstream=upstream, save=save)
        if verify:
            report = prove_image(environment, choice.name, Docker(), devices.validation(environment), progress)
    if json_:
        parts = {"image": choice.name, "digest": choice.image.digest, "id": choice.image.id, "size": choice.image.size}
        validation = report.document() if report else None
        console.data(document(environment=environment.id, from_=str(choice.place), **parts, validation=validation))
    else:
        console.out(str(save) if save is not None else choice.name)
        if report is not None:
            show_report(console, report)
    if report is not None and not report.passed:
        raise failure(report, keep(report))
