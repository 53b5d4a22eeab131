"""The result of a comparison, as text, as JSON and as evidence."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from envbuilder.compare.noise import Judgement, text_of
from envbuilder.compare.runs import Pair
from envbuilder.language import tr
from envbuilder.matrix.model import CPU

# the values that are compared with a limit; a change is a part of the value of the other run
_TITLES = {"mae": "mean absolute error", "difference": "difference", "change": "change"}
# a part of the limit: event files hold single precision, and 0.52 - 0.5 is not 0.02
_TOLERANCE = 1e-5
# a larger relative error is shown as "more than this", as the number is meaningless
_MEANINGLESS = 10


@dataclass(frozen=True)
class Metric:
    """One metric, its errors, and the value that is compared with the limit. A limit of 2 % is stored as 0.02."""

    pair: Pair
    by: Literal["mae", "difference", "change"]
    compared: float
    # None where no limit is published
    limit: float | None
    side: Literal["both", "above", "below"] = "both"
    # the values of every run of each side
    curves: tuple[tuple[tuple[float, ...], ...], ...] = ()
    judgement: Judgement | None = None

    @property
    def name(self) -> str:
        return self.pair.name

    @property
    def ok(self) -> bool:
        """Whether the metric is within its limit, which NaN and infinity never are."""
        if self.limit is None:
            return True
        room = self.limit * (1 + _TOLERANCE)
        low = -math.inf if self.side == "above" else -room
        high = math.inf if self.side == "below" else room
        return math.isfinite(self.compared) and low <= self.compared <= high

    @property
    def mark(self) -> str:
        return "not judged" if self.limit is None else "ok" if self.ok else "too far"

    @property
    def is_percent(self) -> bool:
        return self.by != "difference"

    @property
    def summary(self) -> str:
        if not all(map(math.isfinite, (*self.pair.npu, *self.pair.gpu))):
            return tr("{name} is NaN or infinite in some steps", name=self.name)
        if self.by == "change" and not math.isfinite(self.compared):
            return tr("{name} was 0 in the other run", name=self.name)
        against = tr("not judged") if self.limit is None else tr("limit {limit}", limit=self.limit_text)
        return f"{self.name}: {tr(_TITLES[self.by])} {self.compared_text}, {against}"

    @property
    def compared_text(self) -> str:
        sign = "" if self.by == "mae" else "+"
        return f"{self.compared * 100:{sign}.2f} %" if self.is_percent else f"{self.compared:{sign}.4g}"

    @property
    def relative_text(self) -> str:
        """The mean relative error as text; around zero it can be arbitrarily large."""
        value = self.pair.relative
        if value is None or math.isnan(value):
            return "-"
        return f"{value * 100:.2f} %" if value < _MEANINGLESS else f"> {_MEANINGLESS * 100} %"

    @property
    def limit_text(self) -> str:
        if self.limit is None:
            return "-"
        value = f"{self.limit * 100:g} %" if self.is_percent else f"{self.limit:g}"
        sign = {"above": "+", "below": "-", "both": "" if self.by == "mae" else "±"}[self.side]
        return f"{sign}{value}"

    def band(self) -> Iterator[tuple[float, float]]:
        """Yield for each step the range of values within the limit; a one-sided range ends at the other run."""
        if self.limit is None:
            return
        for value in self.pair.gpu:
            room = self.limit * abs(value) if self.by == "change" else self.limit
            yield value - room * (self.side != "above"), value + room * (self.side != "below")

    def document(self) -> dict[str, Any]:
        npu, gpu = self.pair.means
        return {
            "mae": _finite(self.pair.mae),
            "relative": _finite(self.pair.relative),
            "limit": self.limit,
            "ok": None if self.limit is None else self.ok,
            "steps": len(self.pair.steps),
            "first_step": self.pair.steps[0],
            "last_step": self.pair.steps[-1],
            "role": self.name,
            "by": self.by,
            "compared": _finite(self.compared),
            "side": self.side,
            "npu_mean": _finite(npu),
            "gpu_mean": _finite(gpu),
            "judgement": self.judgement.document() if self.judgement else None,
        }


@dataclass(frozen=True)
class Throughput:
    """The mean throughput of the first steps of each run; no limit is published for the ratio."""

    pair: Pair
    # that of all later steps: the first ones compile and warm up
    warm: Throughput | None = None

    @property
    def ratio(self) -> float | None:
        npu, gpu = self.pair.means
        return _finite(npu / gpu) if gpu else None

    @property
    def when(self) -> str:
        return tr("steps {first} to {last}", first=self.pair.steps[0], last=self.pair.steps[-1])

    def document(self) -> dict[str, Any]:
        npu, gpu = map(_finite, self.pair.means)
        warm = self.warm
        after = (
            {"ratio": warm.ratio, "first_step": warm.pair.steps[0], "last_step": warm.pair.steps[-1]} if warm else None
        )
        return {"npu": npu, "gpu": gpu, "steps": list(self.pair.steps), "key": self.pair.key, "after_warm_up": after}


@dataclass(frozen=True)
class ShownSide:
    """One side as it is shown: its name, its kind of device, and the names of its logs."""

    name: str
    device: str | None
    logs: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        return {"device": self.device, "logs": list(self.logs)}


@dataclass(frozen=True)
class Comparison:
    # the paths of the logs of each side
    npu: str
    gpu: str
    first: ShownSide
    second: ShownSide
    framework: str
    gate: str
    source: str
    metrics: tuple[Metric, ...]
    throughput: Throughput | None
    notes: tuple[str, ...]
    # why it does not show how far NPUs are from a GPU; None if it does
    doubt: str | None
    # what the difference is worth, beside the limits; None for a gate
    judgement: Judgement | None = None
    # why a comparison within all limits shows nothing; None if it does
    shows_nothing: str | None = None

    @property
    def passed(self) -> bool:
        return all(item.ok for item in self.metrics)

    @property
    def verdict(self) -> str:
        return "failed" if not self.passed else "inconclusive" if self.shows_nothing else "passed"

    @property
    def remedy(self) -> str:
        """What to do if it shows nothing."""
        devices = {self.first.device, self.second.device}
        return tr("compare a run on an NPU with one on a GPU") if CPU in devices else tr("compare longer runs")

    @property
    def broken(self) -> Sequence[str]:
        return [item.summary for item in self.metrics if not item.ok]

    def document(self) -> dict[str, Any]:
        return {
            "metrics": {item.pair.key: item.document() for item in self.metrics},
            "throughput_ratio": self.throughput.ratio if self.throughput else None,
            "verdict": self.verdict,
            "gate": self.gate,
            "source": self.source,
            "framework": self.framework,
            "npu": self.npu,
            "gpu": self.gpu,
            "throughput": self.throughput.document() if self.throughput else None,
            "notes": list(self.notes),
            "first": self.first.document(),
            "second": self.second.document(),
            "doubt": self.doubt,
            "judgement": self._judgement(),
        }

    def _judgement(self) -> dict[str, Any] | None:
        found = self.judgement
        if found is None:
            return None
        return {"verdict": found.verdict, "text": text_of(found), "reason": found.reason, "more_runs": found.more}

    def evidence(self) -> dict[str, str]:
        """Return the fields of the comparison that are recorded as evidence."""
        found = {
            "steps": str(max(len(item.pair.steps) for item in self.metrics)),
            "error": ", ".join(f"{item.name} {item.pair.mae * 100:.2f} %" for item in self.metrics if item.limit),
        }
        if self.throughput and self.throughput.ratio is not None:
            found["throughput_ratio"] = f"{self.throughput.ratio:.2f}"
        return found


def _finite(value: float | None) -> float | None:
    """Return the value, or None for NaN and infinity, which JSON cannot express."""
    return value if value is not None and math.isfinite(value) else None
