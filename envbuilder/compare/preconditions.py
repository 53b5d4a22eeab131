"""Checks that two logs can be compared, and finds the framework that wrote them."""

from __future__ import annotations

import math
from collections.abc import Iterable

from envbuilder.compare.runs import LoggedRun, pair_of
from envbuilder.environment import Catalog
from envbuilder.errors import NoMatchError, UsageError
from envbuilder.language import tr
from envbuilder.matrix.model import NPU, Framework, LogSpec

_GPU = "gpu"
_ORDER = "give the log of the NPU first and that of the GPU second"
# metrics that differ between any two runs
_TIMES = ("throughput", "step_time")


def framework_of(catalog: Catalog, npu: LoggedRun, gpu: LoggedRun, name: str | None) -> tuple[Framework, LogSpec]:
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

    def rank(name: str) -> tuple[int, int, bool]:
        spec = known[name][1]
        both = [pair_of(role, spellings, npu, gpu) for role, spellings in spec.metrics.items()]
        one = sum(run.key(spellings) is not None for run in (npu, gpu) for spellings in spec.metrics.values())
        return sum(pair is not None for pair in both), one, name == catalog.default_framework

    owner, spec = known[name or max(known, key=rank)]
    _check_metrics(npu, gpu, owner, spec, known)
    return owner, spec


def _check_metrics(npu: LoggedRun, gpu: LoggedRun, owner: Framework, spec: LogSpec, known: Iterable[str]) -> None:
    names = [item for spellings in spec.metrics.values() for item in spellings]
    for run in (npu, gpu):
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


def check_usable(npu: LoggedRun, gpu: LoggedRun, spec: LogSpec, *, against_gpu: bool) -> None:
    _check_steps(npu, gpu, spec, against_gpu)
    _check_different(npu, gpu, spec)
    if against_gpu and not _both_of_npus(npu, gpu, spec):
        _check_devices(npu, gpu, spec)


def not_against_gpu(npu: LoggedRun, gpu: LoggedRun, spec: LogSpec) -> str | None:
    """Return why a comparison of two runs does not show how far NPUs are from a GPU, or None if it does."""
    if _both_of_npus(npu, gpu, spec):
        return tr("both logs are of an NPU")
    memory = npu.values.get(npu.key(spec.metrics.get("memory", ())) or "", {})
    if memory and not any(memory.values()):
        return tr("the run of {npu} used no device memory, so it ran without a device", npu=npu.name)
    return None


def _both_of_npus(npu: LoggedRun, gpu: LoggedRun, spec: LogSpec) -> bool:
    return npu.device(spec) == gpu.device(spec) == NPU


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
    times = {name for role in _TIMES for name in spec.metrics.get(role, ())}
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
            hint=tr(_ORDER),
        )


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


def _check_devices(npu: LoggedRun, gpu: LoggedRun, spec: LogSpec) -> None:
    ours, theirs = npu.device(spec), gpu.device(spec)
    if ours == _GPU and theirs == NPU:
        raise UsageError(
            tr("{npu} is of a GPU and {gpu} of an NPU", npu=npu.name, gpu=gpu.name),
            hint=tr("swap them: envbuilder compare {gpu} {npu}", gpu=gpu.name, npu=npu.name),
        )
    if ours is not None and ours == theirs:
        raise UsageError(
            tr("both logs are of a GPU"), hint=tr("an error against a GPU needs one log of an NPU and one of a GPU")
        )
    if ours == _GPU:
        raise UsageError(tr("{log} is a log of a GPU", log=npu.name), hint=tr(_ORDER))
    if theirs == NPU:
        raise UsageError(tr("{log} is a log of an NPU", log=gpu.name), hint=tr(_ORDER))
