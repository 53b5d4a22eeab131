"""envbuilder diff"""

from __future__ import annotations

from itertools import groupby

import click

from envbuilder.cli import options
from envbuilder.cli.arguments import MatrixFolder, Talk
from envbuilder.cli.console import Console
from envbuilder.cli.json import change, document
from envbuilder.plan import make_plan
from envbuilder.plan.diff import Change, compare


@options.command("diff")
@click.argument("before", metavar="A", shell_complete=options.complete_identifier)
@click.argument("after", metavar="B", shell_complete=options.complete_identifier)
@options.as_json
@options.matrices
@options.talk
def command(before: str, after: str, json_: bool, matrices: MatrixFolder, talk: Talk) -> None:
    """Show what changes from environment A to environment B: pins, steps, variables, paths, known issues."""
    console, catalog = talk.console, matrices.catalog()
    environments = [catalog.pick(name) for name in (before, after)]
    old, new = ((item, make_plan(item)) for item in environments)
    changes = compare(old, new)
    if json_:
        console.data(document(a=environments[0].id, b=environments[1].id, changes=[change(item) for item in changes]))
        return
    for section, items in groupby(changes, key=lambda item: item.section):
        console.heading(section)
        for item in items:
            console.out("  " + _line(item, console))
    if not changes:
        console.talk("no difference")


def _line(item: Change, console: Console) -> str:
    if item.before is None:
        return console.style(f"+ {item.name}", "added") + _value(item.after)
    if item.after is None:
        return console.style(f"- {item.name}", "removed") + _value(item.before)
    return f"  {item.name}  {item.before} -> {item.after}"


def _value(text: str | None) -> str:
    return "" if text == "yes" else f"  {text}"
