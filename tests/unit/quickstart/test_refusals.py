"""Refusals of `quickstart`: sizes and numbers that cannot work, unknown recipes, mistakes in the file of a recipe."""

from __future__ import annotations

from typing import Any

import pytest

from envbuilder.errors import EnvbuilderError, HostError, NoMatchError, UsageError
from envbuilder.matrix import Matrix, load
from tests.conftest import A2_VLLM, A3_SGLANG, OPENRLHF, Edit
from tests.helpers.quickstarts import V040, V041, made, options

MINI = "actor_rollout_ref.actor.ppo_mini_batch_size"
MICRO = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"
TENSOR = "actor_rollout_ref.rollout.tensor_model_parallel_size"
V062 = OPENRLHF.replace("v0.7.5", "v0.6.2")
SEQUENCE = "actor_rollout_ref.actor.ulysses_sequence_parallel_size"


@pytest.mark.parametrize(
    ("identifier", "recipe", "changes", "kind", "words"),
    [
        (V041, "grpo", {"settings": {"data.train_batch_size": "127"}}, UsageError, "is 635, which is not a multiple of trainer.n_gpus_per_node \\* trainer.nnodes, 8"),
        (V041, "grpo", {"settings": {MINI: "256"}}, UsageError, "is 128, and .*ppo_mini_batch_size is 256"),
        (V041, "grpo", {"settings": {MINI: "48"}}, UsageError, "whole mini batches"),
        (V041, "grpo", {"settings": {MICRO: "16"}}, UsageError, "whole micro batches"),
        (V041, "grpo", {"settings": {"actor_rollout_ref.rollout.n": "3"}}, UsageError, "whole micro batches"),
        (V041, "grpo", {"npus": 1}, UsageError, "n_gpus_per_node is 1, and .*tensor_model_parallel_size is 2"),
        (V041, "grpo", {"settings": {TENSOR: "3"}}, UsageError, "whole copies of the model"),
        (V041, "grpo", {"settings": {TENSOR: "0"}}, UsageError, "at least 1, not '0'"),
        (V041, "grpo", {"npus": 9}, HostError, "Atlas A2 has 8 NPUs, and not 9"),
        (A3_SGLANG, "grpo", {"npus": 5}, HostError, "1 of them or whole cards: 5 NPUs are neither"),
        (A3_SGLANG, "grpo", {"npus": 18}, HostError, "Atlas A3 has 16 NPUs, and not 18"),
        (A3_SGLANG, "grpo", {"npus": 8, "settings": {SEQUENCE: "3"}}, UsageError, "spread over a part of the devices"),
        (V040, "sft", {"settings": {"data.train_batch_size": "500"}}, UsageError, "every device gets the same"),
        (V040, "sft", {"settings": {"data.micro_batch_size_per_gpu": "5"}}, UsageError, "whole micro batches"),
        (V040, "sft", {"nodes": 2}, UsageError, "runs on 1 node only"),
        (OPENRLHF, "grpo", {"npus": 4}, UsageError, "each model has its own devices"),
        (OPENRLHF, "grpo", {"settings": {"rollout_batch_size": "1022"}}, UsageError, "same number of prompts"),
        (V041, "grpo", {"settings": {"trainer.n_gpus_per_node": "64"}}, UsageError, "npus is 8, and trainer.n_gpus_per_node is 64"),
        (V041, "grpo", {"settings": {"trainer.nnodes": "2"}}, UsageError, "nodes is 1, and trainer.nnodes is 2"),
        (OPENRLHF, "grpo", {"settings": {"actor_num_nodes": "4"}}, UsageError, "devices is 8, and .* is 20"),
        (V062, "grpo", {"settings": {"actor_num_gpus_per_node": "3", "rollout_batch_size": "1023", "train_batch_size": "96"}}, UsageError, "every engine belongs to"),
        (OPENRLHF, "sft", {"settings": {"train_batch_size": "250"}}, UsageError, "whole micro batches"),
        (OPENRLHF, "dpo", {}, NoMatchError, "has no recipe 'dpo'"),
    ],
)  # fmt: skip
def test_sizes_that_cannot_work_are_refused(
    matrix: Matrix, identifier: str, recipe: str, changes: dict[str, Any], kind: type[EnvbuilderError], words: str
) -> None:
    with pytest.raises(kind, match=words):
        made(matrix, identifier, recipe, **changes)


