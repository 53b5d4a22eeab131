"""envbuilder validate"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from envbuilder.cli import options
from envbuilder.cli.arguments import DeviceArguments, Dimensions, MatrixFolder, ProofFiles, Talk
from envbuilder.cli.image_argument import find_image, on_project
from envbuilder.cli.report import show_report
from envbuilder.environment.image_names import PROJECT, is_candidate
from envbuilder.errors import HostError, UsageError, ValidationError
from envbuilder.language import tr
from envbuilder.matrix.model import Depth

if TYPE_CHECKING:
    from envbuilder.docker.engine import Docker
    from envbuilder.environment import Catalog, Environment
    from envbuilder.validate import ValidationLevel


@options.command("validate")
@click.argument("target", metavar="[IMAGE|ID]", required=False, shell_complete=options.complete_identifier)
@options.dimensions
@options.option("--local", is_flag=True, help="Validate this host instead of an image.")
@options.option(
    "--level", type=click.Choice(["static", "import", "train"]), default="train", show_default=True,
    help="How far to go; each level includes those before it.",
)  # fmt: skip
@options.devices
@options.option(
    "--depth", type=click.Choice(["auto", "trainer", "engine"]), default="auto", show_default=True,
    help="Whether the row's own engine generates the samples.",
)  # fmt: skip
@options.option(
    "--backend", metavar="NAME", help="What trains the model, such as megatron; default: the framework's usual one."
)
@options.registry
@options.option("--name", is_flag=True, help="Give a candidate that passes its name, as `build` does.")
@options.option("--record", is_flag=True, help="Record the proof in the evidence of the row.")
@options.option("--report", type=options.OUTPUT_FILE, help="Write a JSON report to this file.")
@options.proof_files
@options.as_json
@options.matrices
@options.talk
def command(
    target: str | None, dimensions: Dimensions, local: bool, level: str, devices: DeviceArguments, depth: str,
    backend: str | None, registry: str, name: bool, record: bool, report: Path | None, proof_files: ProofFiles,
    json_: bool, matrices: MatrixFolder, talk: Talk,
) -> None:  # fmt: skip
    """Prove an image: what is installed, what can be imported, and a GRPO run of the framework that has to learn.

    The label of an image names its environment. An ID selects the image that `build` makes of it, or else its
    rehearsal.
    """
    from envbuilder.cli.progress import shown
    from envbuilder.docker.engine import Docker
    from envbuilder.validate.gate import failure, give_name, hand_out, keep
    from envbuilder.validate.proof import prove_host, prove_image, record_proof

    console, catalog = talk.console, matrices.catalog(everything=True)
    wanted = cast("ValidationLevel", level), None if depth == "auto" else cast(Depth, depth), backend
    if local and name:
        raise UsageError(tr("--name is for an image: leave out --local"))
    if local:
        environment, labels = _installed(catalog, target, dimensions, talk)
        settings = devices.validation(environment, *wanted)
        console.talk(tr("validating this host as {environment}", environment=environment.id))
        with shown(console) as progress:
            found = prove_host(environment, labels, settings, progress)
    else:
        docker = Docker()
        image, environment = _image(catalog, target, dimensions, talk, registry, docker, candidate=name)
        settings = devices.validation(environment, *wanted)
        console.talk(tr("validating {image} as {environment}", image=image, environment=environment.id))
        with shown(console) as progress:
            found = prove_image(environment, image, docker, settings, progress)
    place = keep(found)
    hand_out(place, {**({"json": report} if report else {}), **proof_files.by_form})
    if json_:
        console.data(found.document())
    else:
        show_report(console, found)
    if record:
        if environment.additions is not None:
            raise UsageError(tr("the evidence of a row is of the row alone: leave out --record"))
        record_proof(found, environment, matrices.folder)
    if not found.passed:
        raise failure(found, place)
    if name:
        console.talk(tr("proven, and named {image}", image=give_name(image, found, docker)))


def _installed(
    catalog: Catalog, name: str | None, dimensions: Dimensions, talk: Talk
) -> tuple[Environment, dict[str, str]]:
    """Return the environment of this host, by default that of the active installation, and its labels."""
    from envbuilder.install import installation_here

    installed = installation_here()
    environment = dimensions.environment(catalog, name or (installed.environment if installed else None), talk)
    if installed is not None and installed.environment != environment.id:
        fields = {"prefix": installed.prefix, "found": installed.environment, "environment": environment.id}
        raise HostError(tr("{prefix} holds {found}, and not {environment}", **fields))
    labels = dict(installed.labels) if installed else {}
    if environment.additions is None:
        environment = on_project(environment, labels)
    return environment.as_labelled(labels), labels


def _image(
    catalog: Catalog, name: str | None, dimensions: Dimensions, talk: Talk, registry: str, docker: Docker,
    *, candidate: bool,
) -> tuple[str, Environment]:  # fmt: skip
    found = find_image(catalog, name, dimensions, talk, registry, docker, rehearsal=True, candidate=candidate)
    if candidate and not is_candidate(found.image):
        raise UsageError(
            tr("{image} is not the name of a candidate", image=found.image),
            hint=tr("--name is for images that `envbuilder bake` has named, or that a build has left"),
        )
    if found.environment is None:
        raise ValidationError(
            tr("{image} has no label envbuilder.environment, so its environment is unknown", image=found.image),
            hint=tr("only images that envbuilder has built can be validated"),
        )
    if found.environment.additions is None and (made := docker.image(found.image)) and PROJECT in made.labels:
        raise UsageError(
            tr("{image} is an image of the project {project}", image=found.image, project=made.labels[PROJECT]),
            hint=tr("validate it in the folder of the project, which has its lock"),
        )
    return found.image, found.environment
