"""envbuilder run"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from envbuilder.cli import options
from envbuilder.cli.arguments import ContainerArguments, Dimensions, MatrixFolder, Talk
from envbuilder.cli.help import Command
from envbuilder.cli.image_argument import ImageArgument, find_image, is_image
from envbuilder.errors import UsageError
from envbuilder.files import write_text
from envbuilder.language import tr
from envbuilder.launch import EDITOR, FORMS, SHELL
from envbuilder.launch.container import ContainerOptions, Launch, Mount
from envbuilder.launch.devcontainer import EDITOR_FILE
from envbuilder.launch.prepare import needs_for, start_container
from envbuilder.plan.plan import HOME

if TYPE_CHECKING:
    from envbuilder.cli.console import Console
    from envbuilder.environment import Catalog, Environment

# the key of click's context for the words after `--`
_INSIDE = "envbuilder.run.command"
_OURS = "Written by envbuilder run --print devcontainer"


class _WithCommand(Command):
    """A command that runs the words after `--` in the container."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[_INSIDE] = tuple(args[at + 1 :])
        return super().parse_args(ctx, args[:at])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND...]"]


def _size(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and re.fullmatch(r"[1-9]\d*[bkmg]?", value) is None:
        raise click.BadParameter(tr("expected a number with an optional suffix k, m or g, not '{value}'", value=value))
    return value


def _file_in_english(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Print a file and its notes in English, but the notes of a shell command in the language of the user."""
    return value if value == SHELL else options.in_english(context, parameter, value)


@options.command("run", cls=_WithCommand)
@click.argument("target", metavar="[ID|IMAGE]", required=False, shell_complete=options.complete_identifier)
@options.dimensions
@options.registry
@options.option(
    "--npus",
    "--gpus",
    type=click.IntRange(1),
    metavar="N",
    help="Number of NPUs, of those that are free, or of GPUs; default: all of them.",
)
@options.option("--devices", metavar="LIST", help="NPUs or GPUs to use, by their numbers: 0,1 or 0-3.")
@options.option(
    "--multi-node", is_flag=True, help="Add the tools, time-outs and network that a job on several machines needs."
)
@options.option(
    "--print", "form", type=click.Choice(list(FORMS)), callback=_file_in_english,
    help="Print the container in this form instead of starting it, for this host or another.",
)  # fmt: skip
@options.option("--name", metavar="NAME", help="Name of the container.")
@options.container
@options.option(
    "--shm-size", metavar="SIZE", callback=_size, help="Shared memory, such as 64g; default: what the hardware needs."
)
@options.option("--network", metavar="NAME", help="Network; default: what the hardware needs.")
@options.option("--detach", is_flag=True, help="Run the container in the background and print its id.")
@options.option(
    "--dev", is_flag=True, help="Mount the project's own sources over the copies in its image, as your own user."
)
@options.option("--rm/--keep", default=True, show_default=True, help="Remove the container when it ends, or keep it.")
@options.matrices
@options.talk
def command(
    target: str | None, dimensions: Dimensions, registry: str, npus: int | None, devices: str | None, multi_node: bool,
    form: str | None, name: str | None, container: ContainerArguments, shm_size: str | None, network: str | None,
    detach: bool, dev: bool, rm: bool, matrices: MatrixFolder, talk: Talk,
) -> None:  # fmt: skip
    """Run a container of an environment with exactly what its hardware needs: devices, driver, variables, memory.

    The host is checked first, and devices or files that are missing or in use are reported. The container is never
    privileged. The exit code is that of the command in the container.

    --hw and --engine describe an image that envbuilder did not build.
    """
    if npus is not None and devices is not None:
        raise UsageError(tr("--npus takes how many, and --devices which ones: give one of them"))
    inside: tuple[str, ...] = click.get_current_context().meta[_INSIDE]
    # wrong values are errors before the image is looked for
    volumes, variables = container.volumes, container.variables
    console, catalog = talk.console, matrices.catalog()
    found = _image(catalog, target, dimensions, talk, registry, form)
    environment = found.environment
    if environment is None:
        raise UsageError(
            tr("{image} has no label envbuilder.environment, so its needs are unknown", image=found.image),
            hint=tr("--hw and --engine, with --framework and --branch where they matter, describe it"),
        )
    cpu_only = [key for key, hardware in catalog.hardware.items() if hardware.cpu_only]
    settings = ContainerOptions(devices, npus, multi_node, found.foreign, network)
    hint = tr(
        "--print writes the container for another host; --hw {names} needs no NPUs", names=tr(" or ").join(cpu_only)
    )
    own = _own_sources(environment) if dev else ()
    if dev:
        # a user without a home folder in the image
        variables = {"HOME": "/tmp", **variables}  # noqa: S108
    needs, notes = needs_for(environment, form, settings, hint)
    launch = Launch(
        image=found.image,
        arch=environment.coordinates.arch,
        needs=replace(needs, shm_size=shm_size or needs.shm_size, variables={**needs.variables, **variables}),
        title=environment.additions.project if environment.additions else environment.id,
        name=name,
        command=inside,
        volumes=(*own, *volumes),
        user=f"{os.getuid()}:{os.getgid()}" if dev else None,
        keep=not rm,
        detach=detach,
        **_streams(inside, form, detach=detach),
    )
    if form is None:
        _show_notes(console, notes)
        start_container(launch)
    text = FORMS[form](launch)
    if form == EDITOR:
        _show_notes(console, notes)
        console.out(_write_for_editor(text))
        return
    if form == SHELL:
        _show_notes(console, notes)
    else:
        text = "".join(f"# {note}\n" for note in notes) + text
    console.out(text.rstrip("\n"))


def _own_sources(environment: Environment) -> tuple[Mount, ...]:
    """Return the mounts of a project's folders over their copies in the image, where edits take effect at once."""
    sources = environment.additions.sources if environment.additions else {}
    found = tuple(
        Mount(str(item.folder.resolve()), f"{HOME}/src/{name}", read_only=False)
        for name, item in sources.items()
        if item.folder is not None
    )
    if not found:
        raise UsageError(
            tr("--dev mounts the project's own sources, and there are none"),
            hint=tr('in envbuilder.toml: sources = { NAME = "." }'),
        )
    return found


def _write_for_editor(text: str) -> str:
    """Write the file that editors look for in a folder; one that somebody else wrote stays."""
    file = Path.cwd() / EDITOR_FILE
    if file.is_file() and _OURS not in file.read_text(encoding="utf-8", errors="replace"):
        raise UsageError(
            tr("{file} was not written by envbuilder", file=EDITOR_FILE), hint=tr("move it away, and run this again")
        )
    write_text(file, f"// {_OURS}; run the same command again instead of editing it\n{text}")
    return EDITOR_FILE


def _show_notes(console: Console, notes: tuple[str, ...]) -> None:
    for note in notes:
        console.talk(note)


def _image(
    catalog: Catalog, name: str | None, dimensions: Dimensions, talk: Talk, registry: str, form: str | None
) -> ImageArgument:
    """Return the image of the argument; an image that is only printed need not be in the engine."""
    if form is not None and not is_image(name, catalog):
        environment = dimensions.environment(catalog, name, talk)
        return ImageArgument(environment.image_name(registry), environment)
    if form is not None and name is not None and dimensions.given:
        return ImageArgument(name, dimensions.environment(catalog, None, talk), foreign=True)
    from envbuilder.docker.engine import Docker

    return find_image(catalog, name, dimensions, talk, registry, Docker(), foreign=True)


def _streams(inside: tuple[str, ...], form: str | None, *, detach: bool) -> dict[str, bool]:
    """Return whether standard input and a terminal are attached, which a shell and a user at a terminal need."""
    if detach or form is not None:
        return {"stdin": not inside, "terminal": not inside}
    return {"stdin": True, "terminal": sys.stdin.isatty() and sys.stdout.isatty()}
