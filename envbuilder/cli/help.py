"""The help of commands: examples first, then the options of the command; those of all commands are in one line."""

from __future__ import annotations

from pathlib import Path

import click

# shown by `envbuilder --help`
COMMON = ("matrices", "json", "quiet", "verbose", "color", "no-progress", "debug", "help")
_EXAMPLES = Path(__file__).with_name("examples.yaml")
_DIMENSIONS = ("framework", "branch", "engine", "hw", "arch", "os")


def examples() -> dict[str, list[str]]:
    """Return the examples of each command, as lines for a shell."""
    import yaml

    found: dict[str, list[str]] = yaml.safe_load(_EXAMPLES.read_text(encoding="utf-8"))
    return found


class Command(click.Command):
    """A command with examples."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Examples"):
            for line in examples()[str(self.name)]:
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")
        own: list[tuple[str, str]] = []
        dimensions: list[tuple[str, str]] = []
        common: list[str] = []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            key = long_name(parameter)
            if record is None or isinstance(parameter, click.Argument):
                continue
            if key in COMMON:
                common.append(f"--{key}")
            else:
                (dimensions if key in _DIMENSIONS else own).append(record)
        for title, records in (("Environment", dimensions), ("Options", own)):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
        formatter.write_paragraph()
        formatter.write_text(f"Also: {', '.join(common)}; see `envbuilder --help`.")


def long_name(parameter: click.Parameter) -> str:
    return next((text[2:] for text in parameter.opts if text.startswith("--")), str(parameter.name))
