"""envbuilder diagnose"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from envbuilder.cli import options
from envbuilder.cli.arguments import MatrixFolder, Talk, text_of
from envbuilder.cli.console import Console
from envbuilder.cli.json import diagnosis, document
from envbuilder.errors import UsageError

if TYPE_CHECKING:
    from envbuilder.diagnose.judge import Diagnosis

_TITLES = {"error": "certainly wrong", "warning": "suspicious", "info": "expected, or for information"}


@options.command("diagnose")
@click.argument("file", required=False)
@options.option("--live", is_flag=True, help="Collect a report of this machine and diagnose it.")
@options.option("--image", metavar="IMAGE", help="Diagnose the packages of an image in the engine.")
@options.as_json
@options.matrices
@options.talk
def command(file: str | None, live: bool, image: str | None, json_: bool, matrices: MatrixFolder, talk: Talk) -> None:
    """Diagnose a report of a broken environment: what is wrong, what is suspicious, what is harmless, what helps.

    FILE may mix output of collect_env, pip list and npu-smi with tracebacks and prose; - is standard input.
    """
    from envbuilder.diagnose.facts import keys
    from envbuilder.diagnose.judge import diagnose

    if sum((file is not None, live, image is not None)) != 1:
        raise UsageError("exactly one report is needed", hint="give a FILE, or -, or --live, or --image IMAGE")
    console, catalog = talk.console, matrices.catalog(everything=True)
    found = diagnose(catalog, _report(file, live, image))
    if json_:
        facts = {**dict.fromkeys(keys(catalog)), **found.facts}
        closest = found.closest.id if found.closest else None
        console.data(document(facts=facts, closest=closest, findings=[diagnosis(item) for item in found.findings]))
    else:
        _show(console, found)


def _report(file: str | None, live: bool, image: str | None) -> str:
    if file is not None:
        return text_of(file)
    from envbuilder.diagnose.collect import of_image, of_machine

    if image is not None:
        from envbuilder.docker.engine import Docker

        return of_image(image, Docker())
    from envbuilder.doctor.machine import look

    return of_machine(look())


def _show(console: Console, found: Diagnosis) -> None:
    if found.facts:
        seen = ", ".join(f"{name} {value}" for name, value in found.facts.items())
        console.wrapped(f"seen: {seen}", 0, "")
    for severity, title in _TITLES.items():
        items = [item for item in found.findings if item.severity == severity]
        if items:
            console.out()
            console.out(console.style(title, severity if severity != "info" else "title"))
        for item in items:
            console.wrapped(f"{item.code}: {item.message}", 2, "")
            if item.hint:
                console.wrapped(item.hint, 6, "")
            if item.source:
                console.wrapped(f"source: {item.source}", 6)
    if found.closest is not None:
        console.out()
        console.heading("the environment to use")
        console.out(f"  {found.closest.id}")
        for step in ("show", "pull", "build"):
            console.out(f"    envbuilder {step} {found.closest.id}")
