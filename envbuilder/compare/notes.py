"""The notes of a comparison: what the logs lack, and what its reader should know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envbuilder.compare.result import Metric, Throughput
from envbuilder.compare.runs import JUDGED, THROUGHPUT, LoggedRun, Pairs
from envbuilder.compare.sides import Side
from envbuilder.language import tr
from envbuilder.matrix.model import Gate, LogSpec, Thresholds


def of_runs(first: Side, second: Side) -> Iterator[str]:
    for run in (*first.runs, *second.runs):
        yield from _unread(run)
        yield from _repeated(run)


def advice(judged: Sequence[Metric], limits: Thresholds, first: Side, second: Side) -> Iterator[str]:
    """Yield what one run a side cannot show, and how two devices get the same samples."""
    open_ = [item.name for item in judged if item.judgement and item.judgement.verdict == "undecided"]
    for name in open_ if len(first.runs) == len(second.runs) == 1 else ():
        measured = limits.noise.metrics[name] if limits.noise else None
        if measured and measured.least_percent and measured.most_percent:
            yield tr(
                "one run a side: correct runs with other samples were {least} to {most} % of {name} apart, "
                "which is more than the limit",
                least=measured.least_percent,
                most=measured.most_percent,
                name=name,
            )
    if open_:
        yield tr(
            "the same samples on both devices need no more runs: `envbuilder quickstart --reproducible`, "
            "or smoke runs of depth trainer, which draw on the CPU"
        )


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


def lengths(npu: LoggedRun, gpu: LoggedRun, spec: LogSpec) -> Iterator[str]:
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


def missing(npu: LoggedRun, gpu: LoggedRun, spec: LogSpec, pairs: Pairs) -> Iterator[str]:
    for name in (*JUDGED, THROUGHPUT):
        if pairs.get(name) is not None or name not in spec.metrics:
            continue
        owners = [run for run in (npu, gpu) if run.key(spec.metrics[name]) is not None]
        if len(owners) == 2:
            yield tr("{name} is in no common step of the logs, or has different names in them: not compared", name=name)
        elif owners:
            yield tr("{name} is only in {run}: not compared", name=name, run=owners[0].name)
        elif name == THROUGHPUT:
            yield tr("{name} is in neither log: not compared", name=name)


def window(gate: Gate, pairs: Pairs) -> Iterator[str]:
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


def partly(npu: LoggedRun, gpu: LoggedRun, spec: LogSpec, judged: Sequence[Metric]) -> Iterator[str]:
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


def zeros(judged: Sequence[Metric]) -> Iterator[str]:
    for item in judged:
        zeros, steps = sum(not value for value in item.pair.gpu), len(item.pair.gpu)
        if zeros:
            yield tr(
                "{name} of the second log is 0 in {zeros} of {steps} steps: these have no relative error",
                name=item.name,
                zeros=zeros,
                steps=steps,
            )


def few_steps(limits: Thresholds, found: Throughput | None) -> Iterator[str]:
    if found and limits.throughput_steps and len(found.pair.steps) < limits.throughput_steps:
        yield tr(
            "the throughput is the mean of {steps} steps; the rule takes {wanted}",
            steps=len(found.pair.steps),
            wanted=limits.throughput_steps,
        )
