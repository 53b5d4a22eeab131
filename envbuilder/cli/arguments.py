"""What the options that were given mean, in terms of the code behind the commands."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from envbuilder.cli.console import Console
from envbuilder.environment.select import Filters, pick, select
from envbuilder.errors import HostError, UsageError
from envbuilder.matrix import Matrix, load
from envbuilder.matrix.model import CPU, NPU

if TYPE_CHECKING:
    from envbuilder.environment.resolve import Environment
    from envbuilder.inputs.base_image import BaseWish
    from envbuilder.inputs.source_archives import Origin
    from envbuilder.lock.index import Index
    from envbuilder.network import Network
    from envbuilder.validate import Wish

# what says where things come from
_OUTSIDE = (
    "base_image", "registry_mirror", "apt_mirror", "proxy", "network_settings", "pip_index", "source", "git_mirror",
    "index_url",
)  # fmt: skip


def console_of(options: dict[str, Any]) -> Console:
    return Console(
        verbosity=options["verbose"] - options["quiet"], color=options["color"], draws=not options["no_progress"]
    )


def matrix_of(options: dict[str, Any], *, everything: bool = False) -> Matrix:
    return load(options["matrices"], everything=everything)


def filters_of(options: dict[str, Any]) -> Filters:
    return Filters(
        framework=options["framework"],
        branch=options["branch"],
        engine=options["engine"],
        hardware=options["hw"],
        arch=options["arch"],
    )


NO_DIMENSIONS = dict.fromkeys(("framework", "branch", "engine", "hw", "arch"))


def wish_of(options: dict[str, Any], environment: Environment) -> Wish:
    from envbuilder import platforms
    from envbuilder.validate import Wish

    there = platforms.npus()
    device = options["device"]
    if device == "auto":
        device = NPU if there and not environment.hardware.rehearsal else CPU
    if device == NPU and len(there) < (options["npus"] or 1):
        raise HostError(f"this machine has {len(there)} NPUs", hint=f"--device {CPU}, or fewer --npus")
    depth = options.get("depth", "auto")
    return Wish(
        level=options.get("level", "train"),
        device=device,
        npus=(options["npus"] or len(there)) if device == NPU else 1,
        depth=None if depth == "auto" else depth,
    )


def environment_of(matrix: Matrix, name: str | None, options: dict[str, Any]) -> Environment:
    """The one that is meant; what is left open is what this machine can run."""
    from envbuilder import platforms
    from envbuilder.environment.resolve import resolve

    filters = filters_of(options)
    if name is None:
        filters = filters._replace(hardware=filters.hardware or _hardware_here(matrix))
        ours = filters._replace(arch=filters.arch or platforms.arch())
        # hardware that was asked for may be of another architecture alone
        filters = ours if select(matrix, (), ours) else filters
    return resolve(matrix, pick(matrix, name, filters))


def _hardware_here(matrix: Matrix) -> str | None:
    """That of this machine, where it has NPUs; otherwise the default stands."""
    from envbuilder import platforms

    if not platforms.npus():
        return None
    from envbuilder.doctor.fit import hardware_here
    from envbuilder.doctor.machine import look

    found = hardware_here(matrix, look())
    if not found:
        raise HostError(
            "this machine has NPUs, and no row has their chips", hint="envbuilder doctor tells more; --hw names another"
        )
    return found[0]


def text_of(name: str) -> str:
    """Of a file that somebody else has written, or of standard input."""
    if name == "-":
        return sys.stdin.read()
    try:
        return Path(name).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from error


def index_of(options: dict[str, Any]) -> Index:
    from envbuilder.lock.index import default_index

    return other_index(options, options["index_url"] or default_index())


def other_index(options: dict[str, Any], url: str) -> Index:
    """An index beside the user's own, trusted alike."""
    from envbuilder.lock.index import Index, cache_folder

    return Index(url, ca_bundle=options["ca_bundle"], cache=cache_folder())


def origin_of(options: dict[str, Any]) -> Origin:
    from envbuilder.inputs.source_archives import Origin

    return Origin(options["source"], index_of(options), options["git_mirror"])


def base_of(options: dict[str, Any]) -> BaseWish:
    from envbuilder.inputs.base_image import BaseWish

    return BaseWish(options["base_image"], options["registry_mirror"], options["apt_mirror"])


def network_of(options: dict[str, Any]) -> Network:
    """What a build is told of the outside: this host's settings, and what was said on top of them."""
    from envbuilder.network import Network, host_network

    network = host_network() if options["network_settings"] == "host" else Network()
    given = {
        "ca_bundle": options["ca_bundle"],
        "proxies": dict.fromkeys(("http_proxy", "https_proxy"), options["proxy"]) if options["proxy"] else None,
        "apt_mirror": options["apt_mirror"],
        "index_url": options.get("pip_index"),
    }
    return network._replace(**{name: value for name, value in given.items() if value})


def meant_offline(name: str | None, options: dict[str, Any]) -> str | None:
    """Where nobody names an environment, that of the bundle. What says where else to take things from is refused."""
    if options["offline"] is None:
        return name
    context = click.get_current_context()
    for item in context.command.params:
        if item.name in _OUTSIDE and context.get_parameter_source(item.name) is ParameterSource.COMMANDLINE:
            raise UsageError(f"--offline takes everything from the bundle: leave {item.opts[0]} out")
    from envbuilder.bundle import environment_in

    return name or environment_in(options["offline"])


def installers_told(options: dict[str, Any]) -> dict[str, str]:
    """For the programs that an installation starts: the certificates that this host trusts, and its package index."""
    from envbuilder.network import CA_USERS, host_network

    network = host_network()
    bundle = options["ca_bundle"] or network.ca_bundle
    index = network._replace(index_url=options["index_url"] or network.index_url).index_variables()
    return {**index, **(dict.fromkeys(CA_USERS, str(bundle)) if bundle else {})}


def pins_of(options: dict[str, Any]) -> dict[str, str]:
    from envbuilder.requirements import normalize

    found = {}
    for text in options["pin"]:
        name, equals, version = text.partition("=")
        if not (name and equals and version):
            raise UsageError(f"--pin takes NAME=VERSION, not '{text}'")
        found[normalize(name)] = version.lstrip("=")
    return found
