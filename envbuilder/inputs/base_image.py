"""Gets the base image of an environment: from the engine, from a registry, or by making it on this machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from envbuilder.docker.engine import Docker, unreachable
from envbuilder.environment import Environment
from envbuilder.inputs.debian_base import base_name, can_make, make_base
from envbuilder.language import tr
from envbuilder.matrix.model import LocalBase
from envbuilder.platforms import PLATFORMS


class BaseImageOptions(NamedTuple):
    """What a user chooses for the base image."""

    image: str | None = None
    registry_mirror: str | None = None
    apt_mirror: str | None = None


def wanted_image(environment: Environment, options: BaseImageOptions) -> str:
    """Return the base image of the row, by its digest if that is known, or that of the user or of a mirror."""
    wanted = options.image or environment.pinned_base
    if options.registry_mirror:
        return f"{options.registry_mirror.rstrip('/')}/{wanted.partition('/')[2]}"
    return wanted


def base_image(
    environment: Environment, options: BaseImageOptions, docker: Docker, say: Callable[[str], None],
    instead: str | None = None,
) -> str:  # fmt: skip
    """Return the row's base image, or one made on this machine if it cannot be pulled and the hardware defines one.

    `instead` is one more hint for where there is none.
    """
    wanted = wanted_image(environment, options)
    arch = environment.coordinates.arch
    present = docker.image(wanted)
    if present is not None and present.arch == arch:
        return wanted
    if wanted == environment.pinned_base and _is_loaded(environment, docker):
        say(tr("using {image} of the engine; its digest is not known", image=environment.base_image))
        return environment.base_image
    local = environment.hardware.local_base
    if options.image or not can_make(docker, arch):
        local = None
    # an image that was made before is used without a pull, unless the user names a mirror
    if local is None or options.registry_mirror or docker.image(base_name(local, arch)) is None:
        say(tr("pulling {image}", image=wanted))
        # the engine may have the image of the other architecture under the same name
        trouble = docker.pull(wanted, PLATFORMS[arch] if present else docker.platform(arch))
        found = docker.image(wanted)
        if trouble is None and found is not None and found.arch != arch:
            trouble = tr("the image in its registry is for {found}, and {arch} is needed", found=found.arch, arch=arch)
        if trouble is None:
            return wanted
        if local is None:
            raise unreachable(wanted, trouble, instead)
        say(tr("{image} cannot be pulled: {reason}", image=wanted, reason=trouble))
    return local_base(environment, local, options.apt_mirror, docker, say)


def _is_loaded(environment: Environment, docker: Docker) -> bool:
    """Return whether the engine has the image under its tag only, as after `docker load`."""
    found = docker.image(environment.base_image)
    return found is not None and found.arch == environment.coordinates.arch


def local_base(
    environment: Environment, local: LocalBase, apt_mirror: str | None, docker: Docker, say: Callable[[str], None]
) -> str:
    """Make the base image that replaces the standard one, unless the engine has it, and return its name."""
    name = base_name(local, environment.coordinates.arch)
    named = {"name": name, "suite": local.suite, "other": environment.base_image}
    say(
        tr("using base image {name} from the packages of Debian {suite} in place of {other}", **named)
        if docker.image(name)
        else tr("making base image {name} from the packages of Debian {suite} in place of {other}", **named)
    )
    return make_base(docker, local, environment.coordinates.arch, apt_mirror)
