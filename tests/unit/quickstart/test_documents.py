"""The commands of the source documents, option by option, and the departures from them."""

from __future__ import annotations

import pytest

from envbuilder.errors import UsageError
from envbuilder.matrix import Matrix
from envbuilder.quickstart.steps import ClusterNetwork, inside
from tests.conftest import A3_SGLANG, OPENRLHF
from tests.helpers.documented_commands import (
    OPENRLHF_GRPO,
    OPENRLHF_SFT,
    SEED_002,
    SEED_002_FIRST,
    SEED_003,
    SEED_004_GRPO,
    SEED_004_SFT,
)
from tests.helpers.quickstarts import V040, V041, last, made, mapping, options, prepared, split, words

OPENRLHF_062 = "openrlhf-v0.6.2-vllm-a2-aarch64"


def test_seed_002(matrix: Matrix) -> None:
    found = made(matrix, V041, "grpo", documented=True)
    assert options(found, "verl.trainer.main_ppo") == mapping((SEED_002 + SEED_002_FIRST).split())
    assert words(found)[:3] == ["python3", "-m", "verl.trainer.main_ppo"]
    assert last(found).variables == {"VLLM_ATTENTION_BACKEND": "XFORMERS"}
    assert found.departures == ()
    named = made(matrix, V041, "grpo")
    assert named.settings["trainer.experiment_name"] == "qwen2_5_0_5b_grpo_vllm_ascend"
    assert dict(named.settings) | {"trainer.experiment_name": "qwen2_7b_function_rm"} == dict(found.settings)
    assert named.departures[0].startswith("the document calls this run of Qwen2.5-0.5B qwen2_7b_function_rm;")
    gsm8k = "/opt/envbuilder/src/verl/examples/data_preprocess/gsm8k.py"
    assert prepared(found) == ["python3", gsm8k, "--local_dir", "$HOME/data/gsm8k"]


def test_seed_003(matrix: Matrix) -> None:
    found = made(matrix, A3_SGLANG, "grpo")
    assert options(found, "verl.trainer.main_ppo") == mapping(SEED_003.split())
    assert last(found).variables == {
        "HCCL_CONNECT_TIMEOUT": "1500",
        "HCCL_HOST_SOCKET_PORT_RANGE": "60000-60050",
        "HCCL_NPU_SOCKET_PORT_RANGE": "61000-61050",
    }
    assert prepared(found)[1:] == [
        "/opt/envbuilder/src/verl/examples/data_preprocess/gsm8k.py",
        "--local_save_dir",
        "$HOME/data/gsm8k",
    ]


@pytest.mark.parametrize("npus", [1, 8])
def test_seed_004_sft(matrix: Matrix, npus: int) -> None:
    found = made(matrix, V040, "sft", npus=npus, output="/save")
    assert options(found, "verl.trainer.fsdp_sft_trainer") == mapping(SEED_004_SFT.split())
    assert words(found)[:5] == ["torchrun", "--standalone", "--nnodes=1", f"--nproc_per_node={npus}", "-m"]
    assert last(found).variables == {}


def test_seed_004_grpo(matrix: Matrix) -> None:
    found = made(matrix, V040, "grpo", nodes=2, documented=True)
    assert options(found, "verl.trainer.main_ppo") == mapping(SEED_004_GRPO.split())
    assert last(found).variables["VLLM_ATTENTION_BACKEND"] == "XFORMERS"


def test_seed_004_grpo_with_values_that_verl_accepts(matrix: Matrix) -> None:
    """The document has values that every release of these rows refuses; each change of one is listed as a departure."""
    found = made(matrix, V040, "grpo", nodes=2)
    documented = mapping(SEED_004_GRPO.split())
    given = options(found, "verl.trainer.main_ppo")
    assert {key: value for key, value in given.items() if documented.get(key) != value} == {
        "actor_rollout_ref.actor.ppo_mini_batch_size": "16",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": "5",
        "trainer.device": "npu",
        "trainer.logger": "[console]",
    }
    assert documented.keys() <= given.keys() and len(found.departures) == 3
    with pytest.raises(UsageError, match="a mini batch is a part of the batch"):
        made(matrix, V040, "grpo", nodes=2, settings={"actor_rollout_ref.actor.ppo_mini_batch_size": "64"})


def test_seed_001_grpo(matrix: Matrix) -> None:
    found = made(matrix, OPENRLHF, "grpo")
    assert options(found, "openrlhf.cli.train_ppo_ray") == mapping(OPENRLHF_GRPO.split())
    assert words(found)[:6] == [
        "ray",
        "job",
        "submit",
        "--address=http://127.0.0.1:8265",
        '--runtime-env-json={"working_dir": "/opt/envbuilder/src/openrlhf"}',
        "--",
    ]
    (start,) = [split(step.command) for step in inside(found, ClusterNetwork()) if step.command.startswith("ray start")]
    assert start == ["ray", "start", "--head", "--port", "6379", '--resources={"NPU": 8}']


def test_seed_001_on_more_nodes(matrix: Matrix) -> None:
    found = made(matrix, OPENRLHF, "grpo", nodes=2)
    steps = {
        step.where: split(step.command) for step in inside(found, ClusterNetwork()) if "--resources" in step.command
    }
    assert steps["head"][:5] == ["ray", "start", "--head", "--port", "6379"]
    assert steps["worker"][:3] == ["ray", "start", "--address=MASTER-NODE-ADDRESS:6379"]
    given = options(found, "openrlhf.cli.train_ppo_ray")
    changed = {key for key, value in mapping(OPENRLHF_GRPO.split()).items() if given[key] != value}
    assert changed == {"--ref_num_nodes", "--reward_num_nodes", "--actor_num_nodes", "--vllm_num_engines"}


def test_the_older_script_of_openrlhf_generates_one_answer(matrix: Matrix) -> None:
    documented = made(matrix, OPENRLHF_062, "grpo", documented=True)
    assert options(documented, "openrlhf.cli.train_ppo_ray")["--n_samples_per_prompt"] == "1"
    found = made(matrix, OPENRLHF_062, "grpo")
    assert options(found, "openrlhf.cli.train_ppo_ray") == mapping(OPENRLHF_GRPO.split())
    assert "group_norm needs more than one answer" in found.departures[0]


def test_sft_of_openrlhf(matrix: Matrix) -> None:
    older = made(matrix, OPENRLHF_062, "sft", npus=4)
    assert words(older)[:4] == ["deepspeed", "--num_gpus=4", "--module", "openrlhf.cli.train_sft"]
    assert options(older, "openrlhf.cli.train_sft") == mapping(OPENRLHF_SFT.split())
    newer = options(made(matrix, OPENRLHF, "sft"), "openrlhf.cli.train_sft")
    assert newer == mapping([*OPENRLHF_SFT.split(), "--packing_samples"])
