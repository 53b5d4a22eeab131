"""Judges one run against another, by the limits that the framework's documents publish or by a gate of its project.

The documents define the error as the sum of |npu - gpu| over all steps, divided by their number, times 100 %: the
mean absolute error, in which 2 % is 0.02 in the unit of the metric itself. It is compared with the limit. The mean
relative error, in which each step is divided by the value of the GPU, is shown beside it and decides nothing: a policy
loss is close to zero and a reward may be zero or negative, where a relative error is meaningless.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from envbuilder.compare.preconditions import check_usable, framework_of, not_against_gpu
from envbuilder.compare.result import Comparison, Metric, Throughput
from envbuilder.compare.runs import LoggedRun, Pair, pair_of
from envbuilder.environment import Catalog
from envbuilder.errors import NoMatchError, UsageError
from envbuilder.matrix.model import NPU, Framework, Gate, Limit, LogSpec, Thresholds

PUBLISHED = "published"
_JUDGED, _SHOWN, _THROUGHPUT = ("loss", "reward"), ("policy_loss",), "throughput"
Pairs: TypeAlias = Mapping[str, Pair | None]


def compare(
    catalog: Catalog, npu: LoggedRun, gpu: LoggedRun, gate: str = PUBLISHED, framework: str | None = None
) -> Comparison:
    """Compare two runs, and judge their differences by the published limits or by a gate."""
    owner, spec = framework_of(catalog, npu, gpu, framework)
    chosen, limits = _gate(owner, spec, gate), owner.thresholds
    if limits is None:
        raise NoMatchError(f"{owner.title} publishes no limits for a comparison")
    check_usable(npu, gpu, spec, against_gpu=chosen is None)
    pairs = {name: pair_of(name, spellings, npu, gpu) for name, spellings in spec.metrics.items()}
    notes = [*_unread(npu), *_unread(gpu), *_repeated(npu), *_repeated(gpu), *_lengths(npu, gpu, spec)]
    doubt = f"the gate '{gate}' compares with an earlier run" if chosen else not_against_gpu(npu, gpu, spec)
    if chosen is None:
        notes += [f"{doubt}: the errors are not measured against a GPU"] if doubt else []
        judged = list(_published(limits, pairs))
        notes += [*_missing(npu, gpu, spec, pairs), *_partly(npu, gpu, spec, judged)]
    else:
        judged = list(_gated(chosen, pairs, npu, gpu, spec))
        notes += _window(chosen, pairs)
    if not judged:
        raise UsageError(
            f"{npu.name} and {gpu.name} share neither a loss nor a reward",
            hint="known names: " + ", ".join(item for name in _JUDGED for item in spec.metrics.get(name, ())),
        )
    notes += _zeros(judged)
    if same := _equal(judged):
        notes.append(same)
        doubt = doubt or same
    judged += [] if chosen else [Metric(pair, "mae", pair.mae, None) for name in _SHOWN if (pair := pairs.get(name))]
    throughput = _throughput(limits, pairs.get(_THROUGHPUT))
    notes += _few_steps(limits, throughput)
    source = chosen.source if chosen else limits.source
    return Comparison(
        npu=npu.name, gpu=gpu.name, framework=owner.name, gate=gate, source=source, metrics=tuple(judged),
        throughput=throughput, notes=tuple(notes), doubt=doubt, says_npu=npu.device(spec) == NPU,
        shows_nothing=None if chosen else _shows_nothing(judged, limits),
    )  # fmt: skip


def _shows_nothing(judged: list[Metric], limits: Thresholds) -> str | None:
    """Return why values within the limits are no result: too few of them, or values that never change."""
    held = [item for item in judged if item.limit is not None]
    steps = max(len(item.pair.steps) for item in held)
    if steps < limits.least_steps:
        return (
            f"the logs share {steps} step{'s' if steps > 1 else ''}, and fewer than {limits.least_steps} show nothing"
        )
    if all(len({*item.pair.npu, *item.pair.gpu}) == 1 for item in held):
        values = " and ".join(f"{item.name} is {item.pair.npu[0]:g}" for item in held)
        return f"{values} in every step of both logs: nothing was learned"
    return None


def _gate(owner: Framework, spec: LogSpec, name: str) -> Gate | None:
    if name == PUBLISHED:
        return None
    if name not in spec.gates:
        raise UsageError(f"{owner.title} has no gate '{name}'", hint=f"gates: {', '.join((PUBLISHED, *spec.gates))}")
    return spec.gates[name]


def _published(limits: Thresholds, pairs: Pairs) -> Iterator[Metric]:
    for name, percent in zip(_JUDGED, (limits.loss_percent, limits.reward_percent), strict=True):
        pair = pairs.get(name)
        if pair is not None:
            yield Metric(pair, "mae", pair.mae, float(percent) / 100)


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
            lacking = [run.name for run in (npu, gpu) if run.key(spellings) is None]
            where = f"missing from {' and '.join(lacking)}" if lacking else "in none of these steps of both logs"
            raise UsageError(
                f"the gate judges {name} in steps {gate.first_step} to {gate.last_step}, and it is {where}",
                hint=f"logs call it {' or '.join(spellings)}",
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
    first = pair.only(pair.steps[: limits.throughput_steps])
    return Throughput(first) if first else None


# --- notes for the reader -----------------------------------------------------------------------------


def _unread(run: LoggedRun) -> Iterator[str]:
    if run.log.unread:
        yield f"{run.log.unread} lines of {run.name} are not JSON and were skipped"


def _repeated(run: LoggedRun) -> Iterator[str]:
    if run.repeated:
        some = ", ".join(map(str, run.repeated[:5])) + (", ..." if len(run.repeated) > 5 else "")
        yield f"{run.name} has steps {some} more than once, with different values: the last ones count"


def _lengths(npu: LoggedRun, gpu: LoggedRun, spec: LogSpec) -> Iterator[str]:
    ours, theirs = npu.steps(spec), gpu.steps(spec)
    if not theirs:
        yield f"{gpu.name} is a baseline: every step is compared with its means"
    elif ours != theirs:
        both = sorted(set(ours) & set(theirs))
        spans = [f"{len(steps)} steps ({steps[0]} to {steps[-1]})" for steps in (ours, theirs)]
        yield f"{npu.name} has {spans[0]} and {gpu.name} {spans[1]}; the {len(both)} that both have are compared"


def _missing(npu: LoggedRun, gpu: LoggedRun, spec: LogSpec, pairs: Pairs) -> Iterator[str]:
    for name in (*_JUDGED, _THROUGHPUT):
        if pairs.get(name) is not None or name not in spec.metrics:
            continue
        owners = [run for run in (npu, gpu) if run.key(spec.metrics[name]) is not None]
        if len(owners) == 2:
            yield f"{name} is in no common step of the logs, or has different names in them: not compared"
        elif owners:
            yield f"{name} is only in {owners[0].name}: not compared"
        elif name == _THROUGHPUT:
            yield f"{name} is in neither log: not compared"


def _window(gate: Gate, pairs: Pairs) -> Iterator[str]:
    wanted = set(range(gate.first_step, gate.last_step + 1))
    short: dict[int, list[str]] = {}
    for name, limit in gate.limits.items():
        pair = pairs.get(name)
        count = len(wanted.intersection(pair.steps)) if pair else 0
        if not count and limit.optional:
            yield f"{name} is not in both logs: not compared"
        elif count < len(wanted) and limit.at == "mean":
            short.setdefault(count, []).append(name)
    for count, names in short.items():
        yield f"both logs have {count} of steps {gate.first_step} to {gate.last_step} of {', '.join(names)}"


def _partly(npu: LoggedRun, gpu: LoggedRun, spec: LogSpec, judged: list[Metric]) -> Iterator[str]:
    """Yield a note for each metric that the logs lack in some steps, as they usually have it in every step."""
    both = len({*npu.steps(spec)} & {*gpu.steps(spec)})
    for item in judged:
        if len(item.pair.steps) < both:
            yield f"{item.name} is in {len(item.pair.steps)} of the {both} steps that both logs have"


def _zeros(judged: list[Metric]) -> Iterator[str]:
    for item in judged:
        zeros, steps = sum(not value for value in item.pair.gpu), len(item.pair.gpu)
        if zeros:
            yield f"{item.name} of the second log is 0 in {zeros} of {steps} steps: these have no relative error"


def _equal(judged: list[Metric]) -> str | None:
    if all(len(item.pair.steps) > 1 and item.pair.mae == 0 for item in judged):
        return "every value is the same in both logs, so they may be of one run"
    return None


def _few_steps(limits: Thresholds, found: Throughput | None) -> Iterator[str]:
    if found and limits.throughput_steps and len(found.pair.steps) < limits.throughput_steps:
        yield f"the throughput is the mean of {len(found.pair.steps)} steps; the rule takes {limits.throughput_steps}"
