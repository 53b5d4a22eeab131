"""Training runs that must fail, each for its own reason: a run that cannot fail proves nothing.

One run of each engine is trained here. `make controls` trains the others too and records what is judged of their logs,
which tests/unit/validate/test_recorded_runs.py judges again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from envbuilder import platforms
from envbuilder.environment import Environment
from envbuilder.matrix import Matrix, load
from envbuilder.matrix.model import CPU
from envbuilder.trainlog import read_steps
from envbuilder.validate.report import Check
from envbuilder.validate.smoke.judge import curves_of
from tests.conftest import environment, succeeded
from tests.helpers.recorded import by_hand, recorded
from tests.helpers.sabotage import sabotaged, tokens, trained
from tests.integration.conftest import DEMO, Demo, build, inside

pytestmark = pytest.mark.extended

VLLM = f"verl-v0.5.0-vllm-cpu-{platforms.arch()}"
# the function that gives the engine the weights of the trainer
SENDERS = {
    DEMO: "rollout/sglang_rollout/sglang_rollout.py:update_weights(",
    VLLM: "sharding_manager/fsdp_vllm.py:update_params(",
}
INSIDE = "/tmp/smoke/inside"  # noqa: S108


@pytest.fixture(scope="module", params=[DEMO, pytest.param(VLLM, marks=by_hand)])
def row(request: pytest.FixtureRequest, demo: Demo, matrix: Matrix) -> Environment:
    if request.param == DEMO:
        return demo.row
    succeeded(build(request.param))
    return environment(matrix, request.param)


def train(row: Environment, name: str, folder: Path, commands: str = "true", **changed: str | int) -> dict[str, str]:
    """Train in a changed container, and return the checks that failed."""
    with sabotaged(row, CPU, commands) as target:
        checks = trained(row, CPU, target, folder / "train.log", **changed)
    recorded(folder / "train.log", row, name)
    return failed(checks)


def failed(checks: Mapping[str, Check]) -> dict[str, str]:
    return {name: check.message for name, check in checks.items() if check.status == "failed"}


@by_hand
def test_an_unchanged_run_learns(row: Environment, tmp_path: Path) -> None:
    assert train(row, "good", tmp_path) == {}


@by_hand
def test_a_learning_rate_of_zero_fails(row: Environment, tmp_path: Path) -> None:
    assert {"divergence", "reward"} == train(row, "rate-zero", tmp_path, learning_rate="0.0").keys()


@by_hand
def test_a_constant_reward_fails(row: Environment, tmp_path: Path) -> None:
    code = "def compute_score(*_, **__): return 0.5"
    assert {"loss", "reward"} <= train(row, "constant-reward", tmp_path, f"echo '{code}' > {INSIDE}/reward.py").keys()


def test_a_run_without_new_weights_fails(row: Environment, tmp_path: Path) -> None:
    file, function = SENDERS[row.id].split(":")
    forget = f"sed -i '/def {function}/a\\        return' /opt/envbuilder/src/verl/verl/workers/{file}"
    assert "the engine has other weights" in train(row, "weights-not-sent", tmp_path, forget)["weights"]


def test_two_runs_with_one_seed_agree(row: Environment, tmp_path: Path) -> None:
    recipe = load().smoke_runs["verl"]
    curves = []
    for number in (1, 2):
        log = tmp_path / f"{number}.log"
        with sabotaged(row, CPU, "true") as target:
            assert trained(row, CPU, target, log, steps=3)["process"].status == "passed"
        curves.append(curves_of(read_steps(log.read_text(encoding="utf-8")), recipe).values["reward"])
    assert len(curves[0]) == 3 and curves[0] == curves[1]


def test_an_engine_with_the_model_of_transformers_fails(row: Environment, tmp_path: Path) -> None:
    """SGLang silently takes it if a module that its own model imports is missing."""
    if row.id != DEMO:
        pytest.skip("vLLM lists its models, and imports the one that it needs")
    with sabotaged(row, CPU, f"sed -i '/^REPLACED/,/)/d' {INSIDE}/cpu/patch_sglang.py") as target:
        found = tokens(row, CPU, target, tmp_path / "tokens.log")
    assert found.status == "failed" and "did not generate with its own model" in found.message, found.message


def test_vllm_is_compiled_for_the_cpu(row: Environment) -> None:
    """It has the version of the row, and its operators run."""
    if row.id != VLLM:
        pytest.skip("of vLLM")
    code = (
        "import sys; sys.modules['torch_npu'] = None\n"
        "import importlib.metadata, torch, vllm._C\n"
        "x, out = torch.randn(2, 64), torch.empty(2, 32)\n"
        "torch.ops._C.silu_and_mul(out, x)\n"
        "assert torch.allclose(out, torch.nn.functional.silu(x[:, :32]) * x[:, 32:], atol=1e-5)\n"
        "print(importlib.metadata.version('vllm'))"
    )
    assert inside(row.image_name("envbuilder"), f'python3 -c "{code}"') == "0.7.3+cpu\n"
