"""Judges whether two sides of runs differ by more than correct runs differ from each other.

Runs draw other samples, and so lie apart without a fault: often by more than the limit of the documents. The error
between the mean curves of both sides is therefore seen as the sum of a difference and of noise. What noise may do at
most follows from the errors between runs of one side, and from those that were measured; Student's t allows for the
number of runs. The sides are different if the error without this noise is still above the limit, and equal if the
error with it is still within. Runs with the same samples have no such noise: the limit itself judges them.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from statistics import fmean
from typing import Any, Literal, NamedTuple

from envbuilder.compare.student import quantile
from envbuilder.language import counted, tr
from envbuilder.matrix.model import MetricNoise, Noise

# with fewer, own runs do not show how far runs lie apart, and the measured ones are taken into account
_OWN = 2
# nobody trains more runs than this to compare them
_MOST_RUNS = 100
# the square of a larger value may not fit into a float
_HUGE = 1e100
_ORDER = ("different", "undecided", "equal")

JudgementVerdict = Literal["different", "equal", "undecided"]
Group = Sequence[Sequence[float]]


class Curve(NamedTuple):
    """One metric of one run: its values in the common steps, and what shows which samples it had."""

    values: tuple[float, ...]
    start: Mapping[str, float] = {}
    # whether the log says that nothing is drawn
    greedy: bool = False


class Errors(NamedTuple):
    """The mean absolute errors of several pairs of runs."""

    pairs: int
    least: float
    most: float
    over_limit: int

    def document(self) -> dict[str, Any]:
        return self._asdict()


@dataclass(frozen=True)
class Judgement:
    """What the difference of two sides is worth."""

    verdict: JudgementVerdict
    reason: str
    # the error between the mean curves, and how much of it correct runs may have
    error: float | None = None
    noise: float | None = None
    # how many more runs of each side would probably decide; None if they would not, or are not needed
    more: int | None = None
    # whether both sides had the same samples
    same_samples: bool = False
    between: Errors | None = None
    within: tuple[Errors | None, Errors | None] = (None, None)

    def document(self) -> dict[str, Any]:
        first, second = (errors.document() if errors else None for errors in self.within)
        return {
            "verdict": self.verdict,
            "reason": self.reason,
            "error": self.error,
            "noise": self.noise,
            "more_runs": self.more,
            "same_samples": self.same_samples,
            "between": self.between.document() if self.between else None,
            "within_first": first,
            "within_second": second,
        }


class Spread(NamedTuple):
    """How far one run lies from the mean of many: the variance, and its degrees of freedom."""

    variance: float
    freedom: int

    def reach(self, confidence: float, sizes: tuple[int, int]) -> float:
        """Return the error between means of so many runs that noise exceeds only with the rest of this probability."""
        return quantile(confidence, self.freedom) * self.scatter(sizes)

    def scatter(self, sizes: tuple[int, int]) -> float:
        return math.sqrt(self.variance * sum(1 / size for size in sizes))

    def joined(self, other: Spread) -> Spread:
        freedom = self.freedom + other.freedom
        total = self.variance * self.freedom + other.variance * other.freedom
        return Spread(total / freedom if freedom else 0.0, freedom)


def worst(judgements: Sequence[Judgement]) -> Judgement | None:
    """Return the judgement of all metrics together: different if one is, equal if all are."""
    if not judgements:
        return None
    first = min(judgements, key=lambda item: _ORDER.index(item.verdict))
    needed = [item.more for item in judgements if item.verdict == "undecided"]
    more = None if None in needed else max((item for item in needed if item), default=None)
    return Judgement(first.verdict, first.reason, more=more, same_samples=first.same_samples)


def judge_metric(
    first: Sequence[Curve], second: Sequence[Curve], limit: float, noise: Noise, metric: MetricNoise
) -> Judgement:
    """Judge one metric of two sides; the limit is a part of one."""
    curves = [*first, *second]
    if not all(abs(value) < _HUGE for curve in curves for value in curve.values):
        return Judgement("different", tr("some values are NaN or infinite"))
    tolerance = float(metric.start_tolerance)

    def same(one: Curve, other: Curve) -> bool:
        return _same_samples(one, other, tolerance) and error(one.values, other.values) <= limit

    between = [error(one.values, other.values) for one, other in product(first, second)]
    within = tuple(
        _errors([error(a.values, b.values) for a, b in combinations(side, 2)], limit) for side in (first, second)
    )
    groups = _draws(first, same), _draws(second, same)
    means = tuple(_mean([_mean(group) for group in side]) for side in groups)
    found = error(*means)
    if all(any(same(one, other) for other in second) for one in first) and all(
        any(same(one, other) for other in first) for one in second
    ):
        made = Judgement("equal", _with_same_samples(found, limit), found, 0.0, same_samples=True)
    else:
        made = _beyond_noise(found, groups, limit, noise, _measured(metric))
    flat = any(max(values) - min(values) <= limit for values in means)
    if made.verdict == "equal" and flat:
        reason = tr("the values change by less than the limit, so that a run that learns nothing would be equal too")
        made = Judgement("undecided", reason, found, made.noise, same_samples=made.same_samples)
    return _with_errors(made, _errors(between, limit), within)


def error(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the mean absolute error, as the documents define it."""
    return fmean(abs(mine - theirs) for mine, theirs in zip(one, other, strict=True))


