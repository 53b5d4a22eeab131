"""Training runs that must fail, each for its own reason: a run that cannot fail proves nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from envbuilder import platforms
from envbuilder.environment import Environment
from envbuilder.matrix import Matrix, load
from envbuilder.matrix.model import CPU
from envbuilder.trainlog import read_steps
from envbuilder.validate.report import Check
from envbuilder.validate.smoke.judge import curves_of, judge
from tests.conftest import environment, succeeded
from tests.helpers.sabotage import sabotaged, tokens, trained
from tests.integration.conftest import build, run

SGLANG, VLLM = (f"verl-{row}-cpu-{platforms.arch()}" for row in ("v0.6.0-sglang", "v0.5.0-vllm"))
minutes = pytest.mark.skipif("CONTROLS" not in os.environ, reason="takes minutes more: make controls runs it")
# the function that gives the engine the weights of the trainer
SENDERS = {
    SGLANG: "rollout/sglang_rollout/sglang_rollout.py:update_weights(",
    VLLM: "sharding_manager/fsdp_vllm.py:update_params(",
}
INSIDE = "/tmp/smoke/inside"  # noqa: S108


@pytest.fixture(scope="module", params=[SGLANG, pytest.param(VLLM, marks=minutes)])
def row(request: pytest.FixtureRequest, engine: None, matrix: Matrix) -> Environment:
    succeeded(build(request.param))
    return environment(matrix, request.param)


def train(row: Environment, log: Path, commands: str = "true", **changed: str | int) -> Mapping[str, Check]:
    with sabotaged(row, CPU, commands) as target:
        return trained(row, CPU, target, log, **changed)


def failed(checks: Mapping[str, Check]) -> dict[str, str]:
    return {name: check.message for name, check in checks.items() if check.status == "failed"}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("controls")


@pytest.fixture(scope="module")
def unchanged(row: Environment, logs: Path) -> Mapping[str, Check]:
    return train(row, logs / f"{row.id}-unchanged.log", learning_rate="0.0")


@pytest.fixture(scope="module")
def constant(row: Environment, logs: Path) -> Mapping[str, Check]:
    code = "def compute_score(*_, **__): return 0.5"
    return train(row, logs / f"{row.id}-constant.log", f"echo '{code}' > {INSIDE}/reward.py")


def test_a_learning_rate_of_zero_fails(unchanged: Mapping[str, Check], row: Environment, logs: Path) -> None:
    found = failed(unchanged)
    assert set(found) == {"divergence", "reward"}, "everything else about it is as in a good run"
    assert found["divergence"] == "the divergence is zero in every step: nothing was trained"
    assert "a run that learns gains at least 0.6" in found["reward"]
    # the log of it, whole and cut off in the middle of a line
    recipe, log = load().smoke_runs["verl"], (logs / f"{row.id}-unchanged.log").read_text(encoding="utf-8")
    assert judge(curves_of(read_steps(log), recipe), recipe)[0].passed
    cut = log[: log.index("step:17 - ") + 60]
    steps = judge(curves_of(read_steps(cut), recipe), recipe)[0]
    assert not steps.passed and steps.message.startswith("16 of 24 steps were logged; missing: 17, 18")


def test_a_constant_reward_fails(constant: Mapping[str, Check]) -> None:
    found = failed(constant)
    assert "the reward went from 0.500 to 0.500" in found["reward"]
    assert found["loss"] == "the loss is zero in every step: nothing was trained"


def test_a_run_without_new_weights_fails(row: Environment, logs: Path) -> None:
    file, function = SENDERS[row.id].split(":")
    forget = f"sed -i '/def {function}/a\\        return' /opt/envbuilder/src/verl/verl/workers/{file}"
    found = failed(train(row, logs / f"{row.id}-forgotten.log", forget))
    assert "the engine has other weights" in found["weights"]


def test_two_runs_are_compared(
    unchanged: Mapping[str, Check], constant: Mapping[str, Check], row: Environment, logs: Path, tmp_path: Path
) -> None:
    ran = [str(logs / f"{row.id}-{name}.log") for name in ("unchanged", "constant")]
    result = run("compare", *ran, "--json", "--plot", str(tmp_path / "plot.svg"))
    found = json.loads(result.stdout)
    reward = found["metrics"]["critic/rewards/mean"]
    assert reward["steps"] == found["metrics"]["actor/pg_loss"]["steps"] == 24
    assert reward["gpu_mean"] == 0.5 and reward["npu_mean"] < 0.1
    assert (found["verdict"], result.returncode) == ("failed", 6)
    assert found["throughput_ratio"] > 0 and any("both logs are of an NPU" in note for note in found["notes"])
    assert (tmp_path / "plot.svg").read_text().count("<use") > 80
    twice = run("compare", ran[0], ran[0])
    assert twice.returncode == 2 and "are the same log" in twice.stderr


def test_two_runs_with_one_seed_agree(row: Environment, logs: Path) -> None:
    recipe = load().smoke_runs["verl"]
    curves = []
    for number in (1, 2):
        log = logs / f"{row.id}-seed-{number}.log"
        assert train(row, log, steps=6)["process"].status == "passed"
        curves.append(curves_of(read_steps(log.read_text(encoding="utf-8")), recipe).values["reward"])
    assert len(curves[0]) == 6 and curves[0] == curves[1]


def test_an_engine_with_the_model_of_transformers_fails(row: Environment, tmp_path: Path) -> None:
    """SGLang silently takes it if a module that its own model imports is missing."""
    if row.id != SGLANG:
        pytest.skip("vLLM lists its models, and imports the one that it needs")
    with sabotaged(row, CPU, f"sed -i '/^REPLACED/,/)/d' {INSIDE}/cpu/patch_sglang.py") as target:
        found = tokens(row, CPU, target, tmp_path / "tokens.log")
    assert found.status == "failed" and "did not generate with its own model" in found.message, found.message
