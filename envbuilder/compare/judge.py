"""Judges one run against another, by the limits that the framework's documents publish or by a gate of its project.

The documents define the error as the sum of |npu - gpu| over all steps, divided by their number, times 100 %: the
mean absolute error, in which 2 % is 0.02 in the unit of the metric itself. It is compared with the limit. The mean
relative error, in which each step is divided by the value of the GPU, is shown beside it and decides nothing: a policy
loss is close to zero and a reward may be zero or negative, where a relative error is meaningless.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from envbuilder.compare.devices import check_claims, not_against_gpu, of_two_devices, on_a_cpu
from envbuilder.compare.noise import Curve, Judgement, judge_metric, worst
from envbuilder.compare.notes import advice, few_steps, lengths, missing, of_runs, partly, window, zeros
from envbuilder.compare.preconditions import check_usable, framework_of, seem_one_run
from envbuilder.compare.result import Comparison, Metric, ShownSide, Throughput
from envbuilder.compare.runs import JUDGED, THROUGHPUT, LoggedRun, Pair, Pairs, pair_of
from envbuilder.compare.sides import Side
from envbuilder.environment import Catalog
from envbuilder.errors import NoMatchError, UsageError
from envbuilder.language import counted, tr
from envbuilder.matrix.model import Framework, Gate, Limit, LogSpec, Noise, Thresholds

PUBLISHED = "published"
_SHOWN = "policy_loss"


def compare(
    catalog: Catalog, npu: LoggedRun, gpu: LoggedRun, gate: str = PUBLISHED, framework: str | None = None
) -> Comparison:
    """Compare two runs, and judge their differences by the published limits or by a gate."""
    return compare_sides(catalog, Side((npu,)), Side((gpu,)), gate, framework)


def compare_sides(
    catalog: Catalog, first: Side, second: Side, gate: str = PUBLISHED, framework: str | None = None,
    claims: Sequence[str | None] = (None, None),
) -> Comparison:  # fmt: skip
    """Compare the runs of two sides: their means by the limits, and their difference by the noise of runs.

    `claims` are the kinds of device that the user says the sides are of.
    """
    owner, spec = framework_of(catalog, first, second, framework)
    for side, claim in zip((first, second), claims, strict=True):
        if claim:
            check_claims(side, claim, spec)
    chosen, limits = _gate(owner, spec, gate), owner.thresholds
    if limits is None:
        raise NoMatchError(tr("{framework} publishes no limits for a comparison", framework=owner.title))
    check_usable(first, second, spec, against_gpu=chosen is None)
    runs = _Sides(first, second, spec)
    pairs = {name: pair_of(name, spellings, *runs.means) for name, spellings in spec.metrics.items()}
    found = _by_gate(runs, pairs, gate, chosen) if chosen else _by_limits(runs, pairs, limits)
    if not found.metrics:
        names = (item for name in JUDGED for item in spec.metrics.get(name, ()))
        raise UsageError(
            tr("{npu} and {gpu} share neither a loss nor a reward", npu=first.name, gpu=second.name),
            hint=tr("known names: {names}", names=", ".join(names)),
        )
    throughput = _throughput(limits, pairs.get(THROUGHPUT))
    same = seem_one_run(first, second, spec)
    return Comparison(
        npu=_paths(first), gpu=_paths(second), framework=owner.name, gate=gate, source=(chosen or limits).source,
        first=_shown(first, spec), second=_shown(second, spec),
        metrics=found.metrics, throughput=throughput,
        notes=(*found.notes, *filter(None, [same]), *few_steps(limits, throughput)),
        doubt=found.doubt or same, judgement=worst([item.judgement for item in found.metrics if item.judgement]),
        shows_nothing=found.shows_nothing,
    )  # fmt: skip


class _Sides(NamedTuple):
    first: Side
    second: Side
    spec: LogSpec

    @property
    def means(self) -> tuple[LoggedRun, LoggedRun]:
        return self.first.mean, self.second.mean


class _Judged(NamedTuple):
    """What the limits, or a gate, say."""

    metrics: tuple[Metric, ...]
    notes: tuple[str, ...]
    doubt: str | None
    shows_nothing: str | None = None


def _by_limits(runs: _Sides, pairs: Pairs, limits: Thresholds) -> _Judged:
    doubt = not_against_gpu(*runs)
    metrics = list(_published(limits, pairs, runs))
    notes = [*of_runs(runs.first, runs.second), *lengths(*runs.means, runs.spec)]
    if doubt:
        notes.append(tr("{doubt}: the errors are not those of an NPU against a GPU", doubt=doubt))
    notes += [*missing(*runs.means, runs.spec, pairs), *partly(*runs.means, runs.spec, metrics)]
    notes += zeros(metrics)
    nothing = _shows_nothing(metrics, limits) if metrics else None
    if nothing:
        metrics = [replace(item, judgement=None) for item in metrics]
    notes += advice(metrics, limits, runs.first, runs.second)
    if metrics and (shown := pairs.get(_SHOWN)):
        metrics.append(Metric(shown, "mae", shown.mae, None))
    return _Judged(tuple(metrics), tuple(notes), doubt, nothing or on_a_cpu(runs[:2], runs.spec))


def _by_gate(runs: _Sides, pairs: Pairs, name: str, gate: Gate) -> _Judged:
    _check_gate(name, runs)
    doubt = tr("the gate '{gate}' compares with an earlier run", gate=name)
    notes = [*of_runs(runs.first, runs.second), *lengths(*runs.means, runs.spec)]
    if devices := of_two_devices(*runs):
        notes.append(tr("{devices}: {doubt}", devices=devices, doubt=doubt))
    metrics = tuple(_gated(gate, pairs, *runs.means, runs.spec))
    return _Judged(metrics, (*notes, *window(gate, pairs), *zeros(metrics)), doubt)


def _paths(side: Side) -> str:
    return ", ".join(run.path or run.name for run in side.runs)


def _shown(side: Side, spec: LogSpec) -> ShownSide:
    return ShownSide(side.name, side.device(spec), tuple(run.name for run in side.runs))


def _check_gate(gate: str, runs: _Sides) -> None:
    if len(runs.first.runs) + len(runs.second.runs) > 2:
        raise UsageError(
            tr("the gate '{gate}' compares one run with one earlier run", gate=gate),
            hint=tr("give two logs, or leave out --gate"),
        )
    if cpu := on_a_cpu(runs[:2], runs.spec):
        raise UsageError(
            tr("{reason}: the gate '{gate}' is for runs on devices", reason=cpu, gate=gate),
            hint=tr("give the log of a run that used its device"),
        )


def _shows_nothing(judged: list[Metric], limits: Thresholds) -> str | None:
    """Return why values within the limits are no result: too few of them, or values that never change."""
    held = [item for item in judged if item.limit is not None]
    steps = max(len(item.pair.steps) for item in held)
    if steps < limits.least_steps:
        shared = counted(steps, "step")
        return tr("the logs share {steps}, and fewer than {least} show nothing", steps=shared, least=limits.least_steps)
    if all(len({*item.pair.npu, *item.pair.gpu}) == 1 for item in held):
        values = [tr("{name} is {value}", name=item.name, value=f"{item.pair.npu[0]:g}") for item in held]
        return tr("{values} in every step of both logs: nothing was learned", values=tr(" and ").join(values))
    return None


def _gate(owner: Framework, spec: LogSpec, name: str) -> Gate | None:
    if name == PUBLISHED:
        return None
    if name not in spec.gates:
        raise UsageError(
            tr("{framework} has no gate '{name}'", framework=owner.title, name=name),
            hint=tr("gates: {gates}", gates=", ".join((PUBLISHED, *spec.gates))),
        )
    return spec.gates[name]


def _published(limits: Thresholds, pairs: Pairs, runs: _Sides) -> Iterator[Metric]:
    for name, percent in zip(JUDGED, (limits.loss_percent, limits.reward_percent), strict=True):
        if pair := pairs.get(name):
            limit = float(percent) / 100
            first, second = (_curves(side, pair, runs.spec, limits.noise) for side in (runs.first, runs.second))
            yield Metric(
                pair, "mae", pair.mae, limit,
                curves=tuple(tuple(curve.values for curve in side) for side in (first, second)),
                judgement=_judgement(name, (first, second), limit, limits.noise),
            )  # fmt: skip


def _judgement(
    name: str, curves: tuple[Sequence[Curve], Sequence[Curve]], limit: float, noise: Noise | None
) -> Judgement | None:
    measured = noise.metrics.get(name) if noise else None
    return judge_metric(*curves, limit, noise, measured) if noise and measured else None


def _curves(side: Side, pair: Pair, spec: LogSpec, noise: Noise | None) -> list[Curve]:
    """Return the metric of each run of a side, and what shows the samples of the run."""
    own = noise.metrics.get(pair.name) if noise else None
    alike = [item for item in spec.metrics[pair.name] if item.rpartition("/")[2] == pair.key.rpartition("/")[2]]
    found = []
    for run in side.runs:
        series = run.values[next(name for name in (pair.key, *alike) if name in run.values)]
        at_start = {name: run.values.get(name, {}).get(pair.steps[0]) for name in (own.same_at_start if own else ())}
        start = {name: value for name, value in at_start.items() if value is not None}
        greedy = own is not None and any(word in run.log.text for word in own.nothing_drawn)
        found.append(Curve(tuple(series[step] for step in pair.steps), start, greedy))
    return found


def _gated(gate: Gate, pairs: Pairs, npu: LoggedRun, gpu: LoggedRun, spec: LogSpec) -> Iterator[Metric]:
    """Yield the metrics that a gate judges; a missing one is an error, so that no run passes unjudged."""
    for name, limit in gate.limits.items():
        pair = pairs.get(name)
        if pair is not None:
            window = range(gate.first_step, gate.last_step + 1)
            pair = pair.only(window if limit.at == "mean" else pair.steps[-1:])
        if pair is not None:
            yield _limited(pair, limit)
        elif not limit.optional:
            spellings = spec.metrics.get(name, (name,))
            lacking = tr(" and ").join(run.name for run in (npu, gpu) if run.key(spellings) is None)
            raise UsageError(
                tr(
                    "the gate judges {name} in steps {first} to {last}, and it is missing from {runs}"
                    if lacking
                    else "the gate judges {name} in steps {first} to {last}, "
                    "and it is in none of these steps of both logs",
                    name=name,
                    first=gate.first_step,
                    last=gate.last_step,
                    runs=lacking,
                ),
                hint=tr("logs call it {names}", names=tr(" or ").join(spellings)),
            )


def _limited(pair: Pair, limit: Limit) -> Metric:
    ours, theirs = pair.means
    value = float(limit.limit)
    if limit.unit == "absolute":
        return Metric(pair, "difference", ours - theirs, value, limit.side)
    change = (ours - theirs) / abs(theirs) if theirs else (0.0 if ours == theirs else float("inf"))
    return Metric(pair, "change", change, value / 100, limit.side)


def _throughput(limits: Thresholds, pair: Pair | None) -> Throughput | None:
    if pair is None or limits.throughput_steps is None:
        return None
    number = limits.throughput_steps
    first, later = (pair.only(steps) for steps in (pair.steps[:number], pair.steps[number:]))
    return Throughput(first, Throughput(later) if later else None) if first else None
