"""Two runs are compared: the error is the known one, and limits apply exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envbuilder.compare import Comparison, compare
from envbuilder.environment import Catalog
from envbuilder.errors import EnvbuilderError, NoMatchError, UsageError
from envbuilder.matrix import Matrix, load
from tests.conftest import Edit
from tests.helpers.training_logs import DIFFERENCE, LOSS, MEMORY, REWARD, SPEED, TIME, Series, console, events, run

FLAT = [0.5] * 15
NIGHTLY = {REWARD: FLAT, SPEED: [100.0] * 15, TIME: [80.0] * 15, MEMORY: [20.0] * 15, DIFFERENCE: [0.004] * 15}
WHOLE = Catalog(load())


def compared(ours: Series, theirs: Series, gate: str = "published") -> Comparison:
    return compare(WHOLE, run(console(ours), "npu.log"), run(console(theirs), "gpu.log"), gate)


def moved(values: Sequence[float], offset: float) -> list[float]:
    return [value + offset for value in values]


def refused(
    ours: str | bytes, theirs: str | bytes, gate: str = "published", framework: str | None = None
) -> EnvbuilderError:
    with pytest.raises((UsageError, NoMatchError)) as caught:
        compare(WHOLE, run(ours, "npu.log"), run(theirs, "gpu.log"), gate, framework)
    return caught.value


numbers = st.floats(-100, 100).map(lambda value: round(value, 4))


@given(st.lists(numbers, min_size=1, max_size=30), st.floats(-5, 5).map(lambda value: round(value, 4)))
def test_a_known_offset_is_the_error(values: list[float], offset: float) -> None:
    found = compared(
        {LOSS: moved(values, offset), REWARD: values, TIME: [1.0]},
        {LOSS: values, REWARD: moved(values, -offset), TIME: [2.0]},
    )
    for metric in found.metrics:
        assert metric.pair.mae == pytest.approx(abs(offset), abs=1e-9)
        assert len(metric.pair.steps) == len(values)
    assert [metric.name for metric in found.metrics] == ["loss", "reward"]
    assert found.metrics[0].ok is (abs(offset) <= 0.02)
    assert found.metrics[1].ok is (abs(offset) <= 0.04)


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=20))
def test_the_error_is_that_of_the_documents(pairs: list[tuple[float, float]]) -> None:
    ours, theirs = [a for a, _ in pairs], [b for _, b in pairs]
    (metric,) = compared({LOSS: ours, TIME: [1.0]}, {LOSS: theirs, TIME: [2.0]}).metrics
    assert metric.pair.mae == pytest.approx(sum(abs(a - b) for a, b in pairs) / len(pairs))
    parts = [abs(a - b) / abs(b) for a, b in pairs if b]
    assert metric.pair.relative == (pytest.approx(sum(parts) / len(parts)) if parts else None)


@pytest.mark.parametrize(("key", "limit"), [(LOSS, 0.02), ("train/loss", 0.02), (REWARD, 0.04)])
@pytest.mark.parametrize(("part", "ok"), [(0.99, True), (1.0, True), (1.01, False), (-1.0, True), (-1.01, False)])
def test_limits_of_verl(key: str, limit: float, part: float, ok: bool) -> None:
    found = compared({key: moved(FLAT, limit * part)}, {key: FLAT})
    assert (found.passed, found.verdict, found.framework) == (ok, "passed" if ok else "failed", "verl")
    assert found.metrics[0].limit == limit
    assert bool(found.broken) is not ok


@pytest.mark.parametrize(("offset", "ok"), [(0.02, True), (0.021, False), (0.04, False)])
def test_limits_of_openrlhf_are_its_own(offset: float, ok: bool) -> None:
    line = "Global step {}: {{'policy_loss': -0.5, 'reward': {}}}\n"
    ours, theirs = ("".join(line.format(at, value) for at in range(1, 9)) for value in (0.5 + offset, 0.5))
    found = compare(WHOLE, run(ours), run(theirs))
    assert (found.framework, found.passed) == ("openrlhf", ok)


def test_the_limit_holds_in_single_precision() -> None:
    ours, theirs = run(events({REWARD: moved(FLAT, 0.04)})), run(events({REWARD: FLAT}))
    assert compare(WHOLE, ours, theirs).passed


def test_the_relative_error_has_no_effect_on_the_verdict() -> None:
    found = compared({LOSS: [0.001, 0.002]}, {LOSS: [0.0001, -0.0001]})
    assert found.passed
    assert (found.metrics[0].pair.relative or 0) > 5


def test_throughput_is_that_of_the_first_four_steps() -> None:
    ours = {REWARD: FLAT, SPEED: [50.0, 60.0, 70.0, 60.0, 900.0]}
    found = compared(ours, {REWARD: FLAT, SPEED: [100.0, 100.0, 100.0, 100.0, 1.0]})
    assert found.throughput is not None
    assert found.throughput.pair.steps == (1, 2, 3, 4)
    assert found.throughput.ratio == pytest.approx(0.6)
    few = compared({REWARD: FLAT, SPEED: [50.0]}, {REWARD: FLAT, SPEED: [100.0, 1.0]})
    assert few.throughput is not None and few.throughput.ratio == 0.5
    assert any("mean of 1 steps" in note for note in few.notes)
    assert few.passed  # no limit is published for it


def test_unequal_lengths_are_noted_and_common_steps_are_compared() -> None:
    found = compared({REWARD: [0.5, 0.5, 9.0, 9.0]}, {REWARD: [0.5, 0.5]})
    assert found.metrics[0].pair.steps == (1, 2)
    assert "4 steps (1 to 4) and gpu.log 2 steps (1 to 2); the 2 that both have" in found.notes[0]


def test_a_step_that_only_validates_is_not_compared() -> None:
    text = console({REWARD: [0.5, 0.5]})
    found = compare(WHOLE, run("step:0 - val-core/x/acc:0.4\n" + text), run(text.replace("0.5", "0.51", 1)))
    assert found.metrics[0].pair.steps == (1, 2)
    assert not any("steps (" in note for note in found.notes)


def test_a_metric_that_is_in_one_log_only_is_noted() -> None:
    found = compared({REWARD: FLAT, LOSS: FLAT}, {REWARD: FLAT})
    assert [metric.name for metric in found.metrics] == ["reward"]
    assert {"loss is only in npu.log: not compared", "throughput is in neither log: not compared"} <= {*found.notes}


def test_a_restart_counts_once() -> None:
    text = console({REWARD: [0.5, 0.9]}) + console({REWARD: [0.5, 0.5]}, first=2)
    found = compare(WHOLE, run(text, "npu.log"), run(console({REWARD: FLAT[:3]}), "gpu.log"))
    assert found.metrics[0].pair.npu == (0.5, 0.5, 0.5)
    assert found.notes[0].startswith("npu.log has steps 2 more than once, with different values")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_value_that_is_nan_or_infinite_fails(value: float) -> None:
    found = compared({REWARD: [0.5, value, 0.5]}, {REWARD: FLAT})
    assert not found.passed
    assert found.broken == ["reward is NaN or infinite in some steps"]
    assert found.document()["metrics"][REWARD]["mae"] is None


def test_the_same_log_twice() -> None:
    text = console({REWARD: FLAT, TIME: [80.5] * 15})
    assert "are the same log" in refused(text, text).message
    # other text around the same numbers
    assert "including the times" in refused(text, "copied from elsewhere\n" + text).message
    other = compared({REWARD: FLAT, TIME: [80.5] * 15}, {REWARD: FLAT, TIME: [81.0] * 15})
    assert other.passed and any("so they may be of one run" in note for note in other.notes)
    assert "are the same log" in refused(events({REWARD: FLAT}), events({REWARD: FLAT})).message
    # a metric with fewer than two common steps is left out
    validated = "step:0 - val-core/x:0.5\n"
    assert "including the times" in refused(validated + text, "copied\n" + validated + text).message
    # a part of the same log, and the same log in another format
    timed = {REWARD: FLAT, TIME: [80.1 + at / 7 for at in range(15)]}
    assert (
        "including the times"
        in refused(console({name: values[:9] for name, values in timed.items()}), console(timed)).message
    )
    assert "including the times" in refused(events(timed), console(timed)).message


@pytest.mark.parametrize(
    ("ours", "theirs", "word"),
    [
        ("cuda", "npu", "npu.log is of a GPU and gpu.log of an NPU"),
        ("cuda", None, "npu.log is a log of a GPU"),
        (None, "npu", "gpu.log is a log of an NPU"),
    ],
)
def test_logs_of_the_wrong_device_are_refused(ours: str | None, theirs: str | None, word: str) -> None:
    error = refused(console({REWARD: FLAT}, device=ours), console({REWARD: moved(FLAT, 0.01)}, device=theirs))
    assert word in error.message
    assert error.hint and error.exit_code == 2


def test_very_large_relative_errors_are_abbreviated() -> None:
    found = compared({LOSS: [0.001, 0.001]}, {LOSS: [1e-9, 0.001]})
    (metric,) = found.metrics
    assert metric.relative_text == "> 1000 %" and found.passed
    assert compared({LOSS: [0.0011]}, {LOSS: [0.001]}).metrics[0].relative_text == "10.00 %"
    assert compared({LOSS: [math.nan]}, {LOSS: [0.001]}).metrics[0].relative_text == "-"


def test_the_loss_of_a_policy_is_shown_and_not_judged() -> None:
    """The published limits are for the loss of SFT and for the reward of RL."""
    policy = "actor/pg_loss"
    ours, theirs = {REWARD: FLAT, policy: [0.5] * 15}, {REWARD: moved(FLAT, 0.01), policy: [0.1] * 15}
    found = compared(ours, theirs)
    assert found.passed and [(item.name, item.mark) for item in found.metrics] == [
        ("reward", "ok"), ("policy_loss", "not judged"),
    ]  # fmt: skip
    metric = found.document()["metrics"][policy]
    assert (metric["mae"], metric["limit"], metric["ok"]) == (pytest.approx(0.4), None, None)
    assert found.evidence()["error"] == "reward 1.00 %"
    assert "share neither" in refused(console({policy: FLAT}), console({policy: moved(FLAT, 1)})).message
    assert "share neither" in refused(console({policy: FLAT, REWARD: FLAT}), console({policy: moved(FLAT, 1)})).message


def test_a_metric_that_is_missing_in_some_steps_is_noted() -> None:
    """verl's writer has null in place of NaN."""
    line = '{{"step": {0}, "data": {{"{1}": {2}, "{3}": 1}}}}\n'
    gone, whole = (
        "".join(line.format(at, REWARD, value if at < 6 else last, SPEED) for at in range(1, 11))
        for value, last in ((0.5, "null"), (0.51, 0.51))
    )
    found = compare(WHOLE, run(gone, "npu.jsonl"), run(whole, "gpu.jsonl"))
    assert found.broken == ["reward is NaN or infinite in some steps"]
    lost = gone.replace("null", '"-"')
    notes = compare(WHOLE, run(lost, "npu.jsonl"), run(whole, "gpu.jsonl")).notes
    assert "reward is in 5 of the 10 steps that both logs have" in notes


