"""envbuilder run"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from envbuilder import platforms
from envbuilder.cli import arguments, options
from envbuilder.cli.image_argument import Subject, is_image, subject_of
from envbuilder.environment.image_names import image_name
from envbuilder.errors import HostError, UsageError
from envbuilder.launch import CLUSTER, FORMS, SHELL
from envbuilder.launch.container import Launch, Mount, Needs, Wish, interface_note, needs_elsewhere, needs_in_cluster

if TYPE_CHECKING:
    from envbuilder.cli.console import Console
    from envbuilder.environment.resolve import Environment
    from envbuilder.matrix import Matrix

_INSIDE = "envbuilder.run.command"


class _WithCommand(click.Command):
    """What stands behind `--` is for the container, whether or not an image was named before."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[_INSIDE] = tuple(args[at + 1 :])
        return super().parse_args(ctx, args[:at])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND...]"]


def _size(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and re.fullmatch(r"[1-9]\d*[bkmg]?", value) is None:
        raise click.BadParameter(f"a number with k, m or g behind it, not '{value}'")
    return value


@click.command("run", cls=_WithCommand)
@click.argument("subject", metavar="[ID|IMAGE]", required=False, shell_complete=options.complete_identifier)
@options.dimensions
@options.registry
@options.option("--npus", metavar="LIST", help="Which NPUs, as /dev numbers them: 0,1 or 0-3; default: all there are.")
@options.option("--multi-node", is_flag=True, help="The job spans machines: the tools, waits and network for that.")
@options.option(
    "--print", "form", type=click.Choice(list(FORMS)), envvar="ENVBUILDER_RUN_PRINT",
    help="Print it instead, for this host or another.",
)  # fmt: skip
@options.option("--name", metavar="NAME", help="Name of the container.")
@options.option("--volume", multiple=True, metavar="SRC:DST[:ro]", help="A path of the host, or a volume.")
@options.option("--env", multiple=True, metavar="NAME[=VALUE]", help="A variable; without a value, that of this shell.")
@options.option(
    "--shm-size", metavar="SIZE", callback=_size, help="Shared memory, such as 64g; default: what the hardware wants."
)
@options.option("--network", metavar="NAME", help="Network; default: what the hardware wants.")
@options.option("--detach", is_flag=True, help="Leave it running and print its id.")
@options.option("--rm/--keep", default=True, show_default=True, help="What becomes of it when it ends.")
@options.matrices
@options.talking
def command(subject: str | None, form: str | None, **given: Any) -> None:
    """A container of an environment with exactly what its hardware needs: devices, driver, variables, memory.

    Everything is looked at first, and what is missing or taken is named. Never privileged. The exit code is that of
    the command in it.

    An image that is not of envbuilder is told by --hw and --engine what it is.
    """
    inside: tuple[str, ...] = click.get_current_context().meta[_INSIDE]
    volumes, variables = tuple(map(volume_of, given["volume"])), variables_of(given["env"])
    console, matrix = arguments.console_of(given), arguments.matrix_of(given)
    found = find_subject(matrix, subject, given, form)
    environment = found.environment
    if environment is None:
        raise UsageError(
            f"{found.image} has no label envbuilder.environment, so nothing says what it needs",
            hint="--hw and --engine, with --framework and --branch where they matter, say what it is",
        )
    wish = Wish(given["npus"], given["multi_node"], found.foreign, given["network"])
    needs, notes = needs_for(matrix, environment, form, wish)
    shm_size = given["shm_size"] or needs.shm_size
    launch = Launch(
        image=found.image,
        arch=environment.coordinates.arch,
        needs=replace(needs, shm_size=shm_size, variables={**needs.variables, **variables}),
        title=environment.id,
        name=given["name"],
        command=inside,
        volumes=volumes,
        keep=not given["rm"],
        detach=given["detach"],
        **_streams(inside, form, detach=given["detach"]),
    )
    if form is None:
        _say(console, notes)
        start_now(launch)
    text = FORMS[form](launch)
    if form == SHELL:
        _say(console, notes)
    else:
        text = "".join(f"# {note}\n" for note in notes) + text
    console.out(text.rstrip("\n"))


def _say(console: Console, notes: tuple[str, ...]) -> None:
    for note in notes:
        console.talk(note)


def start_now(launch: Launch) -> NoReturn:
    from envbuilder.launch.docker import start

    for mount in launch.volumes:
        if not mount.is_named and not Path(mount.source).exists():
            raise HostError(f"this host has no {mount.source}", hint=f"mkdir -p {mount.source}, or another --volume")
    start(launch)


def find_subject(matrix: Matrix, name: str | None, given: dict[str, Any], form: str | None) -> Subject:
    """To be printed, an image need not be here."""
    told = any(value is not None for value in arguments.filters_of(given))
    if form is not None and (told or not is_image(matrix, name)):
        foreign = is_image(matrix, name)
        environment = arguments.environment_of(matrix, None if foreign else name, given)
        image = name if foreign and name else image_name(matrix, environment, given["registry"])
        return Subject(image, environment, foreign)
    from envbuilder.docker.engine import Engine

    return subject_of(matrix, name, given, Engine(), foreign=True)


def needs_for(matrix: Matrix, environment: Environment, form: str | None, wish: Wish) -> tuple[Needs, tuple[str, ...]]:
    """What the container needs, and what whoever starts it should know. What is printed may be for another host."""
    hardware = environment.hardware
    more = (interface_note(environment.run, None),) if wish.multi_node else ()
    if form == CLUSTER:
        told = "nothing about this host was checked: a cluster has its own"
        return needs_in_cluster(environment, wish), (told, *more)
    if not hardware.devices:
        return needs_elsewhere(environment, wish), ()
    if not platforms.npus():
        if form is None:
            raise _no_npus(matrix, environment)
        told = f"nothing about this host was checked: it has no NPUs, and this is for {hardware.title}"
        return needs_elsewhere(environment, wish), (told, *more)
    from envbuilder.doctor.machine import look
    from envbuilder.launch.on_this_host import misfit, needs_here

    machine = look()
    if form is not None and (changes := misfit(matrix, environment, machine)):
        told = f"nothing else about this host was checked: {changes}"
        return needs_elsewhere(environment, wish), (told, *more)
    return needs_here(matrix, environment, machine, wish, free=form is None)


def _no_npus(matrix: Matrix, environment: Environment) -> HostError:
    rehearsals = [name for name, hardware in matrix.hardware.items() if hardware.rehearsal]
    return HostError(
        f"this host has no NPUs, and {environment.id} is for {environment.hardware.title}",
        hint=f"--print writes it for another host; --hw {' or '.join(rehearsals)} needs none",
    )


def _streams(inside: tuple[str, ...], form: str | None, *, detach: bool) -> dict[str, bool]:
    """A shell wants a terminal; so does whoever sits at one."""
    if detach or form is not None:
        return {"stdin": not inside, "terminal": not inside}
    return {"stdin": True, "terminal": sys.stdin.isatty() and sys.stdout.isatty()}


def volume_of(text: str) -> Mount:
    source, _, rest = text.partition(":")
    target, _, mode = rest.partition(":")
    if not source or not target.startswith("/") or mode not in {"", "ro", "rw"}:
        raise UsageError(f"--volume takes SRC:DST or SRC:DST:ro, not '{text}'")
    is_path = "/" in source or source in {".", "..", "~"}
    return Mount(str(Path(source).expanduser().absolute()) if is_path else source, target, mode == "ro")


def variables_of(texts: tuple[str, ...]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name.isidentifier():
            raise UsageError(f"--env takes NAME=VALUE or NAME, not '{text}'")
        found[name] = value if equals else None
    return found
