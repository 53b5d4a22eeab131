"""Checks that two logs can be compared, and finds the framework that wrote them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations, product

from envbuilder.compare.devices import ORDER, check_devices
from envbuilder.compare.runs import LoggedRun, pair_of
from envbuilder.compare.sides import Side
from envbuilder.environment import Catalog
from envbuilder.errors import NoMatchError, UsageError
from envbuilder.language import tr
from envbuilder.matrix.model import Framework, LogSpec

# metrics that differ between any two runs
_TIMES = ("throughput", "step_time")


def framework_of(catalog: Catalog, first: Side, second: Side, name: str | None) -> tuple[Framework, LogSpec]:
    """Return the framework whose metrics the logs have most of; of two with as many, the default one."""
    known = {item.name: (item, item.logs) for item in catalog.frameworks.values() if item.logs is not None}
    if name is not None and name not in known:
        raise NoMatchError(
            tr("the matrices do not describe logs of '{name}'", name=name),
            hint=tr("known: {names}", names=", ".join(known)),
        )
    if not known:
        raise NoMatchError(
            tr("no framework of these matrices describes its logs"), hint=tr("add a `logs:` section to one")
        )

    runs = first.mean, second.mean

    def rank(name: str) -> tuple[int, int, bool]:
        spec = known[name][1]
        both = [pair_of(role, spellings, *runs) for role, spellings in spec.metrics.items()]
        one = sum(run.key(spellings) is not None for run in runs for spellings in spec.metrics.values())
        return sum(pair is not None for pair in both), one, name == catalog.default_framework

    owner, spec = known[name or max(known, key=rank)]
    _check_metrics((*first.runs, *second.runs), owner, spec, known)
    return owner, spec


def _check_metrics(runs: Sequence[LoggedRun], owner: Framework, spec: LogSpec, known: Iterable[str]) -> None:
    names = [item for spellings in spec.metrics.values() for item in spellings]
    for run in runs:
        if not run.log.steps and not run.log.means:
            raise UsageError(
                tr("{run} has no training step", run=run.name),
                hint=tr("use console output, JSONL, CSV or event files of TensorBoard"),
            )
        if run.key(names) is None:
            raise UsageError(
                tr(
                    "{run} has no metric of {framework}; its metrics: {metrics}",
                    run=run.name,
                    framework=owner.title,
                    metrics=", ".join([*run.values][:5]) or tr("none"),
                ),
                hint=tr(
                    "known: {names}; --framework is one of {frameworks}",
                    names=", ".join(names),
                    frameworks=", ".join(known),
                ),
            )


def check_usable(first: Side, second: Side, spec: LogSpec, *, against_gpu: bool) -> None:
    for ours, theirs in product(first.runs, second.runs):
        _check_steps(ours, theirs, spec, against_gpu)
    for one, other in combinations((*first.runs, *second.runs), 2):
        _check_different(one, other, spec)
    if against_gpu:
        check_devices(first, second, spec)


def _check_steps(npu: LoggedRun, gpu: LoggedRun, spec: LogSpec, against_gpu: bool) -> None:
    if not npu.log.steps:
        raise UsageError(
            tr("{npu} is a baseline of means, and not a log", npu=npu.name), hint=tr("the log of the run comes first")
        )
    if not gpu.log.steps:
        if against_gpu:
            gates = ", ".join(f"--gate {name}" for name in spec.gates)
            hint = tr("a gate takes a baseline: {gates}", gates=gates) if gates else None
            raise UsageError(tr("{gpu} is a baseline of means, and has no steps", gpu=gpu.name), hint=hint)
        return
    ours, theirs = npu.steps(spec), gpu.steps(spec)
    if set(ours).isdisjoint(theirs):
        ranges = tr(" and ").join(tr("{first} to {last}", first=steps[0], last=steps[-1]) for steps in (ours, theirs))
        raise UsageError(
            tr("the logs have no step in common: {ranges}", ranges=ranges),
            hint=tr("compare runs that start at the same step"),
        )


def _check_different(npu: LoggedRun, gpu: LoggedRun, spec: LogSpec) -> None:
    """Refuse two logs of one run, which would pass every gate.

    Numbers are compared too, not only files: a log that was published as one of an NPU was a copy of a GPU's log with
    other text around it.
    """
    same_file = bool(npu.log.digest) and npu.log.digest == gpu.log.digest
    times = _times(spec)
    compared = {name: _are_same(npu, gpu, name) for name in npu.values.keys() & gpu.values.keys()}
    equal = {name: same for name, same in compared.items() if same is not None}
    same_run = not times.isdisjoint(equal) and all(equal.values())
    if same_file or same_run:
        raise UsageError(
            tr(
                "{npu} and {gpu} are the same log: every number is the same, including the times"
                if same_run
                else "{npu} and {gpu} are the same log",
                npu=npu.name,
                gpu=gpu.name,
            ),
            hint=tr(ORDER),
        )


def seem_one_run(first: Side, second: Side, spec: LogSpec) -> str | None:
    """Return a note if two logs have the same values except times; runs with the same samples differ in some."""
    if len(first.runs) + len(second.runs) > 2:
        return None
    (npu,), (gpu,) = first.runs, second.runs
    names = (npu.values.keys() & gpu.values.keys()) - _times(spec)
    found = [same for name in names if (same := _are_same(npu, gpu, name)) is not None]
    if not found or not all(found):
        return None
    return tr("every value is the same in both logs, so they may be of one run")


def _times(spec: LogSpec) -> set[str]:
    return {name for role in _TIMES for name in spec.metrics.get(role, ())}


def _are_same(npu: LoggedRun, gpu: LoggedRun, name: str) -> bool | None:
    """Return whether a metric is the same in all common steps; None if there are fewer than two.

    Event files hold single precision, hence the tolerance.
    """
    ours, theirs = npu.values[name], gpu.values[name]
    both = ours.keys() & theirs.keys()
    if len(both) < 2:
        return None
    return all(
        math.isclose(ours[step], theirs[step], rel_tol=1e-6) or repr(ours[step]) == repr(theirs[step]) for step in both
    )