def test_positive_and_negative_infinity_fail() -> None:
    found = compared({REWARD: [math.inf, -math.inf]}, {REWARD: [0.5, 0.5]})
    assert not found.passed and found.document()["metrics"][REWARD]["npu_mean"] is None


def test_two_runs_of_npus_are_no_evidence() -> None:
    """They may still be compared, for example two toolkits or two seeds."""
    npu, other = console({REWARD: FLAT}, device="npu"), console({REWARD: moved(FLAT, 0.01)}, device="npu")
    found = compare(WHOLE, run(npu), run(other))
    assert found.passed and found.doubt
    assert "both sides are of an NPU: the errors are not those of an NPU against a GPU" in found.notes
    assert compare(WHOLE, run(npu), run(console({REWARD: moved(FLAT, 0.01)}))).doubt is None


def test_a_run_on_a_cpu_is_no_evidence() -> None:
    """The log names an NPU, because the recipe does, but no device memory was used."""
    memory = "perf/max_memory_allocated_gb"
    gpu = console({REWARD: moved(FLAT, 0.01), memory: [1.5] * 15}, device="cuda")
    found = compare(WHOLE, run(console({REWARD: FLAT, memory: [0.0] * 15}, device="npu")), run(gpu))
    assert found.passed and found.doubt and found.verdict == "inconclusive"
    assert any("used no device memory, so it ran on a CPU" in note for note in found.notes)
    assert compare(WHOLE, run(console({REWARD: FLAT, memory: [0.5] * 15}, device="npu")), run(gpu)).doubt is None