@pytest.mark.parametrize("branch", ["v0.7.1", "v0.8.0", "v0.9.0"])
def test_a_size_that_the_trainer_ignores_is_not_refused(matrix: Matrix, branch: str) -> None:
    """These releases divide a batch by the number of tokens, whatever the size of the micro batches."""
    settings = {"data.micro_batch_size_per_gpu": "5"}
    found = made(matrix, f"verl-{branch}-vllm-a2-aarch64", "sft", settings=settings)
    assert options(found, "verl.trainer.sft_trainer")["data.micro_batch_size_per_gpu"] == "5"


def test_sizes_are_checked_with_the_settings_of_the_user(matrix: Matrix) -> None:
    """Where the settings have a number of nodes, it counts instead of that of the cluster."""
    fewer = {"ref_num_nodes": "1", "reward_num_nodes": "1", "actor_num_nodes": "1", "actor_num_gpus_per_node": "8"}
    assert made(matrix, OPENRLHF, "grpo", nodes=2, settings=fewer).nodes == 2
    # the devices of the actor and the engines: either number may be a multiple of the other
    assert made(matrix, V062, "grpo", settings={"actor_num_gpus_per_node": "2", "vllm_num_engines": "4"}).npus == 8


def test_a_missing_recipe_has_a_hint(matrix: Matrix, edit: Edit) -> None:
    with pytest.raises(NoMatchError) as caught:
        made(matrix, A2_VLLM, "ppo")
    assert caught.value.hint == "it has: dapo, grpo, grpo-lora, grpo-megatron, grpo-vlm, sft"
    changed = load(edit("recipes/verl-grpo.yaml", "engines: [vllm, sglang]", "engines: [sglang]"))
    with pytest.raises(NoMatchError, match="is not for vLLM") as caught:
        made(changed, A2_VLLM, "grpo")
    assert caught.value.hint == "it is for --engine sglang"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "by: trainer.n_gpus_per_node * trainer.nnodes\n",
            "by: trainer.n_gpu_per_node\n",
            "'trainer.n_gpu_per_node' is not a setting of this recipe",
        ),
        ("source: asserts\n", "source: assert\n", "there is no source 'assert'"),
        ("engines: [vllm, sglang]", "engines: [vllm, sgland]", "did you mean 'sglang'"),
        ("when: {engine: [vllm]}", "when: {engine: [vlm]}", "did you mean 'vllm'"),
        ("recipe: grpo", "recipe: grpp", "verl has no recipe 'grpo' for 'rules_of'"),
        ("npus: 8", "npu: 8", "the key 'npus' is missing"),
    ],
)
def test_mistakes_in_a_recipe_are_found(edit: Edit, old: str, new: str, words: str) -> None:
    folder = edit("recipes/verl-grpo.yaml", old, new)
    with pytest.raises(EnvbuilderError, match=words):
        load(folder, everything=True)


def test_two_recipes_of_one_name_are_found(edit: Edit) -> None:
    with pytest.raises(EnvbuilderError, match="'sft' of verl is already at"):
        load(edit("recipes/verl-dapo.yaml", "recipe: dapo", "recipe: sft"), everything=True)


def test_rules_of_another_recipe_hold_too(matrix: Matrix) -> None:
    with pytest.raises(UsageError, match="a batch is made of whole mini batches"):
        made(
            matrix,
            A2_VLLM.replace("v0.5.0", "v0.8.0"),
            "dapo",
            settings={"actor_rollout_ref.actor.ppo_mini_batch_size": "7"},
        )
