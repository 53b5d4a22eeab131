"""Training logs: samples of every difficulty, and real logs where the collection is present."""

from __future__ import annotations

import math

import pytest
import yaml

from envbuilder.trainlog import read_steps
from tests.helpers.corpus import FOLDER

CORPUS = FOLDER / "logs"


def test_a_step_is_read_through_prefixes_colours_and_other_workers() -> None:
    log = (
        "Training Progress:   0%|          | 0/4 [00:00<?, ?it/s]\n"
        "\x1b[36m(TaskRunner pid=7)\x1b[0m step:1 - actor/pg_loss:np.float64(-0.25) - critic/rewards/mean:4.5E-01 - training/global_step:1\n"
        "(WorkerDict pid=8) something - else:entirely\n"
        "(TaskRunner pid=7) step:2 - actor/pg_loss:nan - critic/rewards/mean:0.5\n"
    )
    first, second = read_steps(log)
    assert (first.number, first.metrics) == (
        1,
        {"actor/pg_loss": -0.25, "critic/rewards/mean": 0.45, "training/global_step": 1},
    )
    assert second.number == 2
    assert math.isnan(second.metrics["actor/pg_loss"])


def test_a_wrapped_line_is_one_step() -> None:
    (step,) = read_steps("step:3 - a/b:1 -\nc/d:2.5 -\ne/f:-3\n- g:4\nnot a metric:5\n")
    assert step.metrics == {"a/b": 1, "c/d": 2.5, "e/f": -3, "g": 4}


@pytest.mark.parametrize(
    "cut",
    [
        "step:1 - a:1 - b",
        "step:1 - a:1 - b:",
        "step:1 - a:1 - b:0.12",
        "step:1 - a:1 - b:1e",
        "step:1 - a:1 - b:0.\nnext\n",
    ],
)
def test_a_truncated_metric_is_left_out(cut: str) -> None:
    assert read_steps(cut)[0].metrics == {"a": 1}


def test_a_number_that_became_a_link_is_read() -> None:
    (step,) = read_steps("step:1 - x:[48](https://ci.example/1#step:6:4)6.5 - y:1\n")
    assert step.metrics == {"x": 486.5, "y": 1}


def test_a_dictionary_that_counts_its_steps_is_read() -> None:
    text = (
        "Train:   4%|4         | 1/24 [00:02<00:50]\n"
        "{'loss': 0.0, 'grad_norm': '1.5', 'reward': 0.25, 'kl': 1e-05, 'global_step/max_steps': '1/24', 'elapsed_time': '2s'}\n"
        "{'train_runtime': 3.0, 'train_samples': 4}\n"
        "{'loss': -0.1, 'reward': 0.5, 'global_step/max_steps': '2/24', 'train_speed(s/it)': 1.25}\n"
    )
    first, second = read_steps(text)
    assert (first.number, first.metrics["reward"], first.metrics["grad_norm"]) == (1, 0.25, 1.5)
    assert (second.number, second.metrics["loss"], second.metrics["train_speed(s/it)"]) == (2, -0.1, 1.25)


def test_a_line_of_roll_is_read() -> None:
    """It counts steps from zero."""
    place = "[2026-11-18 10:00:00] [tracking.py (161)] [INFO] [DRIVER 0 / 1][PID 12] metrics_tag: "
    metrics = '{"critic/score/mean": 0.03, "empty": NaN, "lengths": {"max": 8}, "critic/rewards/mean": -1e-8}'
    text = f'{place}{{"step": 0, "metrics": {metrics}}}\nother\n{place}{{"step": 1, "metrics": {{"critic/sc\n'
    (step,) = read_steps(text)
    assert step.number == 1 and step.metrics["critic/score/mean"] == 0.03 and "lengths" not in step.metrics
    assert step.metrics["critic/rewards/mean"] == -1e-8 and step.metrics["empty"] != step.metrics["empty"]


def test_a_dictionary_of_openrlhf_is_read() -> None:
    log = "(Actor pid=1) INFO x.py:5] Global step 7: {'policy_loss': -0.5, 'reward': 0.25, 'actor_lr': 5e-07}\n"
    assert read_steps(log) == [(7, {"policy_loss": -0.5, "reward": 0.25, "actor_lr": 5e-07})]


