"""Writes a training on several nodes as a compose file for one host, or as a KubeRay job."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from envbuilder.errors import HostError
from envbuilder.language import tr
from envbuilder.launch.compose import document, service
from envbuilder.launch.container import Launch, Mount, needs_elsewhere, needs_in_cluster
from envbuilder.launch.k8s import name_of, pod_spec
from envbuilder.platforms import PLATFORMS
from envbuilder.quickstart.choose import HOME, Training
from envbuilder.quickstart.shell import DEFAULT_ROUTE, command
from envbuilder.quickstart.steps import (
    IMAGE_VARIABLE,
    UNKNOWN_HEAD,
    ClusterNetwork,
    cluster_variables,
    container_options,
    data_text,
    head_awaited,
    inside,
    interfaces,
    preflight,
    resources,
    training_words,
)

HEAD, _NETWORK = "head", "ray"
# the name of a container's network interface in a docker network
_INTERFACE = "eth0"
# the folder and the name of the training script in the pods
_SCRIPTS, _SCRIPT = f"{HOME}/job", "train.sh"
# `ray status` imports a lot, and a loaded host is slow
_HEALTH = {"test": ["CMD", "ray", "status"], "interval": "5s", "timeout": "60s", "retries": 60, "start_period": "60s"}
# the home folder in the images
_HOME = "/root"
# KubeRay derives longer names from that of a job
_LONGEST_NAME = 47


class Given(NamedTuple):
    """Volumes and variables that the user adds to those of the hardware."""

    volumes: tuple[Mount, ...] = ()
    variables: Mapping[str, str | None] = {}

    def covers(self, path: str) -> bool:
        """Return whether a path of the container is inside one of the volumes."""
        return any(mount.covers(path) for mount in self.volumes)


def role(training: Training, network: ClusterNetwork, place: str, *, trains: bool = True) -> str:
    """Return the script of one node, which ends at the first failure; without training, the cluster only stays up."""
    places = {place, "all"} if trains else {place}
    texts = [step.text for step in inside(training, network, unattended=True) if step.where in places]
    if place != HEAD:
        texts.insert(0, head_awaited(network))
    elif not trains:
        texts[-1] = "sleep infinity"
    return _script(texts)


def _script(texts: Iterable[str]) -> str:
    # files without an absolute path, such as checkpoints, belong in the home folder
    return "\n".join(["set -e", "mkdir -p ~ && cd", *texts])


def compose(training: Training, image: str, given: Given, network: ClusterNetwork) -> str:
    """Return a compose file of a head and workers in one network of one host, to test that they work together."""
    hardware, needed = training.environment.hardware, training.npus * training.nodes
    if hardware.devices and needed > hardware.devices:
        raise HostError(
            tr(
                "{nodes} nodes of {npus} NPUs take {needed}: {hardware} has {devices}",
                nodes=training.nodes,
                npus=training.npus,
                needed=needed,
                hardware=hardware.title,
                devices=hardware.devices,
            ),
            hint=tr("a compose file is for one host: choose fewer --npus"),
        )
    names = [HEAD, *(f"worker-{number}" for number in range(1, training.nodes))]
    services = {name: _service(training, image, given, name, number) for number, name in enumerate(names)}
    return document(services, given.volumes, networks={_NETWORK: {}})


def _service(training: Training, image: str, given: Given, name: str, number: int) -> dict[str, Any]:
    environment = training.environment
    needs = needs_elsewhere(environment, container_options(training, number))
    known = {**needs.variables, **cluster_variables(training, _INTERFACE), IMAGE_VARIABLE: image}
    place = HEAD if name == HEAD else "worker"
    # the head detects its own address; workers reach it by its host name
    network = ClusterNetwork(UNKNOWN_HEAD if place == HEAD else HEAD, _INTERFACE)
    launch = Launch(
        image=image,
        arch=environment.coordinates.arch,
        needs=replace(needs, network=None, variables={**known, **given.variables}),
        title=name,
        command=("bash", "-c", role(training, network, place, trains=not environment.hardware.cpu_only)),
        volumes=given.volumes,
    )
    found = {**service(launch), "hostname": name, "networks": [_NETWORK]}
    more = {"healthcheck": _HEALTH} if name == HEAD else {"depends_on": {HEAD: {"condition": "service_healthy"}}}
    return found | more


def rayjob(training: Training, image: str, given: Given, network: ClusterNetwork) -> str:
    """Return a KubeRay job, which starts Ray in pods, waits for them, submits the training and removes them.

    The training is a script in a ConfigMap: a command would be split and quoted by the operator and again by Ray.
    """
    import yaml

    environment, arch = training.environment, training.environment.coordinates.arch
    name = name_of(f"{training.recipe.recipe}-{environment.id.removesuffix(arch)}", _LONGEST_NAME)
    pod = _pod(training, image, given, network, name)
    # Ray parses the value of its resources once more
    known = resources(training)
    parameters = {name: json.dumps(value) if name == "resources" else value for name, value in known.items()}
    cluster: dict[str, Any] = {
        "rayVersion": environment.version("ray"),
        "headGroupSpec": {"rayStartParams": {**parameters, "dashboard-host": "0.0.0.0"}, "template": {"spec": pod}},  # noqa: S104
    }
    if training.nodes > 1:
        count = training.nodes - 1
        group = {"groupName": "workers", "replicas": count, "minReplicas": count, "maxReplicas": count}
        cluster["workerGroupSpecs"] = [{**group, "rayStartParams": parameters, "template": {"spec": pod}}]
    script = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {_SCRIPT: _script([*(step.text for step in preflight(training)), command(*training_words(training))])},
    }
    job = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": name},
        "spec": {
            "entrypoint": f"bash {_SCRIPTS}/{_SCRIPT}",
            "shutdownAfterJobFinishes": True,
            "rayClusterSpec": cluster,
            "submitterPodTemplate": {"spec": _submitter(image, arch)},
        },
    }
    # head and workers share one pod; a copy of it keeps YAML from writing aliases
    plain = json.loads(json.dumps([script, job]))
    return str(yaml.dump_all(plain, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=120))


def _dumper() -> Any:
    """Return a YAML dumper that writes text of several lines as a block."""
    import yaml

    class Dumper(yaml.SafeDumper):
        pass

    def text(dumper: Any, value: str) -> Any:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)

    Dumper.add_representer(str, text)
    return Dumper


def _pod(training: Training, image: str, given: Given, network: ClusterNetwork, script: str) -> dict[str, Any]:
    environment = training.environment
    needs = needs_in_cluster(environment, container_options(training))
    variables: dict[str, str | None] = {**training.variables, **needs.variables, IMAGE_VARIABLE: image}
    if training.spans and network.interface != DEFAULT_ROUTE:
        variables |= dict.fromkeys(interfaces(training), network.interface)
    launch = Launch(
        image=image,
        arch=environment.coordinates.arch,
        needs=replace(needs, variables={**variables, **given.variables}),
        title="ray",
        volumes=given.volumes,
    )
    spec = pod_spec(launch)
    _mount(spec, "job", _SCRIPTS, {"configMap": {"name": script}})
    if training.prepare is not None:
        # every node reads the data, so every pod prepares it; no shell expands $HOME in the paths of a pod
        path = training.data.replace("$HOME", _HOME)
        if not given.covers(path):
            _mount(spec, "data", path, {"emptyDir": {}})
        words = ["bash", "-c", data_text(training.prepare).replace("$", "$$")]
        mounts = spec["containers"][0]["volumeMounts"]
        spec["initContainers"] = [{"name": "prepare", "image": image, "args": words, "volumeMounts": mounts}]
    return spec


def _mount(spec: dict[str, Any], name: str, path: str, source: dict[str, Any]) -> None:
    container = spec["containers"][0]
    container["volumeMounts"] = [*container.get("volumeMounts", []), {"name": name, "mountPath": path}]
    spec["volumes"] = [*spec.get("volumes", []), {"name": name, **source}]


def _submitter(image: str, arch: str) -> dict[str, Any]:
    """Return the pod that submits the job, on a machine that can run the image."""
    return {
        "restartPolicy": "Never",
        "nodeSelector": {"kubernetes.io/arch": PLATFORMS[arch].partition("/")[2]},
        "containers": [{"name": "submit", "image": image}],
    }
