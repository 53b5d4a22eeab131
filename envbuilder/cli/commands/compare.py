"""envbuilder compare"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from envbuilder.cli import options
from envbuilder.cli.arguments import MatrixFolder, Talk
from envbuilder.cli.console import Console
from envbuilder.cli.help import Command
from envbuilder.cli.json import document
from envbuilder.errors import InconclusiveError, UsageError, ValidationError
from envbuilder.files import write_bytes
from envbuilder.language import ENGLISH, counted, speaking, tr
from envbuilder.matrix import evidence
from envbuilder.matrix.model import NPU

if TYPE_CHECKING:
    from envbuilder.compare import Comparison, Metric, Throughput
    from envbuilder.compare.noise import Errors, Judgement
    from envbuilder.environment import Catalog, Environment

_STYLES = {"different": "error", "equal": "added", "undecided": "warning"}
_SIDES = ("--first", "--second", "--npu", "--gpu")


class _Comparing(Command):
    """A command whose sides take several logs each: `--npu a.log b.log --gpu c.log`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words: list[str] = []
        side: str | None = None
        for word in args:
            if word.startswith("-"):
                side = word if word in _SIDES else None
                words += [] if side else [word]
            else:
                words += [side, word] if side else [word]
        return super().parse_args(ctx, words)


@options.command("compare", cls=_Comparing)
@click.argument("logs", nargs=-1)
@options.option("--npu", "npu_logs", multiple=True, metavar="LOG...", help="Logs of runs on NPUs: the first side.")
@options.option("--gpu", "gpu_logs", multiple=True, metavar="LOG...", help="Logs of runs on GPUs: the second side.")
@options.option("--first", "first_logs", multiple=True, metavar="LOG...", help="Logs of the first side, of any device.")
@options.option(
    "--second", "second_logs", multiple=True, metavar="LOG...", help="Logs of the second side, of any device."
)
@options.option(
    "--gate", default="published", show_default=True, metavar="NAME",
    help="Limits to judge by: those of the documents, or a gate of the framework's project, such as nightly.",
)  # fmt: skip
@options.option(
    "--framework", metavar="NAME", help="Framework that wrote the logs; default: recognized by their metrics."
)
@options.option(
    "--environment", metavar="ID", shell_complete=options.complete_identifier, help="Environment of the NPU log."
)
@options.option(
    "--gpu-environment", metavar="ID", shell_complete=options.complete_identifier,
    help="Environment of the GPU log; with --environment, both must be of one row.",
)  # fmt: skip
@options.option("--anyway", is_flag=True, help="Compare runs of environments that are not of one row.")
@options.option("--record", is_flag=True, help="Record the result in the evidence of --environment.")
@options.option("--plot", type=options.OUTPUT_FILE, help="Draw both curves: a .svg, .html or .png file.")
@options.as_json
@options.matrices
@options.talk
def command(
    logs: tuple[str, ...], npu_logs: tuple[str, ...], gpu_logs: tuple[str, ...], first_logs: tuple[str, ...],
    second_logs: tuple[str, ...], gate: str, framework: str | None, environment: str | None,
    gpu_environment: str | None, anyway: bool, record: bool, plot: Path | None, json_: bool, matrices: MatrixFolder,
    talk: Talk,
) -> None:  # fmt: skip
    """Compare the accuracy and throughput of training runs, NPU first, with the published limits.

    Takes two logs, or several of each side: --npu a.log b.log --gpu 'gpu-*.log'. Reads console output, JSONL, CSV, and
    event files of TensorBoard or a folder of them. The error is the mean of |npu - gpu| over the steps that all logs
    have, as the documents define it: a limit of 2 % is a mean of 0.02. It is judged for the loss of SFT and the reward
    of RL, and for the policy loss of RL only if the documents of the framework limit it too. The mean relative error is
    shown beside it and decides nothing.

    Correct runs with other samples differ too. The judgement says what the difference is worth: different beyond
    noise, equal within the limit, or not decidable with these runs.

    The exit code is 6 if a limit is exceeded, 8 if the logs show nothing (a run on a CPU, fewer than 10 common steps,
    or a value that never changes), and 2 if they cannot be compared.
    """
    from envbuilder.compare import compare_sides, open_sides
    from envbuilder.compare.plot import drawer

    console, catalog = talk.console, matrices.catalog()
    known = _environment(catalog, environment, record)
    reference = catalog.pick(gpu_environment) if gpu_environment else None
    if known and reference and not anyway:
        _refuse_others(known, reference)
    draw = drawer(plot) if plot else None
    owner = known.coordinates.framework if known else framework
    sides = open_sides(*_sides(logs, (npu_logs, first_logs), (gpu_logs, second_logs)))
    claims = tuple(name if logs else None for name, logs in (("npu", npu_logs), ("gpu", gpu_logs)))
    found = compare_sides(catalog, *sides, gate, owner, claims)
    if record and found.doubt:
        raise UsageError(
            tr("{doubt}: the comparison is not evidence of how far NPUs are from a GPU", doubt=found.doubt)
        )
    if plot and draw:
        # files are in English
        with speaking(ENGLISH):
            write_bytes(plot, draw(compare_sides(catalog, *sides, gate, owner, claims)))
    if json_:
        console.data(document(**found.document()))
    else:
        _show(console, found)
    if not found.passed:
        raise ValidationError(tr("; ").join(found.broken), hint=tr("limits: {source}", source=found.source))
    if found.shows_nothing:
        raise InconclusiveError(found.shows_nothing, hint=found.remedy)
    if record and known:
        _record(matrices.folder, known, found)
        console.talk(tr("recorded as evidence of {environment}", environment=known.id))