@pytest.mark.parametrize(("ours", "theirs"), [("npu", "cuda"), ("npu", None), (None, "cuda"), (None, None)])
def test_devices_that_are_right_or_unknown(ours: str | None, theirs: str | None) -> None:
    npu, gpu = console({REWARD: FLAT}, device=ours), console({REWARD: moved(FLAT, 0.01)}, device=theirs)
    assert compare(WHOLE, run(npu), run(gpu)).passed
    assert compare(WHOLE, run(npu + "torch_npu NVIDIA"), run(gpu + "torch_npu NVIDIA")).passed


@pytest.mark.parametrize(
    ("ours", "theirs", "word"),
    [
        ("", console({REWARD: FLAT}), "npu.log has no training step"),
        (console({REWARD: FLAT}), "words\n", "gpu.log has no training step"),
        (console({"x/y": FLAT}), console({REWARD: FLAT}), "npu.log has no metric of verl; its metrics: x/y"),
        (console({REWARD: FLAT}), console({REWARD: FLAT}, first=40), "no step in common: 1 to 15 and 40 to 54"),
        (console({SPEED: FLAT}), console({SPEED: moved(FLAT, 1)}), "share neither a loss nor a reward"),
        (console({REWARD: FLAT}), f"{REWARD}:0.5\n", "gpu.log is a baseline of means"),
        (f"{REWARD}:0.5\n", console({REWARD: FLAT}), "npu.log is a baseline of means"),
    ],
)
def test_logs_that_cannot_be_compared(ours: str, theirs: str, word: str) -> None:
    error = refused(ours, theirs)
    assert word in error.message
    assert error.exit_code == 2 and error.hint


