"""The command line. The module of a command is imported when it is called, so that `list` starts fast."""

from __future__ import annotations

import errno
import importlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

import click

from envbuilder import __version__
from envbuilder.cli.click_texts import translate_click
from envbuilder.cli.console import Console
from envbuilder.cli.help import Group
from envbuilder.docker.which import name_engine
from envbuilder.errors import (
    EnvbuilderError,
    HostError,
    InconclusiveError,
    MatrixError,
    NetworkError,
    NoMatchError,
    UsageError,
    ValidationError,
)
from envbuilder.language import did_you_mean, speaking, tr

# the commands in groups, each with one line of help; its module in commands/ has the same name
GROUPS = {
    "Choose": {
        "choose": "Choose an environment on a page in the browser.",
        "hardware": "List the servers that --hw takes.",
        "list": "List environments.",
        "show": "Show one environment: pins, reasons, known issues, evidence.",
        "compat": "Show what goes with a release of a component, such as torch_npu 2.8.0.",
        "diff": "Show what changes between two environments, or between two images.",
    },
    "Extend": {
        "init": "Make this folder a project on an environment: own packages, own fork.",
        "add": "Add packages to the project, and lock it.",
        "remove": "Remove packages from the project, and lock it.",
        "upgrade": "Move the project to another release of its framework.",
    },
    "Get": {
        "pull": "Pull a prebuilt image of an environment, by digest.",
        "build": "Build an image of an environment, and prove it.",
        "install": "Install an environment on this host, without a container.",
        "bundle": "Write everything for a site without a network into one file.",
        "load": "Load an image from a file, for sites without a network.",
    },
    "Use": {
        "run": "Run a container with what the hardware needs, or print it for elsewhere.",
        "quickstart": "Print or run the documents' training, on one node or several.",
        "images": "List images, in the engine and in a registry.",
        "validate": "Prove an image: checks, imports, and a training run that has to learn.",
        "compare": "Compare two training runs with the published limits.",
    },
    "Repair": {
        "doctor": "Examine this machine: what is wrong, and which environments it can run.",
        "diagnose": "Diagnose a report of a broken environment.",
    },
    "Maintain": {
        "check": "Check environments against the rules.",
        "lock": "Lock exact versions with hashes, resolved by uv.",
        "render": "Render the Dockerfile or install script of an environment.",
        "bake": "Write a folder for `docker buildx bake`, to build many images elsewhere.",
        "push": "Publish images, with their proof.",
        "keys": "Make keys that sign images.",
        "base": "Make a base image from the distribution's packages.",
        "cache": "Show and empty the cache.",
        "config": "List and change the settings that hold for every command.",
        "matrix": "Maintain the matrices.",
    },
}
COMMANDS = {name: text for group in GROUPS.values() for name, text in group.items()}
_COMMON = {
    "--matrices DIR": "Use another matrix folder, or an overlay on the built-in one.",
    "--json": "Print JSON, in commands that read.",
    "-q, -v": "Print less (twice: only errors), or more.",
    "--color WHEN": "Use colours: auto, always or never; NO_COLOR is respected.",
    "--no-progress": "Print plain lines, draw nothing.",
    "--debug": "Show a traceback on errors.",
}
_WIDTH = max(map(len, COMMANDS))
_ERRORS = (UsageError, MatrixError, NoMatchError, HostError, ValidationError, NetworkError, InconclusiveError)
EXIT_CODES = {
    "0": "done",
    "1": "failed",
    **{str(kind.exit_code): kind.meaning for kind in _ERRORS},
    "130": "interrupted",
}


class _LazyGroup(Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        from envbuilder.cli import options
        from envbuilder.cli.settings import defaults

        command: click.Command = importlib.import_module(f"envbuilder.cli.commands.{cmd_name}").command
        command.context_settings["default_map"] = defaults(command, options.SETTINGS)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; end without a message when the reader of a pipe (head, less) has closed it."""
        result: Any = 128 + signal.SIGPIPE
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError as error:
            if not _reader_has_gone():
                raise EnvbuilderError(tr("a connection was closed by the other side")) from error
            # Python flushes standard output at exit, which must not fail again
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return result

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Read `help COMMAND` as `COMMAND --help`, and suggest a command for a mistyped one."""
        name, *rest = args
        if name == "help":
            if not rest:
                click.echo(ctx.get_help())
                ctx.exit()
            return self.resolve_command(ctx, [rest[0], "--help"])
        if name not in COMMANDS:
            guess = did_you_mean(name, COMMANDS)
            raise UsageError(
                tr("there is no command '{name}'", name=name),
                hint=guess + tr("`envbuilder --help` lists all commands"),
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in GROUPS.items():
            with formatter.section(tr(title)):
                formatter.write_dl([(name.ljust(_WIDTH), tr(text)) for name, text in commands.items()])
        for title, lines in (("Options of all commands", _COMMON), ("Exit codes", EXIT_CODES)):
            with formatter.section(tr(title)):
                formatter.write_dl([(name, tr(text)) for name, text in lines.items()])
        formatter.write_paragraph()
        more = tr("`envbuilder COMMAND --help` shows examples; `envbuilder config --all` lists settings.")
        formatter.write_text(more)


def _reader_has_gone() -> bool:
    import select

    poll = select.poll()
    poll.register(sys.stdout, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


translate_click()


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="envbuilder")
def cli() -> None:
    """Build and prove containerized environments for RL training on Huawei Ascend NPUs."""


# the error of a write does not name the file
_FULL = "free space, or name folders on another disk by TMPDIR, XDG_CACHE_HOME and XDG_STATE_HOME"


# --json changes the language, and tests call this more than once in a process
@speaking(None)
def main() -> None:
    """Run the command line, and end with its exit code."""
    # a build that is terminated, or whose terminal is closed, cleans up like one that is interrupted
    for ending in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(ending) is not signal.SIG_IGN:
            signal.signal(ending, lambda number, _: sys.exit(128 + number))
    # a stream that is closed from the start is None
    sys.stdin = sys.stdin or Path(os.devnull).open()  # noqa: SIM115
    sys.stdout, sys.stderr = (stream or Path(os.devnull).open("w") for stream in (sys.stdout, sys.stderr))  # noqa: SIM115
    name_engine()
    debug = "--debug" in sys.argv or bool(os.environ.get("ENVBUILDER_DEBUG"))
    try:
        _run()
    except EnvbuilderError as error:
        if debug:
            raise
        Console().error(error)
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        Console().talk(tr("interrupted"))
        sys.exit(130)
    except OSError as error:
        # a full disk, a folder that is a file or belongs to another user
        if debug:
            raise
        place = f"{error.filename}: " if error.filename else ""
        is_full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        kind, hint = (HostError, tr(_FULL)) if is_full else (EnvbuilderError, None)
        Console().error(kind(f"{place}{error.strerror or error}", hint=hint))
        sys.exit(kind.exit_code)


def _run() -> None:
    try:
        result: Any = cli.main(prog_name="envbuilder", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        sys.exit(UsageError.exit_code)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        hint = tr("see `{command} --help`", command=context.command_path) if context else None
        raise UsageError(error.format_message().replace("\n", " "), hint=hint) from error
    if isinstance(result, int):
        sys.exit(result)
