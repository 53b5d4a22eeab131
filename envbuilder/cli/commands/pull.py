"""envbuilder pull"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from envbuilder.cli import arguments, options
from envbuilder.cli.commands.validate import prove, show
from envbuilder.cli.json import document
from envbuilder.errors import UsageError


@click.command("pull")
@options.identifier()
@options.dimensions
@options.registry
@options.option(
    "--mirror", "mirrors", multiple=True, metavar="HOST[/PATH]",
    help="Take the layers from here where it has the same image; may be given several times, the first that can wins.",
)  # fmt: skip
@options.ca_bundle
@options.option(
    "--save", type=click.Path(path_type=Path, dir_okay=False),
    help="Write the image into this file, with a checksum beside it, instead of handing it to an engine.",
)  # fmt: skip
@options.option("--upstream", is_flag=True, help="An image that the projects themselves publish of the same row.")
@options.option("--verify", is_flag=True, help="Validate the image after the pull, as far as this machine can.")
@options.devices
@options.as_json
@options.matrices
@options.talking
def command(identifier: str | None, save: Path | None, upstream: bool, verify: bool, json_: bool, **given: Any) -> None:
    """A prebuilt image of an environment, by digest, after its own words were compared with the row.

    What the options leave open is what this machine can run.
    """
    if verify and save is not None:
        raise UsageError("an image in a file cannot be validated", hint="envbuilder load, and then envbuilder validate")
    from envbuilder.cli.progress import shown
    from envbuilder.registry.archive import save as save_archive
    from envbuilder.registry.pull import Source, choose, choose_upstream, fetch, proof_of

    console, matrix = arguments.console_of(given), arguments.matrix_of(given)
    environment = arguments.environment_of(matrix, identifier, given)
    source = Source(given["registry"], given["mirrors"], given["ca_bundle"])
    with shown(console) as progress:
        find = choose_upstream if upstream else choose
        choice = find(matrix, environment, source, progress)
        registry = source.of(choice.place.api)
        progress.say(f"{choice.place}: {choice.image.size / 10**9:.2f} GB, {proof_of(registry, choice.image)}")
        if save is not None:
            save_archive(registry, choice.image, choice.name, save, progress)
        else:
            from envbuilder.docker.engine import Engine

            fetch(choice, Engine(), progress)
    report = prove(console, matrix, choice.name, given) if verify else None
    if json_:
        parts = {"image": choice.name, "digest": choice.image.digest, "id": choice.image.id, "size": choice.image.size}
        told = report.document() if report else None
        console.data(document(environment=environment.id, from_=str(choice.place), **parts, validation=told))
    else:
        console.out(str(save) if save is not None else choice.name)
        if report is not None:
            show(console, report)
    if report is not None and not report.passed:
        from envbuilder.validate.gate import failure, keep

        raise failure(report, keep(report))
