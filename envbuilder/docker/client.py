"""Chooses the docker command for builds: of several on a machine, not all support BuildKit."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from functools import cache

from envbuilder.errors import HostError
from envbuilder.language import tr
from envbuilder.process import ProgramError, run

# from this version on, the docker command needs the plugin buildx to build with BuildKit
_PLUGIN_NEEDED = 23


def build_command() -> list[str]:
    """Return the beginning of a command line that builds with BuildKit."""
    return list(_chosen(os.pathsep.join(os.get_exec_path())))


@cache
def _chosen(path: str) -> tuple[str, ...]:
    """Return the first docker command that has buildx, or else the first that does not need it."""
    programs = list(_programs(path))
    if not programs:
        raise HostError(
            tr("the docker command, which runs builds, is not installed"), hint=tr("install docker-cli or docker.io")
        )
    for program in programs:
        # the docker command of Podman succeeds too, but prints the version of buildah
        if "buildx" in _answer(program, "buildx", "version"):
            return program, "buildx", "build"
    for program in programs:
        version = re.match(r"Docker version (\d+)\.", _answer(program, "--version"))
        if version and int(version[1]) < _PLUGIN_NEEDED:
            return program, "build"
    raise HostError(
        tr(
            "builds need BuildKit, and {programs} cannot reach it without the plugin buildx",
            programs=tr(" and ").join(programs),
        ),
        hint=tr(
            "install docker-buildx-plugin (packages of docker.com) or docker-buildx (packages of Debian and Ubuntu)"
        ),
    )


def _programs(path: str) -> Iterator[str]:
    """Yield every docker command on a search path, in its order; links to one command count as one."""
    seen: set[str] = set()
    for folder in path.split(os.pathsep):
        found = shutil.which("docker", path=folder)
        if found and (real := os.path.realpath(found)) not in seen:
            seen.add(real)
            yield found


def _answer(*command: str) -> str:
    """Return the output of a command, or an empty text if it fails."""
    try:
        done = run(command)
    except ProgramError:
        return ""
    return done.text if done.ok else ""
