"""Answers a report as a colleague would: the cause, by which line, how to be sure, what to change, what works."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from envbuilder.cli.console import Console
from envbuilder.language import tr

if TYPE_CHECKING:
    from envbuilder.check import Finding
    from envbuilder.diagnose.judge import Diagnosis

_LONGEST = 110


class _Part(NamedTuple):
    title: str
    text: str


def show_answer(console: Console, found: Diagnosis) -> None:
    seen = ", ".join(f"{name} {value}" for name, value in found.facts.items())
    if seen:
        console.entry(tr("seen"), seen)
    for number, item in enumerate(found.findings):
        console.out()
        console.heading(tr("cause") if number == 0 and item.severity in {"error", "warning"} else _rank(item))
        console.wrapped(item.cause, 2, "")
        for title, text in _parts(found, item):
            console.entry(title, text, indent=4)
        console.entry(tr("code"), item.code, indent=4)
    if found.closest is not None:
        console.out()
        console.heading(tr("the environment to use"))
        console.out(f"  {found.closest.id}")
        for step in ("show", "pull", "build"):
            console.out(f"    envbuilder {step} {found.closest.id}")


def markdown_answer(found: Diagnosis) -> str:
    """Return a reply for an issue."""
    blocks = []
    for number, item in enumerate(found.findings):
        is_cause = number == 0 and item.severity in {"error", "warning"}
        title = tr("cause") if is_cause else _rank(item)
        lines = [f"**{title}** (`{item.code}`): {item.cause}", ""]
        lines += [f"- {name}: {text}" for name, text in _parts(found, item)]
        blocks.append("\n".join(lines).rstrip())
    if found.closest is not None:
        commands = "\n".join(f"envbuilder {step} {found.closest.id}" for step in ("show", "build"))
        blocks.append(f"**{tr('the environment to use')}**: `{found.closest.id}`\n\n```console\n{commands}\n```")
    return "\n\n".join(blocks)


def _rank(item: Finding) -> str:
    if item.severity == "error":
        return tr("also wrong")
    return tr("also suspicious") if item.severity == "warning" else tr("expected, or for information")


def _parts(found: Diagnosis, item: Finding) -> Iterator[_Part]:
    if item.severity in {"error", "warning"}:
        # versions that were not published together may work
        likely = tr("possible") if item.components else tr("likely")
        yield _Part(tr("certainty"), tr("certain") if item.severity == "error" else likely)
    for place in item.lines:
        quote = found.report.quoted(place)
        yield _Part(tr("shown by"), f"{quote.number}: {quote.text[:_LONGEST]}")
    if item.ask and item.severity in {"error", "warning"}:
        yield _Part(tr("to be sure"), item.ask)
    if item.hint:
        yield _Part(tr("change") if item.severity in {"error", "warning"} else tr("note"), item.hint)
    if item.source:
        yield _Part(tr("source"), item.source)
