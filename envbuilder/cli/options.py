"""Options that commands share. A command receives a group of options as one typed value."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from envbuilder.cli import arguments
from envbuilder.cli.help import Command
from envbuilder.environment.coordinates import USUAL_REGISTRY, environments
from envbuilder.language import ENGLISH, speak
from envbuilder.matrix import load
from envbuilder.matrix.model import CPU, GPU, NPU, STAND_IN
from envbuilder.matrix.record import Record

Function = TypeVar("Function", bound=Callable[..., Any])
Value = TypeVar("Value", bound=Record)
Given = TypeVar("Given")

# options that describe a site or a habit, by their names without dashes: each has a variable, and may be in a file
SETTINGS: dict[str, click.Option] = {}

# an option that only the command line gives
option = click.option

INPUT_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
OUTPUT_FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)


def command(name: str, cls: type[Command] = Command) -> Callable[[Callable[..., Any]], Command]:
    return click.command(name, cls=cls)


def setting(*declarations: str, **details: Any) -> Callable[[Function], Function]:
    """Return an option that a variable or a settings file may give too, for every command that has it."""
    key = next(text for text in declarations if text.startswith("--"))[2:]
    details["envvar"] = f"ENVBUILDER_{key.replace('-', '_').upper()}"
    SETTINGS[key] = click.Option(declarations, **details)
    return click.option(*declarations, **details)


def _group(
    name: str, kind: type[Value], *options: Any, keep: Callable[[Value, dict[str, Any]], Value] = lambda value, _: value
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds options and passes them to the command as one value of this type.

    `keep` may change this value; it receives the values of the other options and arguments too.
    """

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def gathered(**values: Any) -> Any:
            own = {field: values.pop(field) for field in kind.record_types if field in values}
            return function(**values, **{name: keep(kind(**own), values)})

        for declared in reversed(options):
            gathered = declared(gathered)
        return gathered

    return add


