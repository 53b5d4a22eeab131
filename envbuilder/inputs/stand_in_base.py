"""Makes the base image of a rehearsal: a system with a stand-in of the vendor's toolkit."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from envbuilder import paths
from envbuilder.docker.buildkit import Silent
from envbuilder.docker.buildx import Build, BuildError, run
from envbuilder.docker.engine import Docker
from envbuilder.docker.failures import build_failure
from envbuilder.environment import Environment
from envbuilder.errors import EnvbuilderError, MatrixError
from envbuilder.files import workspace
from envbuilder.inputs.base_image import BaseImageOptions
from envbuilder.inputs.debian_base import make_base
from envbuilder.language import tr
from envbuilder.matrix.model import LocalBase
from envbuilder.network import Network
from envbuilder.stand_in import INSIDE, Spec, lay_out, spec_of

_PLUGIN = "torch_npu"


class Wanted(NamedTuple):
    """The base image of a rehearsal, before it is made."""

    name: str
    spec: Spec
    # the locked plugin, which is installed to learn what it needs of CANN
    locked: str
    # what it is made on: an image that the user names, or a system of packages
    system: str | LocalBase


def wanted_base(environment: Environment, options: BaseImageOptions) -> Wanted:
    """Return the base image of a rehearsal; raise an error if none can be described."""
    spec = spec_of(environment)
    named = {"environment": environment.id, "plugin": _PLUGIN}
    if environment.lock is None:
        raise EnvbuilderError(tr("{environment} has no lock, so that its {plugin} is unknown", **named))
    locked = environment.lock.only((_PLUGIN,))
    if not locked:
        hint = tr("rehearse an environment for NPUs: --hw {family}", family=environment.hardware.family)
        raise EnvbuilderError(tr("{environment} has no {plugin}, which a rehearsal is for", **named), hint=hint)
    arch, python = environment.coordinates.arch, environment.packages.python
    words = (f"cann{spec.cann}", f"{_PLUGIN}{environment.version(_PLUGIN)}", spec.soc, f"py{python}", arch)
    name = f"envbuilder/stand-in:{'-'.join(words)}".lower()
    return Wanted(name, spec, locked, options.image or _system(environment))


def stand_in_base(
    environment: Environment, wanted: Wanted, apt_mirror: str | None, network: Network, docker: Docker,
    say: Callable[[str], None],
) -> str:  # fmt: skip
    """Make the base image on a local system, or on the image that the user names, and return its name."""
    name, spec, locked, local = wanted
    arch = environment.coordinates.arch
    say(tr("making base image {name} in place of {other}", name=name, other=environment.base_image))
    system = local if isinstance(local, str) else make_base(docker, local, arch, apt_mirror)
    log = paths.new_log(environment.id, "-stand-in")
    with workspace() as folder:
        context = folder / "context"
        lay_out(spec, context)
        shutil.move(context / INSIDE.name / "Dockerfile", context / "Dockerfile")
        (context / "torch_npu.txt").write_text(locked, encoding="utf-8")
        arguments = {"BASE_IMAGE": system, "ROOT": spec.root, "ETC": str(Path(spec.install_info).parent)}
        task = Build(context, network.secrets(), arguments, docker.platform(arch), log, tag=name)
        try:
            run(task, Silent())
        except BuildError as error:
            named = {"environment": environment.id, "reason": (error.lines or ["?"])[-1]}
            message = tr("the stand-in of {environment} cannot be made: {reason}", **named)
            raise build_failure(message, error.lines, log) from error
    return name


def _system(environment: Environment) -> LocalBase:
    local = environment.stand_in.base if environment.stand_in else None
    named = {"wanted": environment.packages.python, "environment": environment.id}
    if local is None or local.python != environment.packages.python:
        raise MatrixError.of(
            tr("no base image with Python {wanted} can be made for a rehearsal of {environment}", **named),
            environment.where,
            tr("give --base-image an image with Python {wanted}, gcc and binutils", **named),
        )
    return local
