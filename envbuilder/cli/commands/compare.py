"""envbuilder compare"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from envbuilder.cli import options
from envbuilder.cli.arguments import MatrixFolder, Talk
from envbuilder.cli.console import Console
from envbuilder.cli.json import document
from envbuilder.errors import InconclusiveError, UsageError, ValidationError
from envbuilder.files import write_bytes
from envbuilder.language import ENGLISH, speaking, tr
from envbuilder.matrix import evidence

if TYPE_CHECKING:
    from envbuilder.compare import Comparison, Metric
    from envbuilder.environment import Catalog, Environment

_LOG = click.Path(path_type=Path, exists=True)


@options.command("compare")
@click.argument("npu_log", type=_LOG)
@click.argument("gpu_log", type=_LOG)
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
@options.option("--record", is_flag=True, help="Record the result in the evidence of --environment.")
@options.option("--plot", type=options.OUTPUT_FILE, help="Draw both curves: a .svg, .html or .png file.")
@options.as_json
@options.matrices
@options.talk
def command(
    npu_log: Path, gpu_log: Path, gate: str, framework: str | None, environment: str | None, record: bool,
    plot: Path | None, json_: bool, matrices: MatrixFolder, talk: Talk,
) -> None:  # fmt: skip
    """Compare the accuracy and throughput of two training runs, NPU first, with the published limits.

    Reads console output, JSONL, CSV, and event files of TensorBoard or a folder of them. The error is the mean of
    |npu - gpu| over the steps that both logs have, as the documents define it: a limit of 2 % is a mean of 0.02. It is
    judged for the loss of SFT and the reward of RL, and for the policy loss of RL only if the documents of the
    framework limit it too. The mean relative error is shown beside it and decides nothing.

    The exit code is 6 if a limit is exceeded, 8 if the logs show nothing (fewer than 10 common steps, or a value that
    never changes), and 2 if they cannot be compared.
    """
    from envbuilder.compare import compare, open_run
    from envbuilder.compare.plot import drawer

    console, catalog = talk.console, matrices.catalog()
    known = _environment(catalog, environment, record)
    draw = drawer(plot) if plot else None
    owner = known.coordinates.framework if known else framework
    npu, gpu = open_run(npu_log), open_run(gpu_log)
    found = compare(catalog, npu, gpu, gate, owner)
    if record and found.doubt:
        raise UsageError(
            tr("{doubt}: the comparison is not evidence of how far NPUs are from a GPU", doubt=found.doubt)
        )
    if plot and draw:
        # files are in English
        with speaking(ENGLISH):
            write_bytes(plot, draw(compare(catalog, npu, gpu, gate, owner)))
    if json_:
        console.data(document(**found.document()))
    else:
        _show(console, found)
    if not found.passed:
        raise ValidationError(tr("; ").join(found.broken), hint=tr("limits: {source}", source=found.source))
    if found.shows_nothing:
        raise InconclusiveError(found.shows_nothing, hint=tr("compare longer runs"))
    if record and known:
        _record(matrices.folder, known, found)
        console.talk(tr("recorded as evidence of {environment}", environment=known.id))


def _environment(catalog: Catalog, name: str | None, record: bool) -> Environment | None:
    """Return the environment of the NPU log; only a run on NPUs is evidence."""
    if name is None:
        if record:
            raise UsageError(tr("--record needs an environment"), hint="--environment ID")
        return None
    environment = catalog.pick(name)
    if record and environment.hardware.cpu_only:
        raise UsageError(
            tr("{environment} has no NPU, so its comparison with a GPU is not evidence", environment=environment.id)
        )
    return environment


def _record(folder: Path, environment: Environment, found: Comparison) -> None:
    by = "the log of the run" if found.says_npu else "the user who recorded it"
    machine = f"{environment.hardware.title}, by {by}"
    # another recipe, or a longer run, does not replace this one
    evidence.record(folder, environment.coordinates.folder, "compared", machine, found.evidence(), renews=False)


def _show(console: Console, found: Comparison) -> None:
    header: tuple[str, ...]
    if found.metrics[0].by == "mae":
        header = (tr("metric"), tr("verdict"), tr("mae"), tr("limit"), tr("relative"), tr("steps"))
        console.table(header, [*map(_error, found.metrics)])
    else:
        header = (tr("metric"), tr("verdict"), tr("change"), tr("limit"), tr("npu"), tr("reference"), tr("steps"))
        console.table(header, [*map(_change, found.metrics)])
    console.out()
    if found.throughput is not None:
        npu, gpu = found.throughput.pair.means
        ratio = "-" if found.throughput.ratio is None else f"{found.throughput.ratio:.3f}"
        rates = {"npu": f"{npu:.4g}", "gpu": f"{gpu:.4g}", "when": found.throughput.when}
        console.out(tr("throughput ratio {ratio}: {npu} to {gpu} in {when}", ratio=ratio, **rates))
    style = {"passed": "added", "inconclusive": "warning"}.get(found.verdict, "error")
    verdict = console.style(tr(found.verdict), style)
    fields = {"verdict": verdict, "framework": found.framework, "gate": found.gate}
    console.out(tr("verdict: {verdict}, as runs of {framework}, gate {gate}", **fields))
    for note in found.notes:
        console.wrapped(tr("note: {note}", note=note), 0)


def _error(item: Metric) -> tuple[str, ...]:
    steps = str(len(item.pair.steps))
    return item.name, tr(item.mark), item.compared_text, item.limit_text, item.relative_text, steps


def _change(item: Metric) -> tuple[str, ...]:
    npu, gpu = (f"{mean:.4g}" for mean in item.pair.means)
    return item.name, tr(item.mark), item.compared_text, item.limit_text, npu, gpu, str(len(item.pair.steps))
