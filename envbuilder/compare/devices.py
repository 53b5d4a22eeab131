"""The devices of both sides: which comparisons are refused, and which show nothing about NPUs and GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from envbuilder.compare.sides import Side
from envbuilder.errors import UsageError
from envbuilder.language import tr
from envbuilder.matrix.model import CPU, NPU, LogSpec

GPU = "gpu"
_NAMED = {NPU: "an NPU", GPU: "a GPU", CPU: "a CPU"}
ORDER = "give the log of the NPU first and that of the GPU second"


def check_devices(first: Side, second: Side, spec: LogSpec) -> None:
    """Refuse a side of several devices, and sides in the wrong order."""
    for side in (first, second):
        found = {device: run.name for run in side.runs if (device := run.device(spec)) is not None}
        if len(found) > 1:
            texts = [tr("{run} of {device}", run=name, device=tr(_NAMED[kind])) for kind, name in found.items()]
            raise UsageError(
                tr("the runs of one side are of different devices: {runs}", runs=tr(" and ").join(texts)),
                hint=tr("give the runs of each device as a side"),
            )
    ours, theirs = first.device(spec), second.device(spec)
    if ours == GPU and theirs == NPU:
        names = {"gpu": _words(second), "npu": _words(first)}
        raise UsageError(
            tr("{npu} is of a GPU and {gpu} of an NPU", npu=first.name, gpu=second.name),
            hint=tr("swap them: envbuilder compare {gpu} {npu}", **names)
            if len(first.runs) == len(second.runs) == 1
            else tr(ORDER),
        )
    if ours == GPU and theirs is None:
        raise UsageError(tr("{log} is a log of a GPU", log=first.name), hint=tr(ORDER))
    if theirs == NPU and ours is None:
        raise UsageError(tr("{log} is a log of an NPU", log=second.name), hint=tr(ORDER))


def _words(side: Side) -> str:
    return " ".join(run.path or run.name for run in side.runs)


def check_claims(side: Side, claimed: str, spec: LogSpec) -> None:
    """Refuse runs that are given as those of one kind of device, and whose logs show another."""
    for run in side.runs:
        device = run.device(spec)
        if device not in {None, claimed}:
            raise UsageError(
                tr(
                    "{run} is of {device}, and was given as --{claimed}",
                    run=run.name,
                    device=tr(_NAMED[str(device)]),
                    claimed=claimed,
                )
                if not run.used_no_memory(spec)
                else tr(
                    "{run} used no device memory: it is of a CPU, and was given as --{claimed}",
                    run=run.name,
                    claimed=claimed,
                ),
                hint=tr("--first and --second take runs of any device"),
            )


def on_a_cpu(sides: Sequence[Side], spec: LogSpec) -> str | None:
    """Return which run was on a CPU, and why; None if no log shows it."""
    for run in (run for side in sides for run in side.runs):
        if run.used_no_memory(spec):
            return tr("the run of {npu} used no device memory, so it ran on a CPU", npu=run.name)
        if run.device(spec) == CPU:
            return tr("{run} is of a CPU", run=run.name)
    return None


def not_against_gpu(first: Side, second: Side, spec: LogSpec) -> str | None:
    """Return why a comparison does not show how far NPUs are from a GPU, or None if it does."""
    device = first.device(spec)
    if device is not None and device == second.device(spec):
        return tr("both sides are of {device}", device=tr(_NAMED[device]))
    return on_a_cpu((first, second), spec)


def of_two_devices(first: Side, second: Side, spec: LogSpec) -> str | None:
    """Return a note if the sides are of two kinds of device, although an earlier run of the same was expected."""
    ours, theirs = first.device(spec), second.device(spec)
    if ours is None or theirs is None or ours == theirs:
        return None
    return tr(
        "the first side is of {ours} and the second of {theirs}", ours=tr(_NAMED[ours]), theirs=tr(_NAMED[theirs])
    )