def test_different_kinds_of_loss_are_not_compared() -> None:
    ours, theirs = ("".join(f"Global step {at}: {{'{name}': 0.5}}\n" for at in (1, 2)) for name in ("gpt_loss", "loss"))
    assert "share neither" in refused(ours, theirs).message


def test_metrics_of_a_console_and_a_tracker_are_matched() -> None:
    line = "Global step {}: {{'policy_loss': 0.5, 'reward': 0.5}}\n"
    ours = "".join(line.format(at) for at in range(1, 16))
    found = compare(WHOLE, run(ours), run(events({"train/reward": FLAT, "train/policy_loss": moved(FLAT, 0.01)})))
    assert [metric.name for metric in found.metrics] == ["loss", "reward"]


# --- the gate of the project's nightly runs ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "name", "inside", "outside"),
    [
        (REWARD, "reward", 0.55, 0.5501),
        (REWARD, "reward", 0.45, 0.4499),
        (SPEED, "throughput", 95.0, 94.99),
        (TIME, "step_time", 84.0, 84.01),
        (MEMORY, "memory", 21.0, 21.01),
        (DIFFERENCE, "rollout_difference", 0.0042, 0.00421),
        (DIFFERENCE, "rollout_difference", 0.0038, 0.00379),
    ],
)
def test_nightly_limits(key: str, name: str, inside: float, outside: float) -> None:
    for value, ok in ((inside, True), (outside, False)):
        found = compared({**NIGHTLY, key: [value] * 15}, NIGHTLY | {TIME: [80.0] * 14 + [80.5]}, "nightly")
        assert {metric.name: metric.ok for metric in found.metrics} == {
            metric.name: ok or metric.name != name for metric in found.metrics
        }
        assert len(found.metrics) == 5 and found.passed is ok


@pytest.mark.parametrize(("key", "better"), [(SPEED, 300.0), (TIME, 10.0), (MEMORY, 2.0)])
def test_nightly_accepts_better_values(key: str, better: float) -> None:
    assert compared({**NIGHTLY, key: [better] * 15}, NIGHTLY, "nightly").passed


def test_nightly_does_not_take_infinity_for_better() -> None:
    assert not compared({**NIGHTLY, SPEED: [math.inf] * 15}, NIGHTLY, "nightly").passed


