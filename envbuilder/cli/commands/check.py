"""envbuilder check"""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import click

from envbuilder.check import Finding, Wheels, check_environment, check_matrix
from envbuilder.cli import arguments, options
from envbuilder.cli.console import Console
from envbuilder.cli.json import document, finding
from envbuilder.environment.resolve import Environment, resolve
from envbuilder.environment.select import select
from envbuilder.errors import MatrixError
from envbuilder.matrix import Matrix


@click.command("check")
@options.identifiers
@options.dimensions
@options.pins
@options.option("--online", is_flag=True, help="Ask the package index whether each wheel exists.")
@options.index
@options.as_json
@options.matrices
@options.talking
def command(identifiers: tuple[str, ...], **given: Any) -> int:
    """Judge environments by the rules: errors cannot work, warnings work outside the published pairing.

    Exit code 3 where there is an error. Infos (what is expected) are shown with -v.
    """
    console, matrix = arguments.console_of(given), arguments.matrix_of(given, everything=True)
    chosen = select(matrix, identifiers, arguments.filters_of(given))
    pins = arguments.pins_of(given)
    findings = check_matrix(matrix)
    environments = [resolve(matrix, coordinates, pins) for coordinates in chosen]
    wheels = _wheels(matrix, environments, given) if given["online"] else None
    for environment in environments:
        findings += check_environment(matrix, environment, wheels)
    if given["json_"]:
        console.data(document(findings=[finding(item) for item in findings]))
    else:
        _print(console, findings, len(chosen))
    return MatrixError.exit_code if any(item.severity == "error" for item in findings) else 0


def _wheels(matrix: Matrix, environments: list[Environment], given: dict[str, Any]) -> Wheels:
    # requests is imported only by those who ask the network
    from envbuilder.lock.online import OnlineWheels

    wheels = OnlineWheels(arguments.index_of(given), ca_bundle=given["ca_bundle"])
    wheels.fetch(matrix, environments)
    return wheels


def _print(console: Console, findings: list[Finding], count: int) -> None:
    """One entry per message, however many environments share it."""
    groups: dict[tuple[str, str, str, str | None], list[Finding]] = {}
    for item in findings:
        if item.severity != "info" or console.verbosity > 0:
            groups.setdefault((item.severity, item.code, item.message, item.hint), []).append(item)
    for (severity, code, message, hint), items in groups.items():
        console.out(f"{console.style(f'{severity}[{code}]', severity)} {message}")
        console.out(f"  --> {items[0].where}")
        if hint:
            console.wrapped(f"hint: {hint}", 2)
        names = [item.environment for item in items if item.environment]
        if names and count > 1:
            more = f" and {len(names) - 2} more" if len(names) > 2 else ""
            console.wrapped(f"in: {', '.join(names[:2])}{more}", 2)
    counts = Counter(item.severity for item in findings)
    text = f"{count} environments: {counts['error']} errors, {counts['warning']} warnings, {counts['info']} infos"
    console.talk(console.style(text, "error" if counts["error"] else "title", sys.stderr))
