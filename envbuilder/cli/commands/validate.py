"""envbuilder validate"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envbuilder import paths
from envbuilder.cli import arguments, options
from envbuilder.cli.image_argument import subject_of
from envbuilder.environment.resolve import Environment
from envbuilder.errors import HostError, ValidationError
from envbuilder.files import write_text
from envbuilder.matrix import evidence

if TYPE_CHECKING:
    from envbuilder.cli.console import Console
    from envbuilder.docker.engine import Engine
    from envbuilder.matrix import Matrix
    from envbuilder.validate import Report, Subject, Training, Wish


@click.command("validate")
@click.argument("subject", metavar="[IMAGE|ID]", required=False, shell_complete=options.complete_identifier)
@options.dimensions
@options.option("--local", is_flag=True, help="Validate this host instead of an image.")
@options.option(
    "--level", type=click.Choice(["static", "import", "train"]), default="train", show_default=True,
    help="How far to go; each level includes those before it.",
)  # fmt: skip
@options.devices
@options.option(
    "--depth", type=click.Choice(["auto", "trainer", "engine"]), default="auto", show_default=True,
    help="Whether the row's own engine generates the samples.",
)  # fmt: skip
@options.registry
@options.option("--record", is_flag=True, help="Write what was proven into the row's evidence.")
@options.option("--report", type=click.Path(path_type=Path, dir_okay=False), help="Write a JSON report here.")
@options.option("--junit", type=click.Path(path_type=Path, dir_okay=False), help="Write JUnit XML here.")
@options.option("--html", type=click.Path(path_type=Path, dir_okay=False), help="Write a page here.")
@options.as_json
@options.matrices
@options.talking
def command(subject: str | None, local: bool, record: bool, json_: bool, **given: Any) -> None:
    """Proves an image: what is installed, what can be imported, and a GRPO run of the framework that has to learn.

    An image says by its labels which environment it is. An ID stands for the image that `build` makes of it.
    """
    from envbuilder.validate.gate import FORMS, failure, keep

    console, matrix = arguments.console_of(given), arguments.matrix_of(given, everything=True)
    with _opened(matrix, subject, local, given) as (environment, found, wish):
        report = _validated(console, matrix, environment, found, wish)
    place = keep(report)
    for option, suffix in (("report", "json"), ("junit", "xml"), ("html", "html")):
        if given[option] is not None:
            write_text(given[option], FORMS[suffix](report))
    if json_:
        console.data(report.document())
    else:
        show(console, report)
    if record:
        write_evidence(given["matrices"] or paths.matrices(), matrix, report)
    if not report.passed:
        raise failure(report, place)


def _validated(console: Console, matrix: Matrix, environment: Environment, subject: Subject, wish: Wish) -> Report:
    from envbuilder.cli.progress import shown
    from envbuilder.validate import validate

    console.talk(f"validating {subject.image or 'this host'} as {environment.id}")
    with shown(console) as progress:
        return validate(matrix, environment, subject, wish, progress)


def prove(console: Console, matrix: Matrix, image: str, given: dict[str, Any]) -> Report:
    """An image that is here, as far as this machine can."""
    with _opened(matrix, image, False, {**given, **arguments.NO_DIMENSIONS}) as (environment, found, wish):
        return _validated(console, matrix, environment, found, wish)


def write_evidence(folder: Path, matrix: Matrix, report: Report) -> None:
    found = report.evidence()
    if found is not None:
        level, details = found
        present = matrix.evidence.get(report.environment)
        evidence.record(folder, report.environment, present, level, report.machine, details)


@contextmanager
def _opened(
    matrix: Matrix, name: str | None, local: bool, given: dict[str, Any]
) -> Iterator[tuple[Environment, Subject, Wish]]:
    from envbuilder.files import workspace
    from envbuilder.validate import Subject
    from envbuilder.validate.target import OnHost, container_of

    if local:
        from envbuilder.install import installation_here

        installed = installation_here()
        environment = arguments.environment_of(matrix, name or (installed.environment if installed else None), given)
        if installed is not None and installed.environment != environment.id:
            raise HostError(f"{installed.prefix} holds {installed.environment}, and not {environment.id}")
        labels = installed.labels if installed else {}
        with workspace() as folder:
            yield environment, Subject(OnHost(folder), labels=labels), arguments.wish_of(given, environment)
        return
    from envbuilder.docker.engine import Engine

    engine = Engine()
    environment, image = _image(matrix, name, given, engine)
    made = engine.image(image)
    assert made is not None  # noqa: S101  _image asked for it
    if made.arch != engine.arch:
        raise HostError(f"{image} is for {made.arch}, and this engine runs {engine.arch}")
    wish = arguments.wish_of(given, environment)
    with container_of(engine, image, environment, wish.device, wish.npus) as target:
        yield environment, Subject(target, image, made.id, made.labels), wish


def _image(matrix: Matrix, name: str | None, given: dict[str, Any], engine: Engine) -> tuple[Environment, str]:
    found = subject_of(matrix, name, given, engine)
    if found.environment is None:
        raise ValidationError(
            f"{found.image} has no label envbuilder.environment, so nothing says what it should be",
            hint="only images that envbuilder has built can be validated",
        )
    return found.environment, found.image


def show(console: Console, report: Report) -> None:
    """What a report says, for people."""
    from envbuilder.validate import LEVELS

    rows = []
    for level in LEVELS:
        counts = report.count(level)
        if counts:
            rows.append((level, *(str(counts[status]) for status in ("passed", "failed", "not-checked"))))
    console.table(("level", "passed", "failed", "not checked"), rows)
    if report.training is not None:
        _show_training(console, report.training)
    reasons: dict[str, list[str]] = {}
    for check in report.checks:
        if check.status == "not-checked":
            reasons.setdefault(check.message, []).append(check.name)
    if reasons:
        console.out()
        console.out(console.style("not checked", "title"))
        for reason, names in reasons.items():
            console.wrapped(f"{reason}: {', '.join(names)}", 2, "")


def _show_training(console: Console, run: Training) -> None:
    console.out()
    told = f"{run.trainer}, depth {run.depth}, on {run.devices} {run.device}; rollout: {run.rollout}"
    console.wrapped(told, 0, "")
    if run.ours:
        console.wrapped(f"ours, not upstream's: {'; '.join(run.ours)}", 0, "")
    if run.curves.get("reward"):
        console.out()
        console.chart("reward", run.curves["reward"])
    if run.reward_first is not None and run.step_seconds is not None:
        rise = f"reward {run.reward_first:.3f} -> {run.reward_last:.3f} in {run.steps} steps"
        console.out(f"{rise}, {run.step_seconds:.2f} s each, {run.seconds:.0f} s in all")
