"""Chooses the docker command that builds: of several on one machine, not every one speaks BuildKit."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from functools import cache

from envbuilder.errors import EnvbuilderError
from envbuilder.process import ProgramError, run

# from this version on, docker's own command has no BuildKit inside and asks the plugin buildx for it
_PLUGIN_NEEDED = 23


def build_command() -> list[str]:
    """Return the first words of a command that builds with BuildKit."""
    return list(_chosen(os.pathsep.join(os.get_exec_path())))


@cache
def _chosen(path: str) -> tuple[str, ...]:
    """Return the first docker that has buildx, or else the first that needs none."""
    programs = list(_programs(path))
    if not programs:
        raise EnvbuilderError(
            "the docker command, which builds, is not installed", hint="install docker-cli or docker.io"
        )
    for program in programs:
        # what Podman installs under the name of docker answers as well, and names buildah
        if "buildx" in _answer(program, "buildx", "version"):
            return program, "buildx", "build"
    for program in programs:
        version = re.match(r"Docker version (\d+)\.", _answer(program, "--version"))
        if version and int(version[1]) < _PLUGIN_NEEDED:
            return program, "build"
    raise EnvbuilderError(
        f"builds need BuildKit, and {' and '.join(programs)} cannot reach it without the plugin buildx",
        hint="install docker-buildx-plugin (packages of docker.com) or docker-buildx (packages of Debian and Ubuntu)",
    )


def _programs(path: str) -> Iterator[str]:
    """Yield every docker on a search path, in its order."""
    for folder in path.split(os.pathsep):
        if found := shutil.which("docker", path=folder):
            yield found


def _answer(*command: str) -> str:
    """Return the output of a command that succeeds."""
    try:
        done = run(command)
    except ProgramError:
        return ""
    return done.text if done.ok else ""