def _with_errors(made: Judgement, between: Errors | None, within: tuple[Errors | None, ...]) -> Judgement:
    first, second = within
    return Judgement(
        made.verdict, made.reason, made.error, made.noise, made.more, made.same_samples, between, (first, second)
    )


def _errors(values: Sequence[float], limit: float) -> Errors | None:
    if not values:
        return None
    return Errors(len(values), min(values), max(values), sum(value > limit for value in values))


def _same_samples(one: Curve, other: Curve, tolerance: float) -> bool:
    """Return whether two runs began with the same samples; a start of zeros shows nothing."""
    if one.greedy and other.greedy:
        return True
    names = one.start.keys() & other.start.keys()
    return any(one.start[name] for name in names) and all(
        math.isclose(one.start[name], other.start[name], rel_tol=tolerance) for name in names
    )


def _draws(curves: Sequence[Curve], same: Callable[[Curve, Curve], bool]) -> list[Group]:
    """Return the runs of a side by their samples: runs with the same ones are no more than one draw."""
    groups: list[list[Curve]] = []
    for curve in curves:
        group = next((group for group in groups if any(same(curve, member) for member in group)), None)
        if group is None:
            groups.append([curve])
        else:
            group.append(curve)
    return [[curve.values for curve in group] for group in groups]


def _mean(curves: Group) -> tuple[float, ...]:
    return tuple(map(fmean, zip(*curves, strict=True)))


def _measured(metric: MetricNoise) -> Spread | None:
    if metric.rms_percent is None or metric.runs is None:
        return None
    # two runs lie apart by the noise of both
    return Spread((float(metric.rms_percent) / 100) ** 2 / 2, metric.runs - 1)


def _own(groups: tuple[Sequence[Group], Sequence[Group]]) -> Spread:
    """Return the spread within the sides, by the mean square of the errors of their pairs."""
    spread = Spread(0.0, 0)
    for side in groups:
        squares = [error(one, other) ** 2 for one, other in combinations(map(_mean, side), 2)]
        if squares:
            spread = spread.joined(Spread(fmean(squares) / 2, len(side) - 1))
    return spread


def _beyond_noise(
    found: float, groups: tuple[Sequence[Group], Sequence[Group]], limit: float, noise: Noise, measured: Spread | None
) -> Judgement:
    own, sizes = _own(groups), (len(groups[0]), len(groups[1]))
    # runs that were chosen, or are few, may lie together by luck: before a run is accused, the measured ones count too
    cautious = own.joined(measured) if measured else own
    plain = own if own.freedom >= _OWN else cautious
    if not cautious.freedom:
        return Judgement(
            "undecided", tr("how far correct runs lie apart is not known: give at least 2 runs a side"), found, more=1
        )
    sure, likely = (1 + float(noise.different_confidence) / 100) / 2, float(noise.equal_confidence) / 100
    reach, within = cautious.reach(sure, sizes), plain.reach(likely, sizes)
    apart = _percent(found)
    if found - reach > limit:
        reason = tr("{error} apart, of which other samples explain at most {noise}", noise=_percent(reach), error=apart)
        return Judgement("different", reason, found, reach)
    if found + within <= limit:
        reason = tr("{error} apart, and other samples hide at most {noise} more", noise=_percent(within), error=apart)
        return Judgement("equal", reason, found, within)
    more = _more(found, sizes, limit, (sure, cautious), (likely, plain))
    reason = tr("{error} apart, and other samples alone explain up to {noise}", noise=_percent(reach), error=apart)
    return Judgement("undecided", reason, found, reach, more)


def _more(
    found: float, sizes: tuple[int, int], limit: float, different: tuple[float, Spread], equal: tuple[float, Spread]
) -> int | None:
    """Return how many more runs of each side would decide, if the sides differ as they seem to, without the noise."""
    rest = math.sqrt(max(0.0, found**2 - equal[1].scatter(sizes) ** 2))

    def decides(more: int) -> bool:
        size = min(sizes) + more
        larger = max(size, sizes[0]), max(size, sizes[1])
        expected, freedom = math.hypot(rest, equal[1].scatter(larger)), sum(larger) - 2
        within = Spread(equal[1].variance, freedom).reach(equal[0], larger)
        beyond = Spread(different[1].variance, freedom).reach(different[0], larger)
        return expected + within <= limit or expected - beyond > limit

    # more runs leave less noise, so that a number decides if a smaller one does
    more = bisect_left(range(1, _MOST_RUNS + 1), True, key=decides) + 1
    return more if more <= _MOST_RUNS else None


def _with_same_samples(found: float, limit: float) -> str:
    return tr("{error} apart with the same samples, limit {limit}", error=_percent(found), limit=f"{limit * 100:g} %")


def _percent(value: float) -> str:
    return f"{value * 100:.2f} %"


def text_of(judgement: Judgement) -> str:
    """Return the judgement in words."""
    if judgement.verdict == "different":
        return tr("different beyond noise")
    if judgement.verdict == "equal":
        return tr("equal within the limit")
    if judgement.more is None:
        return tr("not decidable with these runs")
    runs = counted(judgement.more, "more run")
    return tr("not decidable with these runs: about {runs} a side would be needed", runs=runs)
