"""Reads the state of the docker engine of a machine, and which cards its containers have."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from envbuilder.docker.failures import failure_of
from envbuilder.docker.which import program
from envbuilder.errors import HostError
from envbuilder.language import english, tr
from envbuilder.machine.probe import output_of, text_of

CARD = re.compile(r"^/dev/davinci(\d{1,4})$")
# a number, or a range of them
_RANGE = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?")


class DockerState(NamedTuple):
    """The docker engine, or why it does not answer, and the cards of each container."""

    version: str | None = None
    buildx: str | None = None
    root: str | None = None
    runtimes: tuple[str, ...] = ()
    default_runtime: str | None = None
    trouble: str | None = None
    holders: Mapping[str, tuple[int, ...]] = {}
    # containers that may use every card, whether they do or not
    privileged: tuple[str, ...] = ()


def docker_of(root: Path) -> DockerState:
    if root != Path("/"):
        configured = _json(text_of(root / "etc/docker/daemon.json"))
        names = tuple(configured.get("runtimes") or ())
        return DockerState(
            runtimes=names, default_runtime=configured.get("default-runtime"), root=configured.get("data-root")
        )
    code, text = output_of([program(), "info", "--format", "{{json .}}"])
    info = _json(text)
    if code == 0 and {"store", "version"} <= info.keys():
        name = english("{version} of podman", version=info["version"]["Version"])
        return DockerState(version=name, root=info["store"]["graphRoot"], **_containers())
    if code != 0 or not info.get("ServerVersion"):
        errors = info.get("ServerErrors") or text.strip().splitlines()[-1:] or [english("no answer")]
        return DockerState(trouble="; ".join(errors))
    _, buildx = output_of(["docker", "buildx", "version"])
    version = re.search(r"v?(\d+\.\d+\.\d+\S*)", buildx if "buildx" in buildx else "")
    return DockerState(
        version=info["ServerVersion"],
        buildx=version[1] if version else None,
        root=info.get("DockerRootDir"),
        runtimes=tuple(sorted(info.get("Runtimes") or ())),
        default_runtime=info.get("DefaultRuntime"),
        **_containers(),
    )


def _containers() -> dict[str, Any]:
    """Return which containers hold cards, and which may use all of them."""
    running = _running()
    return {
        "holders": {name: cards for name, item in running.items() if (cards := _cards_of(item))},
        "privileged": tuple(name for name, item in running.items() if item.get("HostConfig", {}).get("Privileged")),
    }


def _running() -> dict[str, Any]:
    """Return the running containers by name."""
    code, names = output_of([program(), "ps", "--quiet"])
    if code != 0 or not names.split():
        return {}
    _, text = output_of([program(), "inspect", *names.split()])
    return {str(item.get("Name", "")).lstrip("/"): item for item in _json(text)}


def inspected(name: str) -> dict[str, Any] | None:
    """Return the engine's description of a container, or None if no container has that name."""
    code, text = output_of([program(), "inspect", "--type", "container", name])
    if code == 0:
        return dict(_json(text)[0])
    # beside the error, docker prints the empty list of what it found
    errors = [line for line in text.splitlines() if line.strip("[] ")]
    trouble = failure_of("\n".join(errors), errors)
    if code < 0 or isinstance(trouble, HostError):
        raise HostError(trouble.message, hint=trouble.hint or tr("install the docker command line"))
    return None


def _cards_of(container: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the cards of a container, from its devices or from the variable of the vendor's runtime."""
    settings = container.get("HostConfig", {})
    paths = [str(device.get("PathOnHost", "")) for device in settings.get("Devices") or []]
    cards = {int(match[1]) for path in paths if (match := CARD.match(path))}
    for variable in container.get("Config", {}).get("Env") or []:
        name, _, value = variable.partition("=")
        if name == "ASCEND_VISIBLE_DEVICES":
            cards |= set(_numbers(value))
    return tuple(sorted(cards))


def _numbers(text: str) -> Iterator[int]:
    """Yield the numbers of a list such as `0,2-4`, in the syntax of the vendor's runtime."""
    for part in text.replace("Ascend", "").split(","):
        if match := _RANGE.fullmatch(part.strip()):
            yield from range(int(match[1]), int(match[2] or match[1]) + 1)


def _json(text: str) -> Any:
    """Return the content of a JSON text, or an empty document."""
    try:
        return json.loads(text)
    except ValueError:
        return {}
