"""A container as a command of docker, which is also how one is started here."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from typing import NoReturn

from envbuilder.errors import HostError
from envbuilder.launch.container import Launch, Mount


def shell(launch: Launch) -> str:
    """To be pasted into a shell."""
    return " \\\n  ".join(shlex.join(part) for part in _parts(launch)) + "\n"


def arguments(launch: Launch) -> list[str]:
    return [word for part in _parts(launch) for word in part]


def start(launch: Launch) -> NoReturn:
    """Becomes docker: terminal, signals and exit code are then those of the container."""
    words = arguments(launch)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvp(words[0], words)  # noqa: S606
    except FileNotFoundError as error:
        raise HostError("there is no program docker", hint="install the command line of docker") from error


def _parts(launch: Launch) -> Iterator[tuple[str, ...]]:
    """An option with its value at a time."""
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
    )
    yield from ((option, value) for option, value in values if value is not None)
    yield from (("--device", path) for path in needs.devices)
    # unlike --volume it does not make a folder of a path that is not there
    yield from (("--mount", _bind(mount)) for mount in needs.mounts)
    for name, value in needs.variables.items():
        yield ("--env", name if value is None else f"{name}={value}")
    for mount in launch.volumes:
        yield ("--volume", f"{mount.source}:{mount.target}{':ro' if mount.read_only else ''}")
    yield (launch.image,)
    if launch.command:
        yield launch.command


def _bind(mount: Mount) -> str:
    return f"type=bind,source={mount.source},target={mount.target}{',readonly' if mount.read_only else ''}"
