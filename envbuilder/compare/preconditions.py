"""Checks that two logs can be compared, and finds the framework that wrote them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TypeAlias

from envbuilder.compare.runs import LoggedRun, pair_of
from envbuilder.environment import Catalog
from envbuilder.errors import NoMatchError, UsageError
from envbuilder.matrix.model import NPU, Framework, LogSpec

GPU = "gpu"
Known: TypeAlias = tuple[Framework, LogSpec]
# metrics that differ between any two runs
_TIMES = ("throughput", "step_time")


def framework_of(catalog: Catalog, npu: LoggedRun, gpu: LoggedRun, name: str | None) -> Known:
    """Return the framework whose metrics the logs have most of; of two with as many, the default one."""
    known = {item.name: (item, item.logs) for item in catalog.frameworks.values() if item.logs is not None}
    if name is not None:
        if name not in known:
            raise NoMatchError(f"the matrices do not describe logs of '{name}'", hint=f"known: {', '.join(known)}")
        return _checked(npu, gpu, known[name], known)
    if not known:
        raise NoMatchError("no framework of these matrices describes its logs", hint="add a `logs:` section to one")

    def rank(name: str) -> tuple[int, int, bool]:
        spec = known[name][1]
        both = [pair_of(role, spellings, npu, gpu) for role, spellings in spec.metrics.items()]
        one = sum(run.key(spellings) is not None for run in (npu, gpu) for spellings in spec.metrics.values())
        return sum(pair is not None for pair in both), one, name == catalog.default_framework

    return _checked(npu, gpu, known[max(known, key=rank)], known)


def _checked(npu: LoggedRun, gpu: LoggedRun, found: Known, known: Iterable[str]) -> Known:
    owner, spec = found
    names = [item for spellings in spec.metrics.values() for item in spellings]
    for run in (npu, gpu):
        if not run.log.steps and not run.log.means:
            raise UsageError(
                f"{run.name} has no training step",
                hint="use console output, JSONL, CSV or event files of TensorBoard",
            )
        if run.key(names) is None:
            some = ", ".join([*run.values][:5]) or "none"
            raise UsageError(
                f"{run.name} has no metric of {owner.title}; its metrics: {some}",
                hint=f"known: {', '.join(names)}; --framework is one of {', '.join(known)}",
            )
    return found


def check_usable(npu: LoggedRun, gpu: LoggedRun, spec: LogSpec, *, against_gpu: bool) -> None:
    _check_steps(npu, gpu, spec, against_gpu)
    _check_different(npu, gpu, spec)
    if against_gpu and not _both_of_npus(npu, gpu, spec):
        _check_devices(npu, gpu, spec)


def not_against_gpu(npu: LoggedRun, gpu: LoggedRun, spec: LogSpec) -> str | None:
    """Return why a comparison of two runs does not show how far NPUs are from a GPU, or None if it does."""
    if _both_of_npus(npu, gpu, spec):
        return "both logs are of an NPU"
    memory = npu.values.get(npu.key(spec.metrics.get("memory", ())) or "", {})
    if memory and not any(memory.values()):
        return f"the run of {npu.name} used no device memory, so it ran without a device"
    return None


def _both_of_npus(npu: LoggedRun, gpu: LoggedRun, spec: LogSpec) -> bool:
    return npu.device(spec) == gpu.device(spec) == NPU


def _check_steps(npu: LoggedRun, gpu: LoggedRun, spec: LogSpec, against_gpu: bool) -> None:
    if not npu.log.steps:
        raise UsageError(f"{npu.name} is a baseline of means, and not a log", hint="the log of the run comes first")
    if not gpu.log.steps:
        if against_gpu:
            hint = (
                f"a gate takes a baseline: {', '.join(f'--gate {name}' for name in spec.gates)}" if spec.gates else None
            )
            raise UsageError(f"{gpu.name} is a baseline of means, and has no steps", hint=hint)
        return
    ours, theirs = npu.steps(spec), gpu.steps(spec)
    if not set(ours) & set(theirs):
        ranges = " and ".join(f"{steps[0]} to {steps[-1]}" for steps in (ours, theirs))
        raise UsageError(f"the logs have no step in common: {ranges}", hint="compare runs that start at the same step")


def _check_different(npu: LoggedRun, gpu: LoggedRun, spec: LogSpec) -> None:
    """Refuse two logs of one run, which would pass every gate.

    Numbers are compared too, not only files: a log that was published as one of an NPU was a copy of a GPU's log with
    other text around it.
    """
    same_file = bool(npu.log.digest) and npu.log.digest == gpu.log.digest
    times = {name for role in _TIMES for name in spec.metrics.get(role, ())}
    equal = {
        name: same for name in npu.values.keys() & gpu.values.keys() if (same := _are_same(npu, gpu, name)) is not None
    }
    same_run = not times.isdisjoint(equal) and all(equal.values())
    if same_file or same_run:
        raise UsageError(
            f"{npu.name} and {gpu.name} are the same log"
            + (": every number is the same, including the times" if same_run else ""),
            hint="give the log of the NPU first and that of the GPU second",
        )


def _are_same(npu: LoggedRun, gpu: LoggedRun, name: str) -> bool | None:
    """Return whether a metric is the same in all common steps; None if there are fewer than two.

    Event files hold single precision, hence the tolerance.
    """
    ours, theirs = npu.values.get(name, {}), gpu.values.get(name, {})
    both = ours.keys() & theirs.keys()
    if len(both) < 2:
        return None
    return all(
        math.isclose(ours[step], theirs[step], rel_tol=1e-6) or repr(ours[step]) == repr(theirs[step]) for step in both
    )


def _check_devices(npu: LoggedRun, gpu: LoggedRun, spec: LogSpec) -> None:
    ours, theirs = npu.device(spec), gpu.device(spec)
    if ours == GPU and theirs == NPU:
        raise UsageError(
            f"{npu.name} is of a {GPU.upper()} and {gpu.name} of an {NPU.upper()}",
            hint=f"swap them: envbuilder compare {gpu.name} {npu.name}",
        )
    if ours is not None and ours == theirs:
        raise UsageError(
            f"both logs are of a {GPU.upper()}", hint="an error against a GPU needs one log of an NPU and one of a GPU"
        )
    if ours == GPU or theirs == NPU:
        wrong, kind = (npu, "GPU") if ours == GPU else (gpu, "NPU")
        raise UsageError(
            f"{wrong.name} is a log of {'an' if kind == 'NPU' else 'a'} {kind}",
            hint="give the log of the NPU first and that of the GPU second",
        )
