"""A run as its log describes it, and the metrics of two runs in the steps they share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, nan
from pathlib import Path
from statistics import fmean
from typing import TypeAlias

from envbuilder.errors import UsageError
from envbuilder.language import tr
from envbuilder.matrix.model import CPU, LogSpec
from envbuilder.trainlog import Log, read_path

# the metrics with published limits, and one that is compared without
JUDGED, THROUGHPUT = ("loss", "reward"), "throughput"


@dataclass(frozen=True)
class LoggedRun:
    """A training run as its log describes it.

    `values` holds the metrics by their name in the log and the number of the step. If a step occurs twice, as after a
    restart from a checkpoint, the later one counts; `repeated` are the steps with two different values.
    """

    name: str
    log: Log
    values: Mapping[str, Mapping[int, float]]
    repeated: tuple[int, ...] = ()
    path: str = ""

    def key(self, spellings: Iterable[str]) -> str | None:
        return next((item for item in spellings if item in self.values or item in self.log.means), None)

    def device(self, spec: LogSpec) -> str | None:
        """Return the kind of device of the run, or None if its log names none or several.

        A run without memory of a device was on a CPU, whatever its log names: the smoke run names the device that Ray
        counts.
        """
        if self.used_no_memory(spec):
            return CPU
        found = [kind for kind, words in spec.devices.items() if any(word in self.log.text for word in words)]
        return found[0] if len(found) == 1 else None

    def used_no_memory(self, spec: LogSpec) -> bool:
        memory = self.values.get(self.key(spec.metrics.get("memory", ())) or "", {})
        return bool(memory) and not any(memory.values())

    def steps(self, spec: LogSpec) -> list[int]:
        """Return the steps that have a metric of the comparison; steps that only validate have none."""
        names = {item for spellings in spec.metrics.values() for item in spellings}
        return sorted({step for name in names for step in self.values.get(name, ())})


@dataclass(frozen=True)
class Pair:
    """One metric in the steps in which both runs have it."""

    name: str
    key: str
    steps: tuple[int, ...]
    npu: tuple[float, ...]
    gpu: tuple[float, ...]

    @property
    def mae(self) -> float:
        """The mean over the steps of |npu - gpu|."""
        return mean_of([abs(npu - gpu) for npu, gpu in zip(self.npu, self.gpu, strict=True)])

    @property
    def relative(self) -> float | None:
        """The mean over the steps of |npu - gpu| / |gpu|, without the steps in which gpu is 0."""
        parts = [abs(npu - gpu) / abs(gpu) for npu, gpu in zip(self.npu, self.gpu, strict=True) if gpu]
        return mean_of(parts) if parts else None

    @property
    def means(self) -> tuple[float, float]:
        return mean_of(self.npu), mean_of(self.gpu)

    def only(self, steps: Iterable[int]) -> Pair | None:
        wanted = set(steps)
        rows = [row for row in zip(self.steps, self.npu, self.gpu, strict=True) if row[0] in wanted]
        return _pair(self.name, self.key, rows) if rows else None


Pairs: TypeAlias = Mapping[str, Pair | None]


def mean_of(values: Sequence[float]) -> float:
    """Return the mean; NaN for values that contain both infinities."""
    try:
        return fmean(values)
    except OverflowError:
        return inf
    except ValueError:
        return nan


def run_of(name: str, log: Log) -> LoggedRun:
    values: dict[str, dict[int, float]] = {}
    repeated = set()
    for step in log.steps:
        for key, value in step.metrics.items():
            series = values.setdefault(key, {})
            if step.number in series and repr(series[step.number]) != repr(value):
                repeated.add(step.number)
            series[step.number] = value
    return LoggedRun(name, log, values, tuple(sorted(repeated)))


def open_run(path: Path, name: str | None = None) -> LoggedRun:
    """Return the run of a log, which messages call by the name."""
    try:
        return replace(run_of(name or path.name, read_path(path)), path=str(path))
    except OSError as error:
        raise UsageError(tr("{file} cannot be read: {reason}", file=path, reason=error.strerror)) from error


def pair_of(name: str, spellings: Sequence[str], npu: LoggedRun, gpu: LoggedRun) -> Pair | None:
    """Return a metric of both runs, by the first name that both have.

    The names of a console and a tracker may differ before the last slash.
    """
    for ours in spellings:
        alike = (item for item in spellings if item.rpartition("/")[2] == ours.rpartition("/")[2])
        for theirs in (ours, *alike):
            rows = _rows(ours, theirs, npu, gpu)
            if rows:
                return _pair(name, ours, rows)
    return None


def _rows(ours: str, theirs: str, npu: LoggedRun, gpu: LoggedRun) -> list[tuple[int, float, float]]:
    """Return the common steps with both values; a baseline has the same value in every step."""
    mine, other = npu.values.get(ours, {}), gpu.values.get(theirs, {})
    if not other and theirs in gpu.log.means:
        other = dict.fromkeys(mine, gpu.log.means[theirs])
    return [(step, mine[step], other[step]) for step in sorted(mine.keys() & other.keys())]


def _pair(name: str, key: str, rows: Sequence[tuple[int, float, float]]) -> Pair:
    steps, npu, gpu = zip(*rows, strict=True)
    return Pair(name, key, steps, npu, gpu)