def complete_identifier(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return [item.id for item in environments(load(_directory(context))) if item.id.startswith(incomplete)]


def _complete_dimension(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    matrix = load(_directory(context))
    if parameter.name == "hw":
        values = {name for key, item in matrix.hardware.items() for name in (key, *item.aliases, *item.products)}
    elif parameter.name == "os":
        values = set(matrix.root.systems)
    else:
        values = {getattr(item, str(parameter.name)) for item in environments(matrix)}
    return sorted(value for value in values if value.startswith(incomplete))


def complete_component(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return sorted(name for name in load(_directory(context)).components if name.startswith(incomplete))


def complete_setting(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return sorted(key for key in SETTINGS if key.startswith(incomplete))


def _directory(context: click.Context) -> Path | None:
    value = context.params.get("matrices")
    return Path(value) if value else None


def _dimension(name: str, text: str) -> Callable[[Function], Function]:
    return setting(f"--{name}", metavar="NAME", help=text, shell_complete=_complete_dimension)


talk = _group(
    "talk", arguments.Talk,
    setting("-q", "--quiet", count=True, help="Print less; twice: only errors."),
    setting("-v", "--verbose", count=True, help="Print more."),
    setting(
        "--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True,
        help="Use colours; NO_COLOR is respected.",
    ),
    setting("--no-progress", is_flag=True, help="Print plain lines, draw nothing."),
    setting("--debug", is_flag=True, help="Show a traceback on errors."),
)  # fmt: skip

matrices = _group(
    "matrices", arguments.MatrixFolder,
    setting("--matrices", type=FOLDER, help="Use another matrix folder, or an overlay on the built-in one."),
)  # fmt: skip


def _typed(dimensions: arguments.Dimensions, others: dict[str, Any]) -> arguments.Dimensions:
    """Return only the dimensions on the command line if each environment is named in full."""
    names = others.get("identifiers") or [others.get("identifier") or others.get("target") or ""]
    # these signs make a name a glob, or an image
    if any(not name or set(name) & set("*?[/:") for name in names):
        return dimensions
    context = click.get_current_context()
    typed = {
        name: value
        for name, value in dimensions.__dict__.items()
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    return arguments.Dimensions(**{**typed, "machine": dimensions.machine})


_names = (
    _dimension("framework", "Name of the framework."),
    _dimension("branch", "Branch or release of the framework."),
    _dimension("engine", "Name of the rollout engine."),
    _dimension("hw", "Family of the NPUs, or name of a product."),
    _dimension("arch", "Machine architecture."),
    _dimension("os", "Operating system of the base image."),
)
# for commands that take all environments which the options admit
filters = _group("dimensions", arguments.Dimensions, *_names, keep=_typed)
# for commands that choose one of them
dimensions = _group(
    "dimensions", arguments.Dimensions, *_names,
    setting(
        "--machine", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False),
        help="Choose for the machine whose files are in this folder, as doctor --root reads them.",
    ),
    keep=_typed,
)  # fmt: skip

ca_bundle = setting("--ca-bundle", type=INPUT_FILE, help="Trust the certificates in this file.")

registry = setting(
    "--registry", default=USUAL_REGISTRY, show_default=True, metavar="PREFIX",
    help="Prefix of image names, such as registry.example.com/ascend.",
)  # fmt: skip


def registry_of(use: str, **details: Any) -> Callable[[Function], Function]:
    """Return `--registry` without a default, for a command that uses a server."""
    return click.option("--registry", envvar=SETTINGS["registry"].envvar, metavar="PREFIX", help=use, **details)


index = _group(
    "index", arguments.IndexArguments,
    setting("--index-url", metavar="URL", help="Package index to use; default: that of pip or uv."),
    ca_bundle,
)  # fmt: skip

devices = _group(
    "devices", arguments.DeviceArguments,
    option(
        "--device", type=click.Choice(["auto", NPU, GPU, CPU, STAND_IN]), default="auto", show_default=True,
        help="Device to train on; auto takes the NPUs or GPUs of this machine if the environment is made for them.",
    ),
    option("--npus", type=click.IntRange(1, 64), help="Number of NPUs or GPUs; default: all of this machine."),
)  # fmt: skip

allow_change = option(
    "--allow-change", multiple=True, metavar="NAME",
    help="Let this package of the row have another version; the proof of the row does not cover it then.",
)  # fmt: skip

proof_files = _group(
    "proof_files", arguments.ProofFiles,
    option("--junit", type=OUTPUT_FILE, help="Write the result of the proof to this file, as JUnit XML."),
    option("--html", type=OUTPUT_FILE, help="Write the result of the proof to this file, as an HTML page."),
)  # fmt: skip

apt_mirror = setting(
    "--apt-mirror", metavar="URL",
    help="Mirror of the distribution's packages, with folders such as /debian and /ubuntu.",
)  # fmt: skip

git_mirror = setting(
    "--git-mirror", metavar="DIR|URL", help="Folder of bare repositories, or an address in place of the git host."
)

sources = _group(
    "sources", arguments.SourceArguments,
    option(
        "--source", type=click.Choice(["auto", "git", "sdist"]), default="auto", show_default=True,
        help="Take sources from repositories, from archives of the package index, or from where they can be reached.",
    ),
    git_mirror,
)  # fmt: skip

reach = _group(
    "reach", arguments.ReachArguments,
    option("--base-image", metavar="IMAGE", help="Use another base image."),
    setting("--registry-mirror", metavar="HOST", help="Pull base images from this host instead of their registry."),
    apt_mirror,
    setting("--proxy", metavar="URL", help="Proxy to use in the build."),
    setting(
        "--network-settings", type=click.Choice(["host", "none"]), default="host", show_default=True,
        help="Pass this host's certificates, proxies and package index to the build, or none of them.",
    ),
)  # fmt: skip

offline = option(
    "--offline", metavar="BUNDLE", type=INPUT_FILE,
    help="Take everything from a file that `envbuilder bundle` has written.",
)  # fmt: skip


def in_english(context: click.Context, parameter: click.Parameter, value: Given) -> Given:
    """Print this run in English, as programs read the output that this option selects."""
    if value:
        speak(ENGLISH)
    return value


as_json = setting("--json", "json_", is_flag=True, is_eager=True, callback=in_english, help="Print JSON.")

pip_index = setting("--pip-index", metavar="URL", help="Package index to use in the build.")

wheel_cache = setting(
    "--wheel-cache", type=FOLDER, help="Folder of the wheels that were built from source; machines may share it."
)

model_mirror = setting(
    "--model-mirror", metavar="URL", help="Fetch models and data sets from this address instead of the model hub."
)

mirrors = setting(
    "--mirror", "mirrors", multiple=True, metavar="HOST[/PATH]",
    help="Take the layers from this mirror if it has the same image; of several mirrors, from the first that has it.",
)  # fmt: skip

verify_keys = setting(
    "--verify-key", "verify_keys", multiple=True, metavar="[PREFIX=]FILE", type=arguments.KeyFile(),
    help="Refuse an image that none of these public keys has signed; with PREFIX, the key is for names that begin so.",
)  # fmt: skip

allow_unsigned = option(
    "--allow-unsigned", is_flag=True, help="Take an image whose name none of the keys is for, without a signature."
)

# no command has this one: only the user's file and the variable count
setting(
    "--trusted-folder", multiple=True, metavar="DIR", type=FOLDER,
    help="Folder whose envbuilder.toml may choose registries, keys and mirrors, whoever can write it.",
)  # fmt: skip

bundle_keys = click.option(
    "--verify-key", "verify_keys", multiple=True, metavar="FILE", type=arguments.KeyFile(),
    envvar=SETTINGS["verify-key"].envvar, help="Refuse a bundle that none of these public keys has signed.",
)  # fmt: skip


def is_typed(name: str) -> bool:
    """Return whether the command line itself has an option, and not only a variable or a settings file."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


sign_key = setting(
    "--sign-key", metavar="FILE", type=INPUT_FILE, help="Sign the image with this private key, as cosign does."
)

bundle_sign_key = click.option(
    "--sign-key", metavar="FILE", type=INPUT_FILE, envvar=SETTINGS["sign-key"].envvar,
    help="Sign the bundle with this private key, as `cosign sign-blob` does.",
)  # fmt: skip

pins = _group(
    "pins", arguments.PinArguments,
    option("--pin", multiple=True, metavar="NAME=VERSION", help="Try another version of one component."),
)  # fmt: skip

container = _group(
    "container", arguments.ContainerArguments,
    option("--volume", multiple=True, metavar="SRC:DST[:ro]", help="Mount a path of the host, or a volume."),
    option(
        "--env", multiple=True, metavar="NAME[=VALUE]", help="Set a variable; without a value, take that of this shell."
    ),
)  # fmt: skip

identifier = click.argument("identifier", metavar="[ID]", required=False, shell_complete=complete_identifier)
identifiers = click.argument("identifiers", metavar="[ID]...", nargs=-1, shell_complete=complete_identifier)
