"""The image that an environment stands on: there already, pulled, or made here."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from envbuilder.docker.engine import Docker, unreachable
from envbuilder.environment import Environment
from envbuilder.inputs.debootstrap import base_name, make_base
from envbuilder.matrix.model import LocalBase
from envbuilder.platforms import PLATFORMS


class BaseImageOptions(NamedTuple):
    """What a user says about it."""

    image: str | None = None
    registry_mirror: str | None = None
    apt_mirror: str | None = None


def base_image(environment: Environment, options: BaseImageOptions, docker: Docker, say: Callable[[str], None]) -> str:
    """The row's base image; where no registry answers, one made here, if the hardware knows how."""
    standard = environment.base_image
    wanted = options.image or standard
    if options.registry_mirror:
        wanted = f"{options.registry_mirror.rstrip('/')}/{wanted.partition('/')[2]}"
    arch = environment.coordinates.arch
    there = docker.image(wanted)
    if there is not None and there.arch == arch:
        return wanted
    local = environment.hardware.local_base
    if options.image or arch != docker.arch:
        local = None
    # one that was made here is not asked for again, unless somebody says where to ask
    if local is None or options.registry_mirror or docker.image(base_name(local)) is None:
        say(f"pulling {wanted}")
        # one name may stand for both architectures, and the one that is here may be the other's
        trouble = docker.pull(wanted, PLATFORMS[arch] if there else platform_of(environment, docker))
        found = docker.image(wanted)
        if trouble is None and found is not None and found.arch != arch:
            trouble = f"what its registry has is for {found.arch}, and {arch} is wanted"
        if trouble is None:
            return wanted
        if local is None:
            raise unreachable(wanted, trouble)
        say(f"{wanted} cannot be pulled: {trouble}")
    return local_base(docker, local, standard, options.apt_mirror, say)


def local_base(
    docker: Docker, local: LocalBase, standard: str, apt_mirror: str | None, say: Callable[[str], None]
) -> str:
    """The base image that is made here in place of the standard one."""
    name = base_name(local)
    made = f"from the packages of Debian {local.suite} in place of {standard}"
    say(f"base image {name}, made here {made}" if docker.image(name) else f"making base image {name} {made}")
    return make_base(docker, local, apt_mirror)


def platform_of(environment: Environment, docker: Docker) -> str | None:
    """None where the engine builds for itself."""
    return None if environment.coordinates.arch == docker.arch else PLATFORMS[environment.coordinates.arch]
