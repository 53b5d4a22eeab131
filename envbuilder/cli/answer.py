"""Prints a diagnosis: the cause, the lines that show it, how to be sure, what to change, which environment works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from envbuilder.cli.console import Console
from envbuilder.cli.markdown import code, escaped
from envbuilder.language import tr

if TYPE_CHECKING:
    from envbuilder.check import Finding
    from envbuilder.diagnose.judge import Diagnosis

_LONGEST = 110
_SERIOUS = {"error", "warning"}


def show_answer(console: Console, found: Diagnosis) -> None:
    seen = ", ".join(f"{name} {value}" for name, value in found.facts.items())
    if seen:
        console.entry(tr("seen"), seen)
    for number, item in enumerate(found.findings):
        console.section(_title(item, first=number == 0))
        console.wrapped(item.cause, 2, "")
        for title, text in _parts(found, item):
            console.entry(title, text, indent=4)
        console.entry(tr("code"), item.code, indent=4)
    if found.closest is not None:
        console.section(tr("the environment to use"))
        console.out(f"  {found.closest.id}")
        for step in ("show", "pull", "build"):
            console.out(f"    envbuilder {step} {found.closest.id}")


def markdown_answer(found: Diagnosis) -> str:
    """Return a reply for an issue."""
    blocks = []
    for number, item in enumerate(found.findings):
        lines = [f"**{_title(item, first=number == 0)}** (`{item.code}`): {escaped(item.cause)}", ""]
        lines += [f"- {name}: {text}" for name, text in _parts(found, item, escaped, code)]
        blocks.append("\n".join(lines).rstrip())
    if found.closest is not None:
        commands = "\n".join(f"envbuilder {step} {found.closest.id}" for step in ("show", "build"))
        blocks.append(f"**{tr('the environment to use')}**: `{found.closest.id}`\n\n```console\n{commands}\n```")
    return "\n\n".join(blocks)


def _title(item: Finding, *, first: bool) -> str:
    if item.severity not in _SERIOUS:
        return tr("expected, or for information")
    if first:
        return tr("cause")
    return tr("also wrong") if item.severity == "error" else tr("also suspicious")


def _parts(
    found: Diagnosis, item: Finding, prose: Callable[[str], str] = str, quoted: Callable[[str], str] = str
) -> Iterator[tuple[str, str]]:
    """Yield the details of a finding, each with its title; the functions write texts, and lines of the report."""
    is_serious = item.severity in _SERIOUS
    if is_serious:
        # versions that were not published together may work
        likely = tr("possible") if item.components else tr("likely")
        yield tr("certainty"), tr("certain") if item.severity == "error" else likely
    for place in item.lines:
        quote = found.report.quoted(place)
        yield tr("shown by"), f"{quote.number}: {quoted(quote.text[:_LONGEST])}"
    if item.ask and is_serious:
        yield tr("to be sure"), prose(item.ask)
    if item.hint:
        yield tr("change") if is_serious else tr("note"), prose(item.hint)
    if item.source:
        yield tr("source"), prose(item.source)
