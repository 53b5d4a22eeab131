"""The help of commands: examples, then the options of the command; the options of all commands take one line."""

from __future__ import annotations

import inspect
from pathlib import Path

import click

from envbuilder.language import tr

# described by `envbuilder --help`
COMMON = ("matrices", "json", "quiet", "verbose", "color", "no-progress", "debug", "help")
_EXAMPLES = Path(__file__).with_name("examples.yaml")
_DIMENSIONS = ("framework", "branch", "engine", "hw", "arch", "os", "machine")


def examples() -> dict[str, list[str]]:
    """Return the examples of each command, as lines for a shell."""
    import yaml

    found: dict[str, list[str]] = yaml.safe_load(_EXAMPLES.read_text(encoding="utf-8"))
    return found


def record_of(parameter: click.Parameter, context: click.Context) -> tuple[str, str] | None:
    """Return an option with its help in the language of the user."""
    record = parameter.get_help_record(context)
    if record is None:
        return None
    text, mark, extra = record[1].partition("  [")
    return record[0], tr(text) + mark + extra


class Translated(click.Command):
    """A command whose help is in the language of the user."""

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for paragraph in inspect.cleandoc(self.help or "").split("\n\n"):
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(tr(" ".join(paragraph.split())))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = (item for item in self.get_params(ctx) if not isinstance(item, click.Argument))
        records = (record_of(option, ctx) for option in options)
        with formatter.section(tr("Options")):
            formatter.write_dl([record for record in records if record is not None])

    def get_short_help_str(self, limit: int = 45) -> str:
        return tr(" ".join(inspect.cleandoc(self.help or "").partition("\n\n")[0].split()))


class Group(Translated, click.Group):
    command_class = Translated

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


class Command(Translated):
    """A command with examples."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section(tr("Examples")):
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
                with formatter.section(tr(title)):
                    formatter.write_dl(records)
        formatter.write_paragraph()
        formatter.write_text(tr("Also: {options}; see `envbuilder --help`.", options=", ".join(common)))


def long_name(parameter: click.Parameter) -> str:
    return next((text[2:] for text in parameter.opts if text.startswith("--")), str(parameter.name))