@pytest.mark.parametrize("between", ["", "(Actor pid=1) {'reward': 5.0}\n"])
def test_a_truncated_dictionary_ends_before_the_next_step(between: str) -> None:
    log = f"Global step 1: {{'policy_loss': 0.5, 'reward': 0.2\n{between}Global step 2: {{'reward': 0.25}}\n"
    assert read_steps(log) == [(1, {"policy_loss": 0.5}), (2, {"reward": 0.25})]


def test_a_wrapped_dictionary_is_read() -> None:
    log = "Global step 1: {'policy_loss': 0.5, 'rew\r\nard': 0.2\n5}\n"
    assert read_steps(log) == [(1, {"policy_loss": 0.5, "reward": 0.25})]


@pytest.mark.skipif(not CORPUS.is_dir(), reason="needs the collection of real logs beside the repository")
def test_real_logs() -> None:
    read = 0
    for entry in yaml.safe_load((CORPUS / "INDEX.yaml").read_text(encoding="utf-8")):
        steps = read_steps((CORPUS / entry["file"]).read_text(encoding="utf-8"))
        truth = entry["truth"]
        if "steps" not in truth:
            continue
        read += 1
        assert [step.number for step in steps] == truth.pop("steps"), entry["file"]
        for name, values in truth.items():
            assert [step.metrics[name] for step in steps if name in step.metrics] == values, (entry["file"], name)
    assert read > 10


def test_a_progress_bar_has_a_step_for_each_change_of_its_values() -> None:
    bar = (
        "Episode [1/1]:  {}%|##        | {}/4 [00:12<00:40, 10.0s/it, policy_loss={}, reward={}, kl=1e-5, act_lr=5e-07]"
    )
    drawn = [bar.format(0, 0, -0.1, 0.05), bar.format(25, 1, -0.1, 0.05), bar.format(25, 1, -0.2, 0.31)]
    steps = read_steps("\r".join(["Episode [1/1]:  0%|          | 0/4 [00:00<?, ?it/s]", *drawn]) + "\n")
    assert [step.number for step in steps] == [1, 2]
    assert steps[1].metrics == {"policy_loss": -0.2, "reward": 0.31, "kl": 1e-5, "act_lr": 5e-7}


def test_a_line_that_ray_has_split_is_one_step() -> None:
    """The line may be split anywhere; the rest comes after lines of other workers."""
    line, worker, other = (
        "step:6 - actor/loss:-0.25 - rewards/mean:1.5e-05 - x:np.float64(2.0)",
        "(Run pid=7)",
        "(Actor pid=8)",
    )
    whole = {"actor/loss": -0.25, "rewards/mean": 1.5e-05, "x": 2.0}
    for cut in range(len("step:6"), len(line)):
        between = f"{other} flushed - 5 seconds\n{worker} \nTraining Progress: 25%\n{other} step:6 - x:3\n"
        log = f"{worker} {line[:cut]}\n{between}{worker} {line[cut:]}\n{worker} step:7 - x:1\n{worker} done\n"
        first, _, last = read_steps(log)
        assert (first.metrics, last) == (whole, (7, {"x": 1.0})), line[:cut]


@pytest.mark.parametrize(
    "bar", ["(Run pid=7) \nTraining Progress:  38%|##   | 9/24 [00:42<00:40]", "(Run pid=7) 9/24 done"]
)
def test_a_step_with_a_progress_bar_within_it_is_read(bar: str) -> None:
    line = "step:6 - actor/loss:-0.25 - rewards/mean:1.5e-05 - timing/step(s):2.0"
    for cut in range(len("step:6 - "), line.index(" - timing")):
        log = f"(Run pid=7) {line[:cut]}{bar}\n{line[cut:]}\n(Run pid=7) step:7 - x:1\n"
        metrics = {"actor/loss": -0.25, "rewards/mean": 1.5e-05, "timing/step(s)": 2.0}
        assert read_steps(log) == [(6, metrics), (7, {"x": 1.0})], line[:cut]
