"""Makes a base image from Debian's packages, for machines that reach no registry."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path

from envbuilder import paths, platforms
from envbuilder.docker.buildkit import Silent
from envbuilder.docker.buildx import Build, BuildError
from envbuilder.docker.buildx import run as build
from envbuilder.docker.emulation import emulator
from envbuilder.docker.engine import Docker
from envbuilder.docker.failures import build_failure, failure_of
from envbuilder.errors import HostError
from envbuilder.language import tr
from envbuilder.matrix.model import LocalBase
from envbuilder.platforms import PLATFORMS
from envbuilder.process import run, start

# what the slim images of docker-library leave out, and no fsync of each file
_DPKG_OPTIONS = tuple(
    f"--dpkgopt={option}"
    for option in (
        "force-unsafe-io",
        *(f"path-exclude=/usr/share/{part}/*" for part in ("doc", "info", "locale", "man")),
    )
)
# pip refuses a Python with EXTERNALLY-MANAGED, and in the image the system's Python has no other purpose; engines mount
# files over the others: if these are missing, old engines change the time of their folder in every layer; and the
# address of a mirror may have a password
_LAST = """cd "$1" && rm -f usr/lib/python3*/EXTERNALLY-MANAGED etc/hostname && : >etc/hosts && : >etc/resolv.conf &&
find etc/apt -name '*.list' -exec sed -i 's#://[^/@]*@#://#' {} +"""
_DOCKERFILE = 'FROM scratch\nADD root.tar /\nCMD ["/bin/bash"]\n'
# gives a command its own mounts and processes, which end with the command
_ISOLATED = ("unshare", "--mount", "--pid", "--fork")


def base_name(base: LocalBase, arch: str) -> str:
    words = (base.suite, f"py{base.python}", base.word, arch)
    return f"envbuilder/base:{'-'.join(filter(None, words))}"


def can_make(docker: Docker | None, arch: str) -> bool:
    """Return whether this machine and the engine run programs of an architecture: mmdebstrap runs those of Debian.

    Without an engine only this machine is examined.
    """
    return (docker is None or docker.runs(arch)) and (arch == platforms.arch() or emulator(arch) is not None)


def is_made(docker: Docker, base: LocalBase, arch: str) -> bool:
    """Return whether the engine has the base image from before."""
    found = docker.image(base_name(base, arch))
    return found is not None and found.arch == arch


def maker(arch: str, docker: Docker | None) -> str:
    """Return the program that makes base images; raise an error if it cannot make one for this architecture here."""
    if not can_make(docker, arch):
        here = platforms.arch()
        named = {"arch": arch, "host": here, "docker": docker.arch if docker else here}
        raise HostError(
            tr(
                "a base image for {arch} cannot be made here: this host is {host}, the docker engine "
                "{docker}, and {arch} is not emulated",
                **named,
            ),
            hint=tr(
                "take an environment for {host}, make it on a machine with {arch}, give --base-image an image for "
                "{arch}, or install an emulator: {command}",
                **named,
                command=f"tools/emulate.sh {arch}" if paths.is_checkout() else "apt-get install qemu-user-static",
            ),
        )
    program = shutil.which("mmdebstrap")
    if program is None:
        raise HostError(
            tr("mmdebstrap, which makes the base image, is not installed"), hint="apt-get install mmdebstrap"
        )
    return program


def make_base(docker: Docker, base: LocalBase, arch: str, mirror: str | None = None) -> str:
    """Make the base image for an architecture with mmdebstrap, unless the engine has it, and return its name."""
    name = base_name(base, arch)
    if is_made(docker, base, arch):
        return name
    program = maker(arch, docker)
    with tempfile.TemporaryDirectory(prefix="envbuilder-base-") as folder:
        context = Path(folder) / "context"
        context.mkdir()
        command = [program, f"--architectures={PLATFORMS[arch].partition('/')[2]}", "--variant=minbase"]
        command += [f"--include={','.join(base.packages)}", *_DPKG_OPTIONS, f"--customize-hook={_LAST}"]
        command += [base.suite, str(context / "root.tar")]
        if mirror:
            # every user of this machine can read a command line
            sources = Path(folder) / "mirror.list"
            sources.write_text(f"deb {mirror.rstrip('/')}/debian {base.suite} main\n", encoding="utf-8")
            command.append(str(sources))
        _run(command)
        _build(context, name, arch, docker)
    return name


def _build(context: Path, name: str, arch: str, docker: Docker) -> None:
    """Build an image of a root file system. `docker import` of old engines would label it with their architecture."""
    (context / "Dockerfile").write_text(_DOCKERFILE, encoding="utf-8")
    log = paths.new_log("base", f"-{arch}")
    try:
        build(Build(context, {}, {}, docker.platform(arch), log, tag=name), Silent())
    except BuildError as error:
        raise build_failure(tr("{name} cannot be built", name=name), error.lines, log) from error


def _run(command: Sequence[str]) -> None:
    """Run a command so that none of its processes and mounts outlives it: the folder that it fills is deleted."""
    # a user without the right to do this cannot mount anything either
    isolated = _ISOLATED if shutil.which(_ISOLATED[0]) and run([*_ISOLATED, "true"]).ok else ()
    process = start([*isolated, *command])
    try:
        output, _ = process.communicate()
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        # the output ends when the last process does
        process.communicate()
        raise
    if process.returncode != 0:
        lines = output.strip().splitlines() or [tr("mmdebstrap printed nothing")]
        # the first error is the cause of the others
        reason = next((line for line in lines if line.startswith("E: ")), lines[-1])
        raise failure_of(tr("the base image cannot be made: {reason}", reason=reason), lines)
