"""envbuilder quickstart"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from envbuilder.cli import arguments, options
from envbuilder.cli.commands.run import needs_for, start_now, variables_of, volume_of
from envbuilder.cli.json import document
from envbuilder.environment.image_names import image_name
from envbuilder.errors import UsageError
from envbuilder.launch import CLUSTER, FORMS
from envbuilder.launch.container import Launch, needs_elsewhere, needs_in_cluster
from envbuilder.quickstart.choose import Training, Wish, training_of
from envbuilder.quickstart.cluster import HEAD, Given, compose, rayjob, role
from envbuilder.quickstart.shell import DEFAULT_ROUTE
from envbuilder.quickstart.steps import IMAGE_VARIABLE, UNKNOWN_HEAD, Network, Step, container_wish, steps_of

if TYPE_CHECKING:
    from envbuilder.cli.console import Console
    from envbuilder.matrix import Matrix

_SHELL = "shell"
_SEVERAL = {"compose": compose, CLUSTER: rayjob}
_INTERFACE = {
    _SHELL: "nodes are reached over the interface of the default route; --interface names another",
    CLUSTER: "the interface between the nodes is not known here; --interface names it",
}
_WHERE = {"head": "on the head", "worker": "on every other node", "all": "on every node"}


@click.command("quickstart")
@options.identifier()
@options.dimensions
@options.registry
@options.option("--recipe", required=True, metavar="NAME", help="What is trained: grpo, sft.")
@options.option("--npus", type=click.IntRange(1), metavar="N", help="NPUs of a node; default: as the document has it.")
@options.option("--nodes", type=click.IntRange(1, 999), default=1, show_default=True, help="How many machines.")
@options.option("--model", metavar="PATH", help="Another model, by path or by name.")
@options.option("--data", metavar="PATH", help="Where the data is, or is made.")
@options.option("--output", metavar="PATH", help="Where checkpoints go.")
@options.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A setting of the trainer.")
@options.option("--as-documented", is_flag=True, help="The document's values, even where this release refuses them.")
@options.option(
    "--format", "form", type=click.Choice([_SHELL, *_SEVERAL]), default=_SHELL, show_default=True,
    envvar="ENVBUILDER_QUICKSTART_FORMAT", help="Lines for a shell, a test on one host, or a cluster.",
)  # fmt: skip
@options.option("--head", metavar="ADDRESS", help="Address of the head, of several nodes.")
@options.option(
    "--interface", metavar="NAME", help="Network interface between nodes; default: that of the default route."
)
@options.option("--run", "run_", is_flag=True, help="Do it, in a container of the image that is here.")
@options.option("--worker", is_flag=True, help="With --run: this host joins the head instead of being it.")
@options.option("--volume", multiple=True, metavar="SRC:DST[:ro]", help="A path of the host, or a volume.")
@options.option("--env", multiple=True, metavar="NAME[=VALUE]", help="A variable of the container.")
@options.as_json
@options.matrices
@options.talking
def command(identifier: str | None, recipe: str, form: str, run_: bool, json_: bool, **given: Any) -> None:
    """The training of the documents for an environment: data, Ray on several nodes, a look at all of them, the command.

    What cannot work is refused with the reason. Nothing is started without --run.
    """
    _refuse_mixtures(form, run_, json_, given)
    console, matrix = arguments.console_of(given), arguments.matrix_of(given)
    environment = arguments.environment_of(matrix, identifier, given)
    training = training_of(matrix, environment, recipe, _wish(given))
    network = Network(given["head"] or UNKNOWN_HEAD, given["interface"] or DEFAULT_ROUTE)
    added = Given(tuple(map(volume_of, given["volume"])), variables_of(given["env"]))
    for note in [*_notes(training, network, form, run_), *_not_inside(given, added, run_)]:
        console.talk(note)
    if run_:
        if not added.covers(given["output"] or training.recipe.output):
            console.talk("what is saved is gone when the container ends: --output names a path of a --volume")
        _run(matrix, training, network, added, given, console)
    image = image_name(matrix, environment, given["registry"])
    steps = steps_of(training, network, image, _container_options(given))
    if json_:
        console.data(_document(training, image, steps))
    elif form == _SHELL:
        console.out(_text(training, steps))
    elif training.uses_ray:
        console.out(_SEVERAL[form](training, image, added, network).rstrip("\n"))
    else:
        console.out(FORMS[form](_launch(training, image, added, form)).rstrip("\n"))


def _refuse_mixtures(form: str, run_: bool, json_: bool, given: dict[str, Any]) -> None:
    if (json_ or run_) and form != _SHELL:
        raise UsageError(f"--format {form} prints a file of its own; leave --json and --run out")
    if run_ and json_:
        raise UsageError("--run starts a container, and --json prints; one of them")
    if given["worker"] and not (run_ and given["head"] and given["nodes"] > 1):
        raise UsageError("--worker joins a head", hint="with --run, --nodes and --head ADDRESS")


def _wish(given: dict[str, Any]) -> Wish:
    settings = {}
    for text in given["settings"]:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise UsageError(f"--set takes KEY=VALUE, not '{text}'")
        settings[key] = value
    names = ("npus", "nodes", "model", "data", "output")
    return Wish(**{name: given[name] for name in names}, settings=settings, documented=given["as_documented"])


def _notes(training: Training, network: Network, form: str, run_: bool) -> list[str]:
    """What whoever reads the command has to know, and the command does not say."""
    hardware = training.environment.hardware
    found = [f"not as documented: {text}" for text in training.departures]
    found += training.notes
    if not hardware.devices:
        found.append(f"{hardware.title} has no NPUs, which this training needs; envbuilder validate trains without")
    found += [f"{issue.what}: {issue.workaround}" for issue in training.environment.known_issues if issue.opt_in]
    if training.nodes > 1 and form == _SHELL and not run_ and network.head == UNKNOWN_HEAD:
        found.append(f"{UNKNOWN_HEAD} stands for the address of the head; --head fills it in")
    if training.spans and network.interface == DEFAULT_ROUTE and form in _INTERFACE:
        found.append(_INTERFACE[form])
    return found


def _container_options(given: dict[str, Any]) -> list[tuple[str, str]]:
    """What `run` has to be told as well."""
    usual = next(item.default for item in command.params if item.name == "registry")
    found = [("--registry", given["registry"])] if given["registry"] != usual else []
    return found + [(f"--{name}", text) for name in ("volume", "env") for text in given[name]]


def _document(training: Training, image: str, steps: list[Step]) -> dict[str, Any]:
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
        source=list(training.sources),
    )


def _text(training: Training, steps: list[Step]) -> str:
    """Where each step belongs is said where there is a choice."""
    lines = [f"# {source}" for source in training.sources]
    for step in steps:
        place = f"{_WHERE[step.where]}: " if training.nodes > 1 else ""
        lines += ["", f"# {place}{step.title}", step.text]
    return "\n".join(lines)


def _not_inside(given: dict[str, Any], added: Given, run_: bool) -> Iterator[str]:
    """What lies on this host is not in a container by itself; what is printed is perhaps for another host."""
    for name in ("model", "data", "output"):
        path = given[name]
        if path and path.startswith("/") and Path(path).exists() and not added.covers(path):
            told, hint = f"--{name} {path} is on this host, and not in the container", f"--volume {path}:{path}"
            if run_:
                raise UsageError(told, hint=hint)
            yield f"{told}: {hint}"


def _launch(training: Training, image: str, added: Given, form: str) -> Launch:
    """One container that does everything."""
    environment = training.environment
    needs = (needs_in_cluster if form == CLUSTER else needs_elsewhere)(environment, container_wish(training))
    needs = replace(needs, variables={**needs.variables, **added.variables})
    words = ("bash", "-c", role(training, Network(), HEAD))
    return Launch(image, environment.coordinates.arch, needs, environment.id, command=words, volumes=added.volumes)


def _run(
    matrix: Matrix, training: Training, network: Network, added: Given, given: dict[str, Any], console: Console
) -> NoReturn:
    from envbuilder.cli.image_argument import subject_of
    from envbuilder.docker.engine import Engine

    environment, engine = training.environment, Engine()
    found = subject_of(matrix, environment.id, {**given, **arguments.NO_DIMENSIONS}, engine)
    needs, notes = needs_for(matrix, environment, None, container_wish(training)._replace(free=training.npus))
    for note in notes:
        console.talk(note)
    made = engine.image(found.image)
    known: dict[str, str | None] = {IMAGE_VARIABLE: made.id if made else found.image}
    variables = {**needs.variables, **known, **added.variables}
    place = "worker" if given["worker"] else HEAD
    launch = Launch(
        image=found.image,
        arch=environment.coordinates.arch,
        needs=replace(needs, variables=variables),
        title=environment.id,
        command=("bash", "-c", role(training, network, place)),
        volumes=added.volumes,
    )
    start_now(launch)
