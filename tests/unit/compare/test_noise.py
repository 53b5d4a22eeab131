"""What differences are worth: every pair and many groups of recorded runs, correct and broken ones."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean

import pytest

from envbuilder.compare import Comparison, Side, compare_sides
from envbuilder.compare.noise import Curve, Judgement, judge_metric, text_of
from envbuilder.compare.student import quantile
from envbuilder.environment import Catalog
from envbuilder.matrix import load
from tests.helpers.recorded_logs import ALL, BROKEN, LOGS, are_same, runs
from tests.helpers.training_logs import REWARD, console
from tests.helpers.training_logs import run as logged

WHOLE = Catalog(load())
LIMITS = WHOLE.frameworks["verl"].thresholds
assert LIMITS is not None and LIMITS.noise is not None
NOISE, METRIC = LIMITS.noise, LIMITS.noise.metrics["reward"]
LIMIT = float(LIMITS.reward_percent) / 100
GROUPS = 150
folders = pytest.mark.parametrize(
    "folder",
    [
        LOGS,
        pytest.param(
            ALL,
            marks=pytest.mark.skipif(not ALL.is_dir(), reason="needs the collection of GPU logs beside the repository"),
        ),
    ],
    ids=["ours", "all"],
)


def compared(folder: Path, first: Sequence[str], second: Sequence[str]) -> Comparison:
    known = runs(folder)
    ours, theirs = (Side(tuple(known[name] for name in names)) for names in (first, second))
    return compare_sides(WHOLE, ours, theirs)


def curves(folder: Path) -> dict[str, Curve]:
    found = {}
    for name, item in runs(folder).items():
        series = item.values[REWARD]
        start = {key: item.values[key][1] for key in METRIC.same_at_start}
        found[name] = Curve(tuple(series[step] for step in sorted(series)), start)
    return found


def judge(known: dict[str, Curve], first: Sequence[str], second: Sequence[str]) -> Judgement:
    """Judge groups of any devices, which the command refuses as one side."""
    return judge_metric([known[name] for name in first], [known[name] for name in second], LIMIT, NOISE, METRIC)


def correct(folder: Path) -> list[str]:
    return [name for name in runs(folder) if name not in BROKEN]


@folders
def test_every_pair_of_correct_runs_is_equal_with_the_same_samples_and_else_not_decidable(folder: Path) -> None:
    for one, other in combinations(correct(folder), 2):
        judgement = compared(folder, [one], [other]).judgement
        assert judgement is not None
        wanted = "equal" if are_same(one, other) else "undecided"
        assert judgement.verdict == wanted, (one, other, judgement)


@folders
@pytest.mark.parametrize("name", BROKEN)
def test_every_pair_with_a_broken_run_is_different(folder: Path, name: str) -> None:
    for other in correct(folder):
        for sides in (([name], [other]), ([other], [name])):
            if other.startswith("cpu") or sides[0] == [name]:
                judgement = compared(folder, *sides).judgement
                assert judgement is not None and judgement.verdict == "different", (sides, judgement)


@folders
def test_two_broken_runs_are_never_equal(folder: Path) -> None:
    """Two runs that learn nothing are within the limit: what does not change shows nothing."""
    known = curves(folder)
    found = {pair: judge(known, pair[:1], pair[1:]).verdict for pair in combinations(BROKEN, 2)}
    assert found == {
        ("gpu-lr0", "gpu-lr0.1x"): "undecided",
        ("gpu-lr0", "gpu-lr10x"): "different",
        ("gpu-lr0.1x", "gpu-lr10x"): "different",
    }


@folders
def test_groups_of_correct_runs_are_never_different(folder: Path) -> None:
    """Also the worst choice: the runs that learned fastest against those that learned most slowly."""
    known, names = curves(folder), correct(folder)
    ordered = sorted(names, key=lambda name: fmean(known[name].values))
    groups = [(ordered[:number], ordered[-number:]) for number in range(1, len(names) // 2 + 1)]
    chance = random.Random(1)  # noqa: S311
    for _ in range(GROUPS):
        chosen = chance.sample(names, chance.randint(2, len(names)))
        groups.append((chosen[: (cut := chance.randint(1, len(chosen) - 1))], chosen[cut:]))
    for first, second in groups:
        assert judge(known, first, second).verdict != "different", (first, second)


@folders
def test_groups_with_broken_runs_are_never_equal(folder: Path) -> None:
    known, names = curves(folder), correct(folder)
    chance = random.Random(2)  # noqa: S311
    for _ in range(GROUPS):
        first = chance.sample(names, chance.randint(1, min(10, len(names))))
        for broken in BROKEN:
            assert judge(known, first, [broken]).verdict == "different", (first, broken)
        second = chance.sample(BROKEN, 2) + chance.sample(names, chance.randint(0, 3))
        assert judge(known, first, second).verdict != "equal", (first, second)


@folders
def test_groups_with_the_same_samples_are_equal(folder: Path) -> None:
    known = curves(folder)
    for first, second in (
        (["cpu-draw1"], ["gpu-draw1", "gpu-bf16-draw1"]),
        (["cpu-draw1", "gpu-seed2"], ["gpu-draw1", "gpu-seed2-again"]),
    ):
        found = judge(known, first, second)
        assert (found.verdict, found.same_samples) == ("equal", True)


def test_what_one_run_a_side_cannot_show_is_said() -> None:
    found = compared(LOGS, ["gpu-seed3"], ["gpu-seed6"])
    assert found.verdict == "failed" and found.judgement is not None
    assert text_of(found.judgement) == "not decidable with these runs: about 14 more runs a side would be needed"
    notes = " ".join(found.notes)
    assert "one run a side: correct runs with other samples were 0.95 to 12.68 % of reward apart" in notes
    assert "quickstart --reproducible" in notes


def test_the_number_of_runs_that_would_be_needed_is_enough() -> None:
    """Runs with other samples, made by a known noise: with as many as were named, most sides are decided."""
    chance = random.Random(3)  # noqa: S311

    def made() -> Curve:
        late = chance.gauss(0, 0.03)
        return Curve(tuple(min(1.0, at / 20) + late for at in range(24)))

    decided = 0
    for _ in range(20):
        few = [made() for _ in range(3)], [made() for _ in range(3)]
        more = judge_metric(few[0], few[1], LIMIT, NOISE, METRIC).more
        if more is None:
            decided += 1
            continue
        whole = [[*side, *(made() for _ in range(more))] for side in few]
        decided += judge_metric(whole[0], whole[1], LIMIT, NOISE, METRIC).verdict == "equal"
    assert decided >= 12


def test_several_runs_show_a_difference_and_its_absence() -> None:
    def side(offset: float) -> list[Curve]:
        return [Curve(tuple(at / 24 + offset + 0.002 * number for at in range(24))) for number in range(5)]

    near, far = (judge_metric(side(0.0), side(offset), LIMIT, NOISE, METRIC) for offset in (0.005, 0.2))
    assert (near.verdict, far.verdict) == ("equal", "different")
    assert near.between and near.between.pairs == 25 and near.within[0] and near.within[0].pairs == 10


def test_repeated_runs_count_once() -> None:
    """Three times the same samples show nothing about how far correct runs lie apart."""
    known = curves(LOGS)
    once = judge(known, ["gpu-seed2"], ["gpu-seed6"])
    twice = judge(known, ["gpu-seed2", "gpu-seed2-again"], ["gpu-seed6"])
    assert (once.verdict, once.noise, once.more) == (twice.verdict, twice.noise, twice.more)


def test_greedy_runs_have_the_same_samples() -> None:
    """The first steps may differ, as rounding may decide between two tokens."""
    near = console({REWARD: [0.05 * at + 0.01 for at in range(15)]}, device="npu")
    far = console({REWARD: [0.05 * at for at in range(15)]}, device="cuda")
    drawn = compare_sides(WHOLE, Side((logged(near),)), Side((logged(far),))).judgement
    words = "'rollout': {'top_k': 1, 'top_p': 1e-06}\n"
    greedy = compare_sides(WHOLE, Side((logged(words + near),)), Side((logged(words + far),))).judgement
    assert drawn and greedy and (drawn.verdict, greedy.verdict) == ("undecided", "equal")


def test_a_framework_without_a_measurement_needs_two_runs_a_side() -> None:
    line = "Global step {}: {{'policy_loss': -0.5, 'reward': {}}}\n"

    def side(*offsets: float) -> Side:
        texts = ("".join(line.format(at, at / 20 + offset) for at in range(1, 16)) for offset in offsets)
        return Side(tuple(logged(text, f"{offset}.log") for text, offset in zip(texts, offsets, strict=True)))

    single = compare_sides(WHOLE, side(0.0), side(0.01)).judgement
    assert single and single.verdict == "undecided" and "at least 2 runs a side" in single.reason
    several = compare_sides(WHOLE, side(0.0, 0.001, 0.002), side(0.003, 0.004, 0.005)).judgement
    assert several and several.verdict == "equal"


@pytest.mark.parametrize(
    ("confidence", "freedom", "value"),
    [(0.995, 13, 3.0123), (0.975, 1, 12.7062), (0.95, 2, 2.9200), (0.975, 3, 3.1824), (0.95, 60, 1.6706)],
)
def test_quantiles_are_those_of_the_tables(confidence: float, freedom: int, value: float) -> None:
    assert quantile(confidence, freedom) == pytest.approx(value, abs=1e-4)
