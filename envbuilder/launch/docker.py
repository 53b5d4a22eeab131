"""Writes a container as a `docker run` command, and starts it on this host."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from typing import NoReturn

from envbuilder.docker.which import program
from envbuilder.errors import HostError
from envbuilder.language import tr
from envbuilder.launch.container import Launch, Mount


def shell(launch: Launch) -> str:
    """Return the command as text for a shell."""
    return " \\\n  ".join(shlex.join(part) for part in _parts(launch)) + "\n"


def arguments(launch: Launch) -> list[str]:
    return [word for part in _parts(launch) for word in part]


def start(launch: Launch) -> NoReturn:
    """Replace this process by docker, so that terminal, signals and exit code are those of the container."""
    words = [program(), *arguments(launch)[1:]]
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvp(words[0], words)  # noqa: S606
    except FileNotFoundError as error:
        hint = tr("install the docker command line")
        raise HostError(tr("the program docker is not installed"), hint=hint) from error


def _parts(launch: Launch) -> Iterator[tuple[str, ...]]:
    """Yield the words of the command, each option together with its value."""
    needs = launch.needs
    yield ("docker", "run")
    flags = (
        ("--detach", launch.detach),
        ("--rm", not launch.keep),
        ("--init", True),
        ("--interactive", launch.stdin),
        ("--tty", launch.terminal),
    )
    yield from ((flag,) for flag, is_set in flags if is_set)
    values = (
        ("--name", launch.name),
        ("--network", needs.network),
        ("--shm-size", needs.shm_size),
        ("--runtime", needs.runtime),
        ("--gpus", _gpus(needs.gpus[1]) if needs.gpus else None),
        ("--user", launch.user),
    )
    yield from ((option, value) for option, value in values if value is not None)
    yield from (("--device", path) for path in needs.devices)
    # unlike --volume, --mount does not create a folder in place of a missing path
    yield from (("--mount", _bind(mount)) for mount in needs.mounts)
    for name, value in needs.variables.items():
        yield ("--env", name if value is None else f"{name}={value}")
    for mount in launch.volumes:
        yield ("--volume", f"{mount.source}:{mount.target}{':ro' if mount.read_only else ''}")
    yield (launch.image,)
    if launch.command:
        yield launch.command


def _gpus(wanted: str) -> str:
    """Return the value of --gpus: docker splits it at commas, unless they are in quotes."""
    return f'"{wanted}"' if "," in wanted else wanted


def _bind(mount: Mount) -> str:
    return f"type=bind,source={mount.source},target={mount.target}{',readonly' if mount.read_only else ''}"
