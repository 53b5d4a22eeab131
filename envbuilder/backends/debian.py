"""A base image from Debian's own packages, for machines that reach no registry."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from envbuilder.backends.engine import Engine
from envbuilder.errors import EnvbuilderError
from envbuilder.model import LocalBase

_LEFT_OUT = ("--exclude=./var/cache/apt/archives/*.deb", "--exclude=./var/lib/apt/lists/*")


def base_name(base: LocalBase) -> str:
    return f"envbuilder/base:{base.suite}-py{base.python}"


def make_base(engine: Engine, base: LocalBase, mirror: str | None = None) -> str:
    """Makes the base image with debootstrap, unless it is there, and gives its name."""
    name = base_name(base)
    if engine.image(name) is not None:
        return name
    program = shutil.which("debootstrap", path="/usr/sbin:/usr/bin:/sbin:/bin")
    if program is None:
        raise EnvbuilderError(
            "debootstrap, which makes the base image, is not installed", hint="apt-get install debootstrap"
        )
    with tempfile.TemporaryDirectory(prefix="envbuilder-base-") as folder:
        root = Path(folder) / "root"
        command = [program, "--variant=minbase", f"--include={','.join(base.packages)}", base.suite, str(root)]
        command += [f"{mirror.rstrip('/')}/debian"] if mirror else []
        result = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        if result.returncode != 0:
            said = (result.stdout + result.stderr).strip().splitlines() or ["debootstrap says nothing"]
            raise EnvbuilderError(
                f"the base image cannot be made: {said[-1]}", hint="debootstrap needs root and Debian's packages"
            )
        packing = ["tar", "--create", "--directory", str(root), *_LEFT_OUT, "."]
        packer = subprocess.Popen(packing, stdout=subprocess.PIPE)  # noqa: S603
        assert packer.stdout is not None  # noqa: S101
        with packer.stdout as archive:
            engine.import_archive(archive, name)
        if packer.wait() != 0:
            raise EnvbuilderError("the base image cannot be packed")
    return name
