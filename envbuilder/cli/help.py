"""The help of commands: examples first, then the options of the command; those of all commands are in one line."""

from __future__ import annotations

import inspect
from pathlib import Path

import click

from envbuilder.cli.language import translated

# shown by `envbuilder --help`
COMMON = ("matrices", "json", "quiet", "verbose", "color", "no-progress", "debug", "help")
_EXAMPLES = Path(__file__).with_name("examples.yaml")
_DIMENSIONS = ("framework", "branch", "engine", "hw", "arch", "os")


def examples() -> dict[str, list[str]]:
    """Return the examples of each command, as lines for a shell."""
    import yaml

    found: dict[str, list[str]] = yaml.safe_load(_EXAMPLES.read_text(encoding="utf-8"))
    return found


def record_of(parameter: click.Parameter, context: click.Context) -> tuple[str, str] | None:
    """Return the words of an option and its help in the language of the user."""
    record = parameter.get_help_record(context)
    if record is None:
        return None
    text, mark, extra = record[1].partition("  [")
    return record[0], translated(text) + mark + extra


class Command(click.Command):
    """A command with examples."""

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_paragraphs(self.help or "", formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section(translated("Examples")):
            for line in examples()[str(self.name)]:
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")
        own: list[tuple[str, str]] = []
        dimensions: list[tuple[str, str]] = []
        common: list[str] = []
        for parameter in self.get_params(ctx):
            record = record_of(parameter, ctx)
            key = long_name(parameter)
            if record is None or isinstance(parameter, click.Argument):
                continue
            if key in COMMON:
                common.append(f"--{key}")
            else:
                (dimensions if key in _DIMENSIONS else own).append(record)
        for title, records in (("Environment", dimensions), ("Options", own)):
            if records:
                with formatter.section(translated(title)):
                    formatter.write_dl(records)
        formatter.write_paragraph()
        formatter.write_text(translated(f"Also: {', '.join(common)}; see `envbuilder --help`."))


def write_paragraphs(text: str, formatter: click.HelpFormatter) -> None:
    """Write the help of a command, each paragraph in the language of the user."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(translated(" ".join(paragraph.split())))


def long_name(parameter: click.Parameter) -> str:
    return next((text[2:] for text in parameter.opts if text.startswith("--")), str(parameter.name))
