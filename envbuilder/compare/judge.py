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
from envbuilder.language import counted, tr
from envbuilder.matrix.model import NPU, Framework, Gate, Limit, LogSpec, Thresholds

PUBLISHED = "published"
_JUDGED, _SHOWN, _THROUGHPUT = ("loss", "reward"), "policy_loss", "throughput"
Pairs: TypeAlias = Mapping[str, Pair | None]


def compare(
    catalog: Catalog, npu: LoggedRun, gpu: LoggedRun, gate: str = PUBLISHED, framework: str | None = None
) -> Comparison:
    """Compare two runs, and judge their differences by the published limits or by a gate."""
    owner, spec = framework_of(catalog, npu, gpu, framework)
    chosen, limits = _gate(owner, spec, gate), owner.thresholds
    if limits is None:
        raise NoMatchError(tr("{framework} publishes no limits for a comparison", framework=owner.title))
    check_usable(npu, gpu, spec, against_gpu=chosen is None)
    pairs = {name: pair_of(name, spellings, npu, gpu) for name, spellings in spec.metrics.items()}
    notes = [*_unread(npu), *_unread(gpu), *_repeated(npu), *_repeated(gpu), *_lengths(npu, gpu, spec)]
    doubt = (
        tr("the gate '{gate}' compares with an earlier run", gate=gate) if chosen else not_against_gpu(npu, gpu, spec)
    )
    if chosen is None:
        if doubt:
            notes.append(tr("{doubt}: the errors are not measured against a GPU", doubt=doubt))
        judged = list(_published(limits, pairs))
        notes += [*_missing(npu, gpu, spec, pairs), *_partly(npu, gpu, spec, judged)]
    else:
        judged = list(_gated(chosen, pairs, npu, gpu, spec))
        notes += _window(chosen, pairs)
    if not judged:
        names = (item for name in _JUDGED for item in spec.metrics.get(name, ()))
        raise UsageError(
            tr("{npu} and {gpu} share neither a loss nor a reward", npu=npu.name, gpu=gpu.name),
            hint=tr("known names: {names}", names=", ".join(names)),
        )
    notes += _zeros(judged)
    if same := _equal(judged):
        notes.append(same)
        doubt = doubt or same
    if chosen is None and (shown := pairs.get(_SHOWN)):
        judged.append(Metric(shown, "mae", shown.mae, None))
    throughput = _throughput(limits, pairs.get(_THROUGHPUT))
    notes += _few_steps(limits, throughput)
    return Comparison(
        npu=npu.name, gpu=gpu.name, framework=owner.name, gate=gate, source=(chosen or limits).source,
        metrics=tuple(judged), throughput=throughput, notes=tuple(notes), doubt=doubt,
        says_npu=npu.device(spec) == NPU, shows_nothing=None if chosen else _shows_nothing(judged, limits),
    )  # fmt: skip


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


def _published(limits: Thresholds, pairs: Pairs) -> Iterator[Metric]:
    for name, percent in zip(_JUDGED, (limits.loss_percent, limits.reward_percent), strict=True):
        if pair := pairs.get(name):
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
    first = pair.only(pair.steps[: limits.throughput_steps])
    return Throughput(first) if first else None


# --- notes for the reader -----------------------------------------------------------------------------


def _unread(run: LoggedRun) -> Iterator[str]:
    if run.log.unread:
        yield tr("{number} lines of {run} are not JSON and were skipped", number=run.log.unread, run=run.name)


def _repeated(run: LoggedRun) -> Iterator[str]:
    if run.repeated:
        steps = ", ".join(map(str, run.repeated[:5])) + (", ..." if len(run.repeated) > 5 else "")
        yield tr(
            "{run} has steps {steps} more than once, with different values: the last ones count",
            run=run.name,
            steps=steps,
        )


def _lengths(npu: LoggedRun, gpu: LoggedRun, spec: LogSpec) -> Iterator[str]:
    ours, theirs = npu.steps(spec), gpu.steps(spec)
    if not theirs:
        yield tr("{gpu} is a baseline: every step is compared with its means", gpu=gpu.name)
    elif ours != theirs:
        both = sorted(set(ours) & set(theirs))
        spans = [
            tr("{number} steps ({first} to {last})", number=len(steps), first=steps[0], last=steps[-1])
            for steps in (ours, theirs)
        ]
        yield tr(
            "{npu} has {npu_steps} and {gpu} {gpu_steps}; the {number} that both have are compared",
            npu=npu.name,
            npu_steps=spans[0],
            gpu=gpu.name,
            gpu_steps=spans[1],
            number=len(both),
        )


def _missing(npu: LoggedRun, gpu: LoggedRun, spec: LogSpec, pairs: Pairs) -> Iterator[str]:
    for name in (*_JUDGED, _THROUGHPUT):
        if pairs.get(name) is not None or name not in spec.metrics:
            continue
        owners = [run for run in (npu, gpu) if run.key(spec.metrics[name]) is not None]
        if len(owners) == 2:
            yield tr("{name} is in no common step of the logs, or has different names in them: not compared", name=name)
        elif owners:
            yield tr("{name} is only in {run}: not compared", name=name, run=owners[0].name)
        elif name == _THROUGHPUT:
            yield tr("{name} is in neither log: not compared", name=name)


def _window(gate: Gate, pairs: Pairs) -> Iterator[str]:
    wanted = set(range(gate.first_step, gate.last_step + 1))
    short: dict[int, list[str]] = {}
    for name, limit in gate.limits.items():
        pair = pairs.get(name)
        count = len(wanted.intersection(pair.steps)) if pair else 0
        if not count and limit.optional:
            yield tr("{name} is not in both logs: not compared", name=name)
        elif count < len(wanted) and limit.at == "mean":
            short.setdefault(count, []).append(name)
    for count, names in short.items():
        yield tr(
            "both logs have {count} of steps {first} to {last} of {names}",
            count=count,
            first=gate.first_step,
            last=gate.last_step,
            names=", ".join(names),
        )


def _partly(npu: LoggedRun, gpu: LoggedRun, spec: LogSpec, judged: list[Metric]) -> Iterator[str]:
    """Yield a note for each metric that the logs lack in some steps, as they usually have it in every step."""
    both = len({*npu.steps(spec)} & {*gpu.steps(spec)})
    for item in judged:
        if len(item.pair.steps) < both:
            yield tr(
                "{name} is in {steps} of the {number} steps that both logs have",
                name=item.name,
                steps=len(item.pair.steps),
                number=both,
            )


def _zeros(judged: list[Metric]) -> Iterator[str]:
    for item in judged:
        zeros, steps = sum(not value for value in item.pair.gpu), len(item.pair.gpu)
        if zeros:
            yield tr(
                "{name} of the second log is 0 in {zeros} of {steps} steps: these have no relative error",
                name=item.name,
                zeros=zeros,
                steps=steps,
            )


def _equal(judged: list[Metric]) -> str | None:
    if all(len(item.pair.steps) > 1 and item.pair.mae == 0 for item in judged):
        return tr("every value is the same in both logs, so they may be of one run")
    return None


def _few_steps(limits: Thresholds, found: Throughput | None) -> Iterator[str]:
    if found and limits.throughput_steps and len(found.pair.steps) < limits.throughput_steps:
        yield tr(
            "the throughput is the mean of {steps} steps; the rule takes {wanted}",
            steps=len(found.pair.steps),
            wanted=limits.throughput_steps,
        )
