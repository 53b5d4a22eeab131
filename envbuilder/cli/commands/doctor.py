"""envbuilder doctor"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from envbuilder.cli import options
from envbuilder.cli.arguments import Dimensions, MatrixFolder, Talk
from envbuilder.cli.columns import padded
from envbuilder.cli.console import Console
from envbuilder.cli.json import document, machine_check
from envbuilder.cli.text_argument import text_of
from envbuilder.errors import HostError, UsageError
from envbuilder.files import workspace, write_text
from envbuilder.language import ENGLISH, counted, speaking, tr

if TYPE_CHECKING:
    from envbuilder.check import Finding
    from envbuilder.environment import Catalog
    from envbuilder.machine.fit import Fit
    from envbuilder.machine.machine import Machine

_MARKS = {"ok": "ok", "info": "--", "warning": "warning", "error": "error"}
_SHOWN = 5


@options.command("doctor")
@options.identifier
@options.dimensions
@options.option("--report", type=options.OUTPUT_FILE, help="Write everything into one text file.")
@options.option(
    "--root", type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Examine the files of another machine, copied into this folder; no program is run.",
)  # fmt: skip
@options.option(
    "--npu-smi", metavar="FILE",
    help="Output of `npu-smi info` of another machine, with or without --root; - is standard input.",
)  # fmt: skip
@options.option(
    "--container", metavar="NAME", help="Examine a running container too: its devices, mounts and packages."
)
@options.option(
    "--fix", is_flag=True, callback=options.in_english,
    help="Print the commands that help, as a script; nothing is run.",
)  # fmt: skip
@options.as_json
@options.matrices
@options.talk
def command(
    identifier: str | None, dimensions: Dimensions, report: Path | None, root: Path | None, npu_smi: str | None,
    container: str | None, fix: bool, json_: bool, matrices: MatrixFolder, talk: Talk,
) -> None:  # fmt: skip
    """Examine this machine: its NPUs, driver, toolkit and engine; what is wrong, and which environments it can run.

    With an environment, or options that choose one, the exit code is 5 if this machine cannot run it.
    """
    from envbuilder.diagnose.collect import of_container, of_machine
    from envbuilder.diagnose.judge import judge_packages
    from envbuilder.doctor.checks import examine
    from envbuilder.doctor.container_checks import examine_container
    from envbuilder.doctor.fixes import script
    from envbuilder.doctor.report import fit_data, host_data, npu_data, text_report
    from envbuilder.machine.fit import fits

    if container is not None and (root is not None or npu_smi is not None):
        raise UsageError(tr("a container is on this machine: leave out --root and --npu-smi"))
    if fix and json_:
        raise UsageError(tr("--fix prints a script, and --json data: give one of them"))
    console, catalog = talk.console, matrices.catalog(everything=True)
    machine = _machine(root or dimensions.machine, npu_smi, console)

    @cache
    def packages() -> str:
        return of_container(container) if container is not None else of_machine(machine) if machine.is_here else ""

    def examined() -> tuple[list[Finding], list[Fit]]:
        inside = examine_container(catalog, container) if container is not None else []
        return [*examine(catalog, machine), *inside, *judge_packages(catalog, packages())], fits(catalog, machine)

    checks, found = examined()
    named = _named(catalog, identifier, dimensions, talk, machine)
    if report is not None:
        # files are in English
        with speaking(ENGLISH):
            write_text(report, text_report(catalog, machine, *examined()))
    if json_:
        console.data(
            document(
                host=host_data(machine),
                npu=npu_data(catalog, machine),
                checks=[machine_check(item) for item in checks],
                environments=[fit_data(item) for item in found],
            )
        )
    elif fix:
        console.out(script(checks))
    else:
        _show(console, checks)
        _show_fits(console, [named] if named else found)
        _show_next(console, checks, [named] if named else found)
    if named is not None and not named.fits:
        raise HostError(named.refusal, hint=_instead(found))


def _machine(root: Path | None, npu_smi: str | None, console: Console) -> Machine:
    """Return this machine, or the machine of the given files."""
    from envbuilder.machine.machine import look

    if npu_smi is None:
        return look((root or Path("/")).resolve())
    if root is not None:
        return look(root.resolve(), text_of(npu_smi))
    console.talk(tr("only the given table is read; --root takes other files of that machine"))
    with workspace() as empty:
        return look(empty, text_of(npu_smi))


def _named(
    catalog: Catalog, identifier: str | None, dimensions: Dimensions, talk: Talk, machine: Machine
) -> Fit | None:
    """Return how the environment of the arguments fits the machine; None if they choose none."""
    from envbuilder.machine.fit import judge

    if identifier is not None:
        return judge(dimensions.environment(catalog, identifier, talk), machine)
    return judge(dimensions.choose(catalog, talk, machine).environment, machine) if dimensions.given else None


def _show_next(console: Console, checks: Sequence[Finding], found: Sequence[Fit]) -> None:
    """Print what to do next: the remedy of the first error, or the commands for the best environment."""
    wrong = next((item for item in checks if item.severity == "error" and item.hint), None)
    best = next((item for item in found if item.fits), None)
    console.section(tr("next"))
    if wrong is not None:
        console.wrapped(tr("{message}: {hint}", message=wrong.message, hint=wrong.hint), 2, "")
    elif best is not None:
        if any(item.code == "engine" and item.hint for item in checks):
            need = tr("builds and containers need a docker engine: apt-get install docker.io, or DOCKER_HOST")
            console.wrapped(need, 2, "")
        for words in ("show {}", "build {} --dry-run", "build {}", "quickstart {}"):
            console.out(f"  envbuilder {words.format(best.environment)}")
    else:
        console.wrapped(tr("envbuilder doctor --report FILE writes a text for a maintainer"), 2, "")


def _instead(found: Sequence[Fit]) -> str | None:
    able = [item.environment for item in found if item.fits and not item.cpu_only]
    return tr("these can: {names}", names=", ".join(able[:3])) if able else None


def _show(console: Console, checks: Sequence[Finding]) -> None:
    group = None
    for item in checks:
        if item.group != group:
            console.heading(tr(item.group))
            group = item.group
        style = item.severity if item.severity in {"warning", "error"} else "faint"
        mark = console.style(padded(tr(_MARKS[item.severity]), 9), style)
        console.wrapped(item.message, 11, "", first=f"  {mark}")
        if item.hint:
            console.wrapped(item.hint, 11)


def _show_fits(console: Console, found: Sequence[Fit]) -> None:
    able = [item for item in found if item.fits]
    console.out()
    if able:
        console.heading(tr("environments for this machine"))
        for item in able[:_SHOWN]:
            console.out(f"  {item.environment}" + (f"  {item.proven}" if item.proven else ""))
            for note in item.notes:
                console.wrapped(note, 6)
        if able[_SHOWN:]:
            console.wrapped(tr("... and {number} more: --json has all of them", number=len(able) - _SHOWN), 2, "")
    reasons: dict[str, list[str]] = {}
    for item in found:
        for change in item.changes:
            reasons.setdefault(change, []).append(item.environment)
    if reasons:
        console.heading(tr("others"))
        for reason, names in reasons.items():
            fields = {"environments": counted(len(names), "environment"), "name": names[0], "reason": reason}
            console.wrapped(tr("{environments}, such as {name}: {reason}", **fields), 2, "")
