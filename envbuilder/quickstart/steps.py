"""The steps of a training, in order, with the nodes they run on: data, Ray, a check of all nodes, training."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from envbuilder.environment.trainer_arguments import words_of
from envbuilder.launch.container import ContainerOptions, first_devices, needs_elsewhere
from envbuilder.matrix.model import Preparation
from envbuilder.quickstart.choose import HOME, Training
from envbuilder.quickstart.shell import DEFAULT_ROUTE, command, exports, program, quoted

Place: TypeAlias = Literal["head", "worker", "all"]
# the placeholder for the address of the head in the documents
UNKNOWN_HEAD = "MASTER-NODE-ADDRESS"
PORT = "6379"
_NPU, _GPU = "NPU", "GPU"
# the variable with the image of a container, for programs in it
IMAGE_VARIABLE = "ENVBUILDER_IMAGE"
# Ray schedules by resources; a CPU environment has to start all its processes on few cores too
_CPUS = 64
_PREFLIGHT = Path(__file__).parent / "inside" / "preflight.py"


class ClusterNetwork(NamedTuple):
    """How the nodes find each other."""

    head: str = UNKNOWN_HEAD
    interface: str = DEFAULT_ROUTE


@dataclass(frozen=True)
class NodeStep:
    title: str
    where: Place
    command: str
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return exports(self.variables) + self.command


def steps_of(
    training: Training, network: ClusterNetwork, image: str, options: Sequence[Sequence[str]] = ()
) -> list[NodeStep]:
    """Return all steps, starting from a host that has the image; `options` are for its container."""
    return [container(training, image, options), *inside(training, network, unattended=training.nodes == 1)]


def inside(training: Training, network: ClusterNetwork, *, unattended: bool = False) -> list[NodeStep]:
    """Return the steps in the containers; unattended, workers run as long as the cluster, and existing data is kept."""
    return [
        *_prepare(training, unattended),
        *_ray(training, network, unattended),
        *preflight(training),
        train(training, network),
    ]


def container(training: Training, image: str, more: Sequence[Sequence[str]]) -> NodeStep:
    hardware = training.environment.hardware
    number = "--gpus" if hardware.has_gpus else "--npus"
    options: list[Sequence[str]] = [(number, str(training.npus))] if hardware.devices else []
    options += [("--multi-node",)] if training.spans else []
    options += more
    # an identifier names the image of a row
    target = image if training.environment.additions else training.environment.id
    text = command(("envbuilder", "run", target), options)
    if training.nodes > 1:
        # the same image has the same id on every node
        text += f" \\\n  --env \"{IMAGE_VARIABLE}=$(docker image inspect --format '{{{{.Id}}}}' {image})\""
    return NodeStep("the container that all other steps run in", "all" if training.nodes > 1 else "head", text)


def container_options(training: Training, node: int = 0) -> ContainerOptions:
    """Return the options of the container of a node; nodes of one host take successive devices."""
    devices = (
        first_devices(training.npus, after=node * training.npus) if training.environment.hardware.devices else None
    )
    return ContainerOptions(devices, multi_node=training.spans)


def cluster_variables(training: Training, interface: str) -> dict[str, str]:
    """Return the variables that every process of Ray inherits: those of the recipe, the hardware and the row."""
    needs = needs_elsewhere(training.environment, container_options(training)._replace(foreign=True))
    found = {**training.variables, **{name: value for name, value in needs.variables.items() if value is not None}}
    return found | dict.fromkeys(interfaces(training) if training.spans else (), interface)


def interfaces(training: Training) -> tuple[str, ...]:
    """Return the variables that name the network interface between the nodes."""
    run = training.environment.run
    return run.multi_node.interface if run and run.multi_node else ()


def training_words(training: Training) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the words of the program, and of each of its options."""
    return training.program, [tuple(words_of(training.recipe.style, *item)) for item in training.settings.items()]


def train(training: Training, network: ClusterNetwork) -> NodeStep:
    words, options = training_words(training)
    variables = dict(training.variables)
    if training.nodes > 1 and not training.submit:
        # a trainer that finds no cluster would start one of its own
        variables = {**cluster_variables(training, network.interface), "RAY_ADDRESS": "auto"}
    return NodeStep(training.recipe.title, "head", command((*training.submit, *words), options), variables)


def _prepare(training: Training, unattended: bool) -> Iterator[NodeStep]:
    prepare = training.prepare
    if prepare is not None:
        text = data_text(prepare) if unattended else _prepare_text(prepare)
        yield NodeStep(prepare.title, "all" if training.nodes > 1 else "head", text)


def _prepare_text(prepare: Preparation) -> str:
    return command(("python3", prepare.program), list(prepare.options.items()))


def data_text(prepare: Preparation) -> str:
    """Return shell text that makes missing data, or fails with a message if the image does not have the program."""
    data, program_ = quoted(prepare.makes), quoted(prepare.program)
    lacking = f"{prepare.program} is missing: use an image that was built with --source git, or mount the data"
    return (
        f"if [ ! -e {data} ]; then\n"
        f"[ -e {program_} ] || {{ echo {quoted(lacking)} >&2; exit 1; }}\n"
        f"{_prepare_text(prepare)}\n"
        "fi"
    )


def ray_start(training: Training, network: ClusterNetwork, *, head: bool, block: bool = False) -> str:
    options: list[Sequence[str]] = [("--head",), ("--port", PORT)] if head else [(f"--address={network.head}:{PORT}",)]
    if head and network.head != UNKNOWN_HEAD:
        options.append((f"--node-ip-address={network.head}",))
    options += [(f"--{name}={value}",) for name, value in resources(training).items()]
    if training.environment.hardware.cpu_only:
        options.append((f"--num-cpus={_CPUS}",))
    if block:
        options.append(("--block",))
    return command(("ray", "start"), options)


def resources(training: Training) -> dict[str, str]:
    """Return the options with which Ray starts, to know of the devices: GPUs have one of their own."""
    if training.environment.hardware.has_gpus:
        return {"num-gpus": str(training.npus)}
    return {"resources": json.dumps({_NPU: training.npus})}


def head_awaited(network: ClusterNetwork) -> str:
    """Return shell text for a worker, which waits until the head runs."""
    return f"until ray status --address={quoted(network.head)}:{PORT} > /dev/null 2>&1; do sleep 5; done"


def _ray(training: Training, network: ClusterNetwork, unattended: bool) -> Iterator[NodeStep]:
    if not training.uses_ray:
        return
    variables = cluster_variables(training, network.interface)
    yield NodeStep("Ray, as the head of the cluster", "head", ray_start(training, network, head=True), variables)
    if training.nodes > 1:
        text = ray_start(training, network, head=False, block=unattended)
        yield NodeStep("Ray, joined to the head", "worker", text, variables)


def preflight(training: Training) -> Iterator[NodeStep]:
    if training.nodes > 1:
        yield NodeStep("a check that all nodes are alike", "head", _preflight_text(training))


def _preflight_text(training: Training) -> str:
    run = training.environment.run
    driver = next((path for path in (run.mounts if run else ()) if path.endswith("version.info")), None)
    expected = {
        "nodes": training.nodes,
        "npus": training.npus,
        "resource": _GPU if training.environment.hardware.has_gpus else _NPU,
        "device": run.device if run else None,
        "files": {"bill of materials": f"{HOME}/sbom.cdx.json", **({"driver": driver} if driver else {})},
        "image": IMAGE_VARIABLE,
        "interfaces": interfaces(training),
    }
    return program(("python3", "-", json.dumps(expected)), _PREFLIGHT.read_text(encoding="utf-8"))
