"""envbuilder diff"""

from __future__ import annotations

from itertools import groupby
from typing import Any

import click

from envbuilder.cli import arguments, options
from envbuilder.cli.json import change, document
from envbuilder.environment.resolve import resolve
from envbuilder.environment.select import pick
from envbuilder.plan import make_plan
from envbuilder.plan.diff import Change, compare


@click.command("diff")
@click.argument("before", metavar="A", shell_complete=options.complete_identifier)
@click.argument("after", metavar="B", shell_complete=options.complete_identifier)
@options.as_json
@options.matrices
@options.talking
def command(before: str, after: str, **given: Any) -> None:
    """What changes from environment A to environment B: pins, steps, variables, paths, known issues."""
    console, matrix = arguments.console_of(given), arguments.matrix_of(given)
    environments = [resolve(matrix, pick(matrix, name)) for name in (before, after)]
    old, new = ((item, make_plan(matrix, item)) for item in environments)
    changes = compare(old, new)
    if given["json_"]:
        console.data(document(a=environments[0].id, b=environments[1].id, changes=[change(item) for item in changes]))
        return
    for section, items in groupby(changes, key=lambda item: item.section):
        console.out(console.style(section, "title"))
        for item in items:
            console.out("  " + _line(item, console))
    if not changes:
        console.talk("no difference")


def _line(item: Change, console: Any) -> str:
    if item.before is None:
        return str(console.style(f"+ {item.name}", "added")) + _value(item.after)
    if item.after is None:
        return str(console.style(f"- {item.name}", "removed")) + _value(item.before)
    return f"  {item.name}  {item.before} -> {item.after}"


def _value(text: str | None) -> str:
    return "" if text == "yes" else f"  {text}"
