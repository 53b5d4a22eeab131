"""envbuilder quickstart"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from envbuilder.cli import options
from envbuilder.cli.arguments import ContainerArguments, Dimensions, MatrixFolder, Talk
from envbuilder.cli.json import document
from envbuilder.environment.coordinates import USUAL_REGISTRY
from envbuilder.errors import UsageError
from envbuilder.language import tr
from envbuilder.launch import CLUSTER, FORMS
from envbuilder.launch.container import ContainerOptions, Launch, Mount, Needs, needs_elsewhere, needs_in_cluster
from envbuilder.launch.prepare import needs_for, start_container
from envbuilder.quickstart.choose import Training, TrainingOptions, training_of
from envbuilder.quickstart.cluster import HEAD, Given, compose, rayjob, role
from envbuilder.quickstart.script import DEFAULT_WORK, WORK, lines_of_nodes, script
from envbuilder.quickstart.shell import DEFAULT_ROUTE
from envbuilder.quickstart.steps import (
    IMAGE_VARIABLE,
    UNKNOWN_HEAD,
    ClusterNetwork,
    NodeStep,
    container_options,
    steps_of,
)

if TYPE_CHECKING:
    from envbuilder.environment import Catalog

_SHELL = "shell"
# the variable of the library that fetches models
_MODEL_MIRROR = "HF_ENDPOINT"
_SEVERAL = {"compose": compose, CLUSTER: rayjob}
_INTERFACE = {
    _SHELL: "nodes are reached over the interface of the default route; --interface names another",
    CLUSTER: "the interface between the nodes is not known; --interface names it",
}


@options.command("quickstart")
@options.identifier
@options.dimensions
@options.registry
@options.option(
    "--recipe", metavar="NAME", help="Recipe to train; default: the usual one of the framework, such as grpo."
)
@options.option(
    "--npus", type=click.IntRange(1), metavar="N", help="NPUs of each node; default: those of the document."
)
@options.option("--nodes", type=click.IntRange(1, 999), default=1, show_default=True, help="Number of machines.")
@options.option("--model", metavar="PATH", help="Train another model, by path or by name.")
@options.option("--data", metavar="PATH", help="Path of the data, existing or to be made.")
@options.option("--output", metavar="PATH", help="Path of the checkpoints.")
@options.option(
    "--work", type=options.FOLDER, default=Path(DEFAULT_WORK), show_default=True,
    help="Folder of this host that keeps data, models, caches and checkpoints.",
)  # fmt: skip
@options.model_mirror
@options.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a setting of the trainer.")
@options.option(
    "--as-documented", is_flag=True, help="Keep the document's values, even where this release refuses them."
)
@options.option(
    "--reproducible", is_flag=True,
    help="Draw the same samples on every device, for envbuilder compare; this trains less well.",
)  # fmt: skip
@options.option(
    "--format", "form", type=click.Choice([_SHELL, *_SEVERAL]), default=_SHELL, show_default=True,
    help="Print lines for a shell, a compose file for one host, or a job for a cluster.",
)  # fmt: skip
@options.option("--head", metavar="ADDRESS", help="Address of the head node.")
@options.option(
    "--interface", metavar="NAME", help="Network interface between nodes; default: that of the default route."
)
@options.option("--run", "run_", is_flag=True, help="Run the training in a container of the image in the engine.")
@options.option("--worker", is_flag=True, help="With --run: join the head as a worker.")
@options.container
@options.as_json
@options.matrices
@options.talk
def command(
    identifier: str | None, dimensions: Dimensions, registry: str, recipe: str | None, npus: int | None, nodes: int,
    model: str | None, data: str | None, output: str | None, work: Path,
    model_mirror: str | None, settings: tuple[str, ...], as_documented: bool, reproducible: bool, form: str,
    head: str | None, interface: str | None, run_: bool, worker: bool, container: ContainerArguments, json_: bool,
    matrices: MatrixFolder, talk: Talk,
) -> None:  # fmt: skip
    """Print or run the training of the documents: data, Ray on several nodes, a check of all of them, the command.

    Values that cannot work are refused with the reason. Nothing is started without --run.
    """
    _refuse_mixtures(form, run_, json_)
    if worker and not (run_ and head and nodes > 1):
        raise UsageError(tr("--worker needs a head to join"), hint=tr("add --run, --nodes and --head ADDRESS"))
    console, catalog = talk.console, matrices.catalog()
    environment = dimensions.environment(catalog, identifier, talk)
    wanted = TrainingOptions(npus, nodes, model, data, output, _settings(settings), as_documented, reproducible)
    training = training_of(environment, recipe, wanted)
    network = ClusterNetwork(head or UNKNOWN_HEAD, interface or DEFAULT_ROUTE)
    added = _given(work, model_mirror, container, form, run_)
    paths = {"model": model, "data": data, "output": output}
    for note in [*_notes(training, network, form, run_), *_not_inside(paths, added, run_)]:
        console.talk(note)
    if run_:
        work.mkdir(parents=True, exist_ok=True)
        _run(catalog, training, network, added, registry, "worker" if worker else HEAD, talk)
    image = environment.image_name(registry)
    kept = str(work) if work.is_absolute() else f"./{work}"
    more = _container_options(registry, added.variables, [f"{kept}:{WORK}", *container.volume])
    steps = steps_of(training, network, image, more)
    if json_:
        console.data(_document(training, image, steps))
    elif form == _SHELL:
        console.out(lines_of_nodes(training, steps) if training.nodes > 1 else script(training, steps, kept))
    elif training.uses_ray:
        console.out(_SEVERAL[form](training, image, added, network).rstrip("\n"))
    else:
        needs = (needs_in_cluster if form == CLUSTER else needs_elsewhere)(environment, container_options(training))
        launch = _launch(training, image, needs, added, ClusterNetwork(), HEAD)
        console.out(FORMS[form](launch).rstrip("\n"))


def _refuse_mixtures(form: str, run_: bool, json_: bool) -> None:
    if (json_ or run_) and form != _SHELL:
        raise UsageError(tr("--format {form} prints a file of its own; leave out --json and --run", form=form))
    if run_ and json_:
        raise UsageError(tr("--run starts a container, and --json prints; give one of them"))


def _settings(texts: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise UsageError(tr("--set takes KEY=VALUE, not '{text}'", text=text))
        found[key] = value
    return found


def _notes(training: Training, network: ClusterNetwork, form: str, run_: bool) -> list[str]:
    """Return notes about what the printed text does not show."""
    hardware = training.environment.hardware
    found = [tr("not as documented: {because}", because=tr(text)) for text in training.departures]
    found += [tr(" ".join(text.split())) for text in training.notes]
    if training.draws:
        found.append(tr("draws: {draws}", draws=tr(training.draws)))
    if not hardware.devices:
        found.append(
            tr(
                "{hardware} has no NPUs, which this training needs; envbuilder validate trains without NPUs",
                hardware=hardware.title,
            )
        )
    found += [f"{issue.what}: {issue.workaround}" for issue in training.environment.known_issues if issue.opt_in]
    if training.nodes > 1 and form == _SHELL and not run_ and network.head == UNKNOWN_HEAD:
        found.append(tr("{word} stands for the address of the head; --head fills it in", word=UNKNOWN_HEAD))
    if training.spans and network.interface == DEFAULT_ROUTE and form in _INTERFACE:
        found.append(tr(_INTERFACE[form]))
    return found


def _given(work: Path, mirror: str | None, container: ContainerArguments, form: str, run_: bool) -> Given:
    """Return the user's volumes and variables, with the folder whose files stay when the container ends.

    In a cluster the user names a volume instead.
    """
    variables: dict[str, str | None] = {_MODEL_MIRROR: mirror} if mirror else {}
    volumes = container.volumes
    if form != CLUSTER:
        variables["HOME"] = WORK
        volumes = (Mount(str(work.absolute()) if run_ else work.name, WORK, read_only=False), *volumes)
    return Given(volumes, {**variables, **container.variables})


def _container_options(
    registry: str, variables: Mapping[str, str | None], volumes: Sequence[str]
) -> list[tuple[str, str]]:
    """Return the options for the lines that call `envbuilder run`."""
    found = [("--registry", registry)] if registry != USUAL_REGISTRY else []
    found += [("--volume", text) for text in volumes]
    return found + [("--env", name if value is None else f"{name}={value}") for name, value in variables.items()]


def _document(training: Training, image: str, steps: list[NodeStep]) -> dict[str, Any]:
    return document(
        environment=training.environment.id,
        recipe=training.recipe.recipe,
        title=training.recipe.title,
        image=image,
        npus=training.npus,
        nodes=training.nodes,
        settings=dict(training.settings),
        steps=[asdict(step) for step in steps],
        departures=list(training.departures),
        notes=list(training.notes),
        draws=training.draws,
        source=list(training.sources),
    )


def _not_inside(paths: Mapping[str, str | None], added: Given, run_: bool) -> Iterator[str]:
    """Yield a note for each path that is on this host but not in the container; with --run it is an error."""
    for name, path in paths.items():
        if path and path.startswith("/") and Path(path).exists() and not added.covers(path):
            problem = tr("--{name} {path} is on this host, and not in the container", name=name, path=path)
            hint = f"--volume {path}:{path}"
            if run_:
                raise UsageError(problem, hint=hint)
            yield f"{problem}: {hint}"


def _launch(training: Training, image: str, needs: Needs, added: Given, network: ClusterNetwork, place: str) -> Launch:
    """Return one container that runs all steps of a node."""
    environment = training.environment
    needs = replace(needs, variables={**needs.variables, **added.variables})
    words = ("bash", "-c", role(training, network, place))
    return Launch(image, environment.coordinates.arch, needs, environment.id, command=words, volumes=added.volumes)


def _run(
    catalog: Catalog, training: Training, network: ClusterNetwork, added: Given, registry: str, place: str,
    talk: Talk,
) -> NoReturn:  # fmt: skip
    from envbuilder.cli.image_argument import find_image
    from envbuilder.docker.engine import Docker

    environment, docker = training.environment, Docker()
    target = environment.image_name(registry) if environment.additions else environment.id
    found = find_image(catalog, target, Dimensions(), talk, registry, docker)
    npus = training.npus if environment.hardware.devices else None
    hint = tr("without --run the commands are printed")
    needs, notes = needs_for(environment, None, ContainerOptions(None, npus, training.spans), hint)
    for note in notes:
        talk.console.talk(note)
    made = docker.image(found.image)
    added = added._replace(variables={IMAGE_VARIABLE: made.id if made else found.image, **added.variables})
    start_container(_launch(training, found.image, needs, added, network, place))