def test_nightly_takes_means_of_steps_5_to_14_and_the_last_memory() -> None:
    wild = [9.0] * 4 + [0.4, 0.6] * 5 + [9.0]
    found = compared({**NIGHTLY, REWARD: wild, MEMORY: [90.0] * 14 + [20.0]}, NIGHTLY, "nightly")
    reward, memory = found.metrics[0], found.metrics[3]
    assert reward.pair.steps == tuple(range(5, 15))
    assert reward.compared == pytest.approx(0)
    assert (memory.pair.steps, memory.compared) == ((15,), 0)
    assert found.passed


def test_nightly_against_a_baseline() -> None:
    means = "".join(f"{name}:{values[0]}\n" for name, values in NIGHTLY.items() if name != MEMORY)
    means += "actor/perf/max_memory_allocated_gb:20.0\n"
    for offset, ok in ((0.04, True), (0.06, False)):
        ours = console({**NIGHTLY, REWARD: moved(FLAT, -offset)})
        found = compare(WHOLE, run(ours), run(means, "base.txt"), "nightly")
        assert found.passed is ok
        assert any("base.txt is a baseline" in note for note in found.notes)


def test_nightly_needs_what_it_judges() -> None:
    lacking = {name: values for name, values in NIGHTLY.items() if name != TIME}
    other = {**NIGHTLY, SPEED: [101.0] * 15}
    error = refused(console(lacking), console(other), "nightly")
    assert "judges step_time in steps 5 to 14, and it is missing from npu.log" in error.message
    short = {name: values[:4] for name, values in NIGHTLY.items()}
    assert "in none of these steps of both logs" in refused(console(short), console(other), "nightly").message
    some = {name: values[:8] for name, values in NIGHTLY.items() if name != DIFFERENCE}
    notes = compared(some, other, "nightly").notes
    assert "both logs have 4 of steps 5 to 14 of reward, throughput, step_time" in notes
    assert "rollout_difference is not in both logs: not compared" in notes


def test_unknown_gates_and_frameworks_are_refused() -> None:
    texts = console({REWARD: FLAT}), console({REWARD: moved(FLAT, 0.01)})
    assert "gates: published, nightly" in str(refused(*texts, gate="weekly").hint)
    assert refused(*texts, framework="none").exit_code == 4
    assert "has no metric of OpenRLHF (Ascend fork)" in refused(*texts, framework="openrlhf").message


def test_limits_are_data(edit: Edit) -> None:
    changed = Catalog(load(edit("frameworks/verl.yaml", "reward_percent: '4'", "reward_percent: '7'")))
    npu, gpu = run(console({REWARD: moved(FLAT, 0.06)})), run(console({REWARD: FLAT}))
    assert compare(changed, npu, gpu).passed
    assert not compare(WHOLE, npu, gpu).passed


def test_a_matrix_that_describes_no_logs(matrix: Matrix) -> None:
    silent = type(matrix)(**{name: getattr(matrix, name) for name in matrix.record_types} | {"frameworks": {}})
    with pytest.raises(NoMatchError, match="no framework of these matrices describes its logs"):
        compare(Catalog(silent), run(console({REWARD: FLAT})), run(console({REWARD: FLAT})))


RISING = [0.1 * at for at in range(15)]


@pytest.mark.parametrize(
    ("ours", "theirs", "words"),
    [
        ([0.5], [0.51], "the logs share 1 step, and fewer than 10 show nothing"),
        (RISING[:9], moved(RISING[:9], 0.01), "the logs share 9 steps"),
        ([0.0] * 15, [0.0] * 15, "reward is 0 in every step of both logs: nothing was learned"),
    ],
)
def test_logs_that_show_nothing(ours: list[float], theirs: list[float], words: str) -> None:
    times = [9.0] * len(ours)
    found = compared({REWARD: ours, TIME: times}, {REWARD: theirs, TIME: moved(times, 1.0)})
    assert (found.passed, found.verdict) == (True, "inconclusive") and words in str(found.shows_nothing)


def test_a_broken_limit_is_a_result_however_short_the_logs_are() -> None:
    assert compared({REWARD: [0.9]}, {REWARD: [0.1]}).verdict == "failed"
    assert compared({REWARD: RISING}, {REWARD: moved(RISING, 0.01)}).verdict == "passed"
