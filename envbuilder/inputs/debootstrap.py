"""Makes a base image from Debian's packages, for machines that reach no registry."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from envbuilder import platforms
from envbuilder.docker.engine import Docker
from envbuilder.errors import EnvbuilderError
from envbuilder.matrix.model import LocalBase
from envbuilder.process import run, start

_LEFT_OUT = ("--exclude=./var/cache/apt/archives/*.deb", "--exclude=./var/lib/apt/lists/*")
# gives a command its own mounts and processes, which end with it
_APART = ("unshare", "--mount", "--pid", "--fork")


def base_name(base: LocalBase) -> str:
    return f"envbuilder/base:{base.suite}-py{base.python}" + (f"-{base.word}" if base.word else "")


def make_base(docker: Docker, base: LocalBase, arch: str, mirror: str | None = None) -> str:
    """Make the base image for an architecture with debootstrap, unless the engine has it, and return its name."""
    name = base_name(base)
    found = docker.image(name)
    if found is not None and found.arch == arch:
        return name
    # debootstrap runs programs of the new system, and the engine labels what it imports with its own architecture
    for machine, machine_arch in (("this host", platforms.arch()), ("the docker engine", docker.arch)):
        if machine_arch != arch:
            raise EnvbuilderError(
                f"a base image for {arch} cannot be made here: the architecture of {machine} is {machine_arch}",
                hint=f"make it on a machine with {arch}, or give --base-image an image for {arch}",
            )
    program = shutil.which("debootstrap", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin:/sbin:/bin")
    if program is None:
        raise EnvbuilderError(
            "debootstrap, which makes the base image, is not installed", hint="apt-get install debootstrap"
        )
    with tempfile.TemporaryDirectory(prefix="envbuilder-base-") as folder:
        root = Path(folder) / "root"
        command = [program, "--variant=minbase", f"--include={','.join(base.packages)}", base.suite, str(root)]
        command += [f"{mirror.rstrip('/')}/debian"] if mirror else []
        _run(command)
        packing = ["tar", "--create", "--directory", str(root), *_LEFT_OUT, "."]
        packer = subprocess.Popen(packing, stdout=subprocess.PIPE)  # noqa: S603
        assert packer.stdout is not None  # noqa: S101
        with packer.stdout as archive:
            docker.import_archive(archive, name, arch)
        if packer.wait() != 0:
            raise EnvbuilderError("the base image cannot be packed")
    return name


def _run(command: Sequence[str]) -> None:
    """Run a command so that none of its processes and mounts outlives it: the folder that it fills is deleted."""
    # a user without the right to do this cannot mount anything either
    apart = _APART if shutil.which(_APART[0]) and run([*_APART, "true"]).ok else ()
    process = start([*apart, *command])
    try:
        output, _ = process.communicate()
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        # its output ends with the last of its processes
        process.communicate()
        raise
    if process.returncode != 0:
        lines = output.strip().splitlines() or ["debootstrap printed nothing"]
        raise EnvbuilderError(
            f"the base image cannot be made: {lines[-1]}", hint="debootstrap needs root and Debian's packages"
        )