def _sides(
    logs: tuple[str, ...], first: tuple[tuple[str, ...], ...], second: tuple[tuple[str, ...], ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the logs of both sides, which are two logs, or those of an option for each side."""
    named = [[item for item in side if item] for side in (first, second)]
    if len(logs) == 2 and not any(named):
        return logs[:1], logs[1:]
    if logs or any(len(side) != 1 for side in named):
        raise UsageError(
            tr("two logs are compared, or the logs of two sides"),
            hint="envbuilder compare --npu a.log b.log --gpu c.log d.log",
        )
    return named[0][0], named[1][0]


def _environment(catalog: Catalog, name: str | None, record: bool) -> Environment | None:
    """Return the environment of the NPU log; only a run on NPUs is evidence."""
    if name is None:
        if record:
            raise UsageError(tr("--record needs an environment"), hint="--environment ID")
        return None
    environment = catalog.pick(name)
    if record and not environment.hardware.has_npus:
        raise UsageError(
            tr("{environment} has no NPU, so its comparison with a GPU is not evidence", environment=environment.id)
        )
    return environment


def _refuse_others(environment: Environment, reference: Environment) -> None:
    """Refuse two environments that are not of one row: their curves differ by their versions too."""
    from envbuilder.environment.twins import are_twins, differences

    if are_twins(environment, reference):
        return
    named = {"one": environment.id, "other": reference.id}
    pins = (
        f"{item.name} {item.here} / {item.there}" for item in differences(environment, reference) if item.is_of_both
    )
    raise UsageError(
        tr("{one} and {other} are not of one row: {pins}", **named, pins=", ".join(pins)),
        hint=tr("`envbuilder show {one}` names its twin; --anyway compares them", one=environment.id),
    )


def _record(folder: Path, environment: Environment, found: Comparison) -> None:
    by = "the log of the run" if found.first.device == NPU else "the user who recorded it"
    machine = f"{environment.hardware.title}, by {by}"
    # another recipe, or a longer run, does not replace this one
    evidence.record(folder, environment.coordinates.folder, "compared", machine, found.evidence(), renews=False)


def _show(console: Console, found: Comparison) -> None:
    header: tuple[str, ...]
    for side, name in ((found.first, tr("first")), (found.second, tr("second"))):
        device = side.device.upper() if side.device else tr("device not named")
        console.wrapped(tr("{side}: {device}, {logs}", side=name, device=device, logs=", ".join(side.logs)), 0, "")
    console.out()
    if found.metrics[0].by == "mae":
        header = (tr("metric"), tr("verdict"), tr("mae"), tr("limit"), tr("relative"), tr("steps"))
        console.table(header, [*map(_error, found.metrics)])
    else:
        header = (tr("metric"), tr("verdict"), tr("change"), tr("limit"), tr("first"), tr("second"), tr("steps"))
        console.table(header, [*map(_change, found.metrics)])
    console.out()
    if found.throughput is not None:
        _show_throughput(console, found.throughput)
    style = {"passed": "added", "inconclusive": "warning"}.get(found.verdict, "error")
    verdict = console.style(tr(found.verdict), style)
    fields = {"verdict": verdict, "framework": found.framework, "gate": found.gate}
    console.out(tr("verdict: {verdict}, as runs of {framework}, gate {gate}", **fields))
    if found.judgement is not None:
        _show_judgement(console, found, found.judgement)
    for note in found.notes:
        console.wrapped(tr("note: {note}", note=note), 0)


def _show_throughput(console: Console, found: Throughput) -> None:
    npu, gpu = found.pair.means
    ratio = "-" if found.ratio is None else f"{found.ratio:.3f}"
    rates = {"npu": f"{npu:.4g}", "gpu": f"{gpu:.4g}", "when": found.when}
    console.out(tr("throughput ratio {ratio}: {npu} to {gpu} in {when}", ratio=ratio, **rates))
    if found.warm is not None and found.warm.ratio is not None:
        console.out(tr("without these steps, which warm up: {ratio}", ratio=f"{found.warm.ratio:.3f}"))


def _show_judgement(console: Console, found: Comparison, judgement: Judgement) -> None:
    from envbuilder.compare.noise import text_of

    console.wrapped(tr("judgement: {judgement}", judgement=text_of(judgement)), 0, _STYLES[judgement.verdict])
    for item in found.metrics:
        if item.judgement is None:
            continue
        console.wrapped(f"{item.name}: {item.judgement.reason}", 2, "")
        first, second = item.judgement.within
        groups = (
            (tr("between the sides"), item.judgement.between),
            (tr("within the first"), first),
            (tr("within the second"), second),
        )
        for where, errors in groups:
            if errors is not None and len(found.first.logs) + len(found.second.logs) > 2:
                console.wrapped(_pairs(where, errors), 2, "")


def _pairs(where: str, errors: Errors) -> str:
    return tr(
        "{where}: {pairs}, {least} to {most} %, {over} over the limit",
        where=where,
        pairs=counted(errors.pairs, "pair"),
        least=f"{errors.least * 100:.2f}",
        most=f"{errors.most * 100:.2f}",
        over=errors.over_limit,
    )


def _error(item: Metric) -> tuple[str, ...]:
    steps = str(len(item.pair.steps))
    return item.name, tr(item.mark), item.compared_text, item.limit_text, item.relative_text, steps


def _change(item: Metric) -> tuple[str, ...]:
    npu, gpu = (f"{mean:.4g}" for mean in item.pair.means)
    return item.name, tr(item.mark), item.compared_text, item.limit_text, npu, gpu, str(len(item.pair.steps))
