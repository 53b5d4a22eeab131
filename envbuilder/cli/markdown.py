"""Writes an environment as Markdown, for a reply in an issue or a page of a document."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from envbuilder.environment import Environment
from envbuilder.environment.citations import address
from envbuilder.environment.levels import PROVES
from envbuilder.plan import Plan


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def link(text: str, source: str) -> str:
    found = address(source)
    return f"[{text}]({found})" if found else f"{text} ({source})"


def environment_table(environment: Environment, plan: Plan) -> str:
    pins = [
        (
            f"`{pin.name}`",
            f"`{pin.full}`",
            pin.documented or "",
            " ".join((pin.because or "").split()),
            link("source", pin.source),
        )
        for pin in environment.pins.values()
    ]
    proven = environment.proven
    facts = [
        f"- base image: `{plan.base_image}`",
        f"- proven: {f'`{proven}`, {PROVES[proven]}' if proven else 'nothing recorded'}",
    ]
    for issue in environment.known_issues:
        workaround = f" Workaround: {issue.workaround}" if issue.workaround else ""
        facts.append(f"- known issue: {' '.join(issue.what.split())}{workaround} {link('source', issue.source)}")
    commands = (f"$ envbuilder {name} {environment.id}" for name in ("show", "build"))
    return "\n\n".join(
        (
            f"### {plan.title}",
            table(("component", "version", "documented as", "reason", ""), pins),
            "\n".join(facts),
            "\n".join(("```console", *commands, "```")),
        )
    )
