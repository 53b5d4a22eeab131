"""The verdict on a smoke run: a run that learns passes, and every way not to learn fails with its own message."""

from __future__ import annotations

import math

import pytest

from envbuilder.matrix import load
from envbuilder.matrix.model import SmokeRun
from envbuilder.trainlog import LoggedStep
from envbuilder.validate.smoke.judge import (
    curves_of,
    judge,
    judge_device,
    judge_engine,
    judge_probabilities,
    judge_tokens,
)

METRICS = {
    "reward": ("critic/rewards/mean",), "loss": ("actor/pg_loss",), "gradient": ("actor/grad_norm",),
    "divergence": ("actor/kl_loss", "actor/reward_kl_penalty"), "seconds": ("timing_s/step",), "memory": ("perf/memory",),
    "device_memory": ("perf/device_memory",), "probabilities": ("training/difference",),
}  # fmt: skip
RECIPE = SmokeRun(**{**load().smoke_runs["verl"].__dict__, "steps": 20, "metrics": METRICS})


def run(**changed: float) -> list[LoggedStep]:
    """Return twenty steps that learn; a changed metric has the same value in every step."""
    named = {name: METRICS[name][0] for name in METRICS}
    steps = [LoggedStep(0, {"val-core/reward/mean@1": 0.1})]
    for number in range(1, 21):
        values = {
            "reward": number / 20,
            "loss": -0.01 * number,
            "gradient": 0.5,
            "divergence": 0.001,
            "seconds": 1.0,
            "memory": 2.0,
            "device_memory": 1.5,
            "probabilities": 1e-7,
        }
        steps.append(LoggedStep(number, {named[name]: value for name, value in {**values, **changed}.items()}))
    return steps


def failures(steps: list[LoggedStep]) -> dict[str, str]:
    return {item.name: item.message for item in judge(curves_of(steps, RECIPE), RECIPE) if not item.passed}


def test_a_run_that_learns_passes() -> None:
    curves = curves_of(run(), RECIPE)
    assert [item.name for item in judge(curves, RECIPE)] == ["steps", "loss", "gradient", "divergence", "reward"]
    assert failures(run()) == {}
    assert (curves.step_seconds, curves.peak_memory) == (1.0, 2.0)


@pytest.mark.parametrize(
    ("changed", "name", "words"),
    [
        ({"gradient": 0.0}, "gradient", "zero in every step: nothing was trained"),
        ({"loss": 0.0}, "loss", "zero in every step"),
        ({"divergence": 0.0}, "divergence", "zero in every step"),
        ({"gradient": math.nan}, "gradient", "is nan in 20 of 20 steps"),
        ({"loss": math.inf}, "loss", "is inf"),
        ({"reward": 0.3}, "reward", "went from 0.300 to 0.300; a run that learns gains at least 0.6"),
        ({"reward": math.nan}, "reward", "not finite"),
    ],
)
def test_every_way_not_to_learn_has_its_own_message(changed: dict[str, float], name: str, words: str) -> None:
    found = failures(run(**changed))
    assert list(found) == [name]
    assert words in found[name]


def test_missing_steps_are_listed() -> None:
    assert failures(run()[:6])["steps"] == "5 of 20 steps were logged; missing: 6, 7, 8, 9, 10, ..."
    assert "0 of 20 steps" in failures([])["steps"]


def test_a_reward_that_falls_again_fails() -> None:
    steps = run()
    for step in steps[-5:]:
        assert isinstance(step.metrics, dict)
        step.metrics["critic/rewards/mean"] = 0.05
    assert list(failures(steps)) == ["reward"]


def test_another_name_of_a_metric_is_read() -> None:
    steps = [
        LoggedStep(
            step.number,
            {key.replace("actor/kl_loss", "actor/reward_kl_penalty"): value for key, value in step.metrics.items()},
        )
        for step in run()
    ]
    assert failures(steps) == {}


@pytest.mark.parametrize(
    ("log", "memory", "words"),
    [
        ("all is well", 1.5, "1.50 GB of device memory"),
        (
            "[W] CAUTION: The operator 'aten::x' will fall back to run on the CPU.",
            1.5,
            "not everything ran on the device",
        ),
        ("all is well", 0.0, "nothing ran on it"),
    ],
)
def test_a_run_on_a_device_must_have_used_it(log: str, memory: float, words: str) -> None:
    verdict = judge_device(curves_of(run(device_memory=memory), RECIPE), RECIPE, log)
    assert words in verdict.message
    assert verdict.passed == (words == "1.50 GB of device memory")


def test_tokens_of_an_engine_must_equal_those_of_transformers() -> None:
    wanted = [[1, 2], [3, 4], [5, 6]]
    assert judge_tokens(wanted, [[1, 2], [3, 4], [5, 6]]).message == (
        "all 3 greedy answers of the engine equal those of transformers"
    )
    verdict = judge_tokens(wanted, [[1, 2], [3, 9], [5, 6]])
    assert not verdict.passed
    assert verdict.message == "1 of 3 greedy answers of the engine differ from those of transformers"


@pytest.mark.parametrize(
    ("difference", "words"),
    [
        (0.3, "differ by at most 0.3, which is above 0.02: the engine has other weights"),
        (math.nan, "were not compared"),
    ],
)
def test_an_engine_with_other_weights_fails(difference: float, words: str) -> None:
    assert judge_probabilities(curves_of(run(), RECIPE), 0.02).passed
    found = judge_probabilities(curves_of(run(probabilities=difference), RECIPE), 0.02)
    assert not found.passed and words in found.message


def test_probabilities_that_were_not_logged_are_no_proof() -> None:
    named = METRICS["probabilities"][0]
    steps = [LoggedStep(step.number, {k: v for k, v in step.metrics.items() if k != named}) for step in run()]
    assert not judge_probabilities(curves_of(steps, RECIPE), 0.02).passed


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
def test_an_engine_with_the_model_of_transformers_fails(engine: str) -> None:
    words = load().engines[engine].fallbacks
    log = "WARNING Qwen2ForCausalLM has no SGLang implementation, falling back to Transformers implementation. Some\n"
    assert judge_engine(words, "step:1 - reward:0.1\n").passed
    found = judge_engine(words, f"step:1\n{log}")
    assert not found.passed and "Qwen2ForCausalLM has no SGLang implementation" in found.message
