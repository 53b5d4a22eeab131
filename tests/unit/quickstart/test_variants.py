"""Training commands by release, by the numbers of devices and nodes, and by the options of the user."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from envbuilder import versions
from envbuilder.errors import NoMatchError
from envbuilder.matrix import Matrix
from envbuilder.matrix.model import Preparation
from envbuilder.quickstart.steps import ClusterNetwork, data_text, steps_of
from tests.conftest import A2_VLLM, A3_SGLANG, Result
from tests.helpers.documented_commands import SEED_003
from tests.helpers.quickstarts import V040, V041, last, made, mapping, options, prepared


def test_two_devices_on_two_nodes(matrix: Matrix) -> None:
    """The document was tested with 2 and 8 devices."""
    found = options(made(matrix, V040, "grpo", nodes=2, npus=2), "verl.trainer.main_ppo")
    assert found["trainer.n_gpus_per_node"] == "2" and found["trainer.nnodes"] == "2"
    assert found["actor_rollout_ref.rollout.tensor_model_parallel_size"] == "2"


def test_several_nodes_with_the_other_engine(matrix: Matrix) -> None:
    found = made(matrix, A3_SGLANG, "grpo", nodes=2)
    given, documented = options(found, "verl.trainer.main_ppo"), mapping(SEED_003.split())
    assert {key for key in given if given[key] != documented.get(key)} == {"trainer.nnodes"}
    variables = last(found).variables
    assert variables["HCCL_CONNECT_TIMEOUT"] == "3600", "longer than in the script for one node"
    assert variables["RAY_EXPERIMENTAL_NOSET_ASCEND_RT_VISIBLE_DEVICES"] == "1", "set by the row"
    assert variables["RAY_ADDRESS"] == "auto"


def test_the_steps_of_several_nodes_are_in_order(matrix: Matrix) -> None:
    found = steps_of(
        made(matrix, A2_VLLM, "grpo", nodes=4, npus=4), ClusterNetwork("10.0.0.1", "bond0"), "some/image:1"
    )
    assert [step.where for step in found] == ["all", "all", "head", "worker", "head", "head"]
    head, worker = found[2], found[3]
    assert head.variables == worker.variables
    assert {head.variables[f"{name}_SOCKET_IFNAME"] for name in ("HCCL", "GLOO", "TP")} == {"bond0"}
    assert "--node-ip-address=10.0.0.1" in head.command and "--address=10.0.0.1:6379" in worker.command
    assert '"nodes": 4' in found[4].command and found[5].variables["RAY_ADDRESS"] == "auto"


# option: the first and the last tag whose configuration has it. Every tag has the options that are not listed, and a new
# release is taken to have the options of the one before it.
# verl-project/verl at each tag: verl/trainer/config/ppo_trainer.yaml or _generated_ppo_trainer.yaml, sft_trainer.yaml up
# to v0.7.0, sft_trainer_engine.yaml with model/hf_model.yaml after it, examples/data_preprocess/gsm8k.py
LIVES = {
    # later configurations still have it, but no code reads it
    ("grpo", "actor_rollout_ref.nccl_timeout"): ("v0.6.0", "v0.7.1"),
    ("grpo", "actor_rollout_ref.actor.fsdp_config.ulysses_sequence_parallel_size"): ("v0.6.0", None),
    ("grpo", "actor_rollout_ref.ref.fsdp_config.ulysses_sequence_parallel_size"): ("v0.6.0", None),
    ("grpo", "actor_rollout_ref.rollout.calculate_log_probs"): ("v0.4.1", None),
    ("sft", "data.prompt_key"): (None, "v0.7.0"),
    ("sft", "data.response_key"): (None, "v0.7.0"),
    ("sft", "data.prompt_dict_keys"): (None, "v0.7.0"),
    ("sft", "data.response_dict_keys"): (None, "v0.7.0"),
    ("sft", "model.partial_pretrain"): (None, "v0.7.0"),
    ("sft", "trainer.device"): ("v0.5.0", None),
    ("sft", "data.messages_key"): ("v0.7.1", None),
    ("sft", "engine"): ("v0.7.1", None),
    ("sft", "model.path"): ("v0.7.1", None),
}


def save_option(tag: str) -> str:
    return "--local_dir" if versions.key(tag) < versions.key("v0.6.0") else "--local_save_dir"


def rows(matrix: Matrix) -> list[tuple[str, str]]:
    """Return the branch and the identifier of one environment of each branch and engine that the recipes are for."""
    recipe = next(item for item in matrix.recipes if (item.framework, item.recipe) == ("verl", "grpo"))
    return [
        (branch.name, f"verl-{branch.name}-{engine}-cpu-aarch64")
        for branch in matrix.branches
        if branch.framework == "verl"
        for engine in branch.engines
        if engine in recipe.engines
    ]


@pytest.mark.parametrize("recipe", ["grpo", "sft"])
@pytest.mark.parametrize("nodes", [1, 2])
def test_every_option_exists_in_its_release(matrix: Matrix, recipe: str, nodes: int) -> None:
    for tag, identifier in rows(matrix):
        if recipe == "sft" and nodes > 1:
            continue
        found = made(matrix, identifier, recipe, nodes=nodes)
        assert prepared(found)[2] == save_option(tag), identifier
        for key in found.settings:
            first, final = LIVES.get((recipe, key.lstrip("+")), (None, None))
            assert versions.key(first or tag) <= versions.key(tag) <= versions.key(final or tag), (identifier, key)


def test_the_device_is_set_only_for_releases_that_need_it(matrix: Matrix) -> None:
    device = {tag: made(matrix, name, "grpo").settings.get("trainer.device") for tag, name in rows(matrix)}
    assert {tag for tag in device if device[tag] == "npu"} == {"v0.4.0", "v0.4.1", "v0.5.0", "v0.6.0", "v0.6.1"}
    device = {tag: made(matrix, name, "sft").settings.get("trainer.device") for tag, name in rows(matrix)}
    assert {tag for tag in device if device[tag] == "npu"} == {"v0.5.0", "v0.6.0", "v0.6.1"}


def test_the_attention_backend_is_set_only_where_the_engine_accepts_it(matrix: Matrix) -> None:
    """All documents set it, but vLLM 0.9.1 with the V1 engine, and 0.13.0, refuse it."""

    def with_backend(**options: bool) -> list[str]:
        found = [(tag, made(matrix, name, "grpo", **options).variables) for tag, name in rows(matrix)]
        return sorted(tag for tag, variables in found if "VLLM_ATTENTION_BACKEND" in variables)

    assert with_backend(documented=True) == ["v0.4.0", "v0.4.1", "v0.5.0", "v0.6.1", "v0.7.0", "v0.7.1"]
    assert with_backend() == ["v0.4.0", "v0.4.1", "v0.5.0", "v0.7.0"]


def test_the_server_of_the_engine_finds_its_devices(matrix: Matrix) -> None:
    """It reads a variable of its workers that Ray leaves alone for this engine."""
    training = made(matrix, "verl-v0.8.0-sglang-a3-aarch64", "grpo", npus=8)
    assert training.variables["ASCEND_RT_VISIBLE_DEVICES"] == "0,1,2,3,4,5,6,7"
    assert "ASCEND_RT_VISIBLE_DEVICES" not in made(matrix, A2_VLLM, "grpo").variables


def test_the_newer_sft_trainer_reads_conversations(matrix: Matrix) -> None:
    found = made(matrix, "verl-v0.8.0-vllm-cpu-aarch64", "sft")
    assert found.program[-1] == "verl.trainer.sft_trainer"
    assert found.settings["model.path"] == "Qwen/Qwen2.5-0.5B-Instruct"
    assert prepared(found)[1:] == [
        "/opt/envbuilder/src/verl/examples/data_preprocess/gsm8k_multiturn_sft.py",
        "--local_save_dir",
        "$HOME/data/gsm8k_sft",
    ]
    assert found.settings["data.train_files"] == "$HOME/data/gsm8k_sft/train.parquet"


def test_options_of_the_user_win(matrix: Matrix) -> None:
    settings = {"actor_rollout_ref.rollout.engine_kwargs.sglang.attention_backend": "torch", "+a.b": "c d"}
    found = made(matrix, A3_SGLANG, "grpo", model="/models/my model", data="/d", settings=settings)
    given = options(found, "verl.trainer.main_ppo")
    assert given["actor_rollout_ref.model.path"] == "/models/my model"
    assert given["+actor_rollout_ref.rollout.engine_kwargs.sglang.attention_backend"] == "torch"
    assert given["+a.b"] == "c d" and given["data.val_files"] == "/d/test.parquet"
    assert prepared(found)[-1] == "/d"
    # placeholders in values of the user are not filled in
    as_written = {"trainer.experiment_name": "a$model $$ ${oc.env:USER}"}
    assert made(matrix, A3_SGLANG, "grpo", settings=as_written).settings.items() >= as_written.items()


def test_the_folder_of_checkpoints_can_be_chosen(matrix: Matrix) -> None:
    """The document of one engine sets the folder, that of the other does not."""
    for identifier in (A3_SGLANG, V041):
        given = options(made(matrix, identifier, "grpo", output="/ckpt/a=b"), "verl.trainer.main_ppo")
        assert given["trainer.default_local_dir"] == "'/ckpt/a=b'"
    assert "trainer.default_local_dir" not in made(matrix, V041, "grpo").settings


def test_the_variables_of_the_newest_script(matrix: Matrix) -> None:
    """Ray must not set the visible devices, neither on one node nor on several."""
    for nodes in (1, 2):
        found = made(matrix, "verl-v0.9.0-vllm-a3-aarch64", "grpo", nodes=nodes)
        assert last(found).variables["RAY_EXPERIMENTAL_NOSET_ASCEND_RT_VISIBLE_DEVICES"] == "1"


def test_missing_data_is_made_and_existing_data_is_kept(tmp_path: Path) -> None:
    """An image that was built from a source archive has no program to make it, which is an error with a hint."""
    program, makes = tmp_path / "a program.py", tmp_path / "the data" / "train.parquet"
    text = data_text(Preparation(title="data", program=str(program), makes=str(makes), options={"--to": str(makes)}))

    def execute() -> Result:
        return subprocess.run(
            ["bash", "-e", "-c", f"{text}\necho trained"], capture_output=True, text=True, check=False
        )

    failed = execute()
    assert failed.returncode == 1 and failed.stdout == "" and "built with --source git" in failed.stderr
    program.write_text("import pathlib, sys; p = pathlib.Path(sys.argv[2]); p.parent.mkdir(); p.write_text('made')")
    assert (execute().stdout, makes.read_text()) == ("trained\n", "made")
    makes.write_text("kept")
    assert (execute().stdout, makes.read_text()) == ("trained\n", "kept")


def test_every_framework_has_one_usual_recipe(matrix: Matrix) -> None:
    usual = [item.framework for item in matrix.recipes if item.usual]
    assert sorted(usual) == sorted({item.framework for item in matrix.recipes})
    assert made(matrix, A2_VLLM, None).recipe.recipe == "grpo"


def test_a_reproducible_run_draws_nothing(matrix: Matrix) -> None:
    for tag, identifier in rows(matrix):
        for nodes in (1, 2):
            plain, found = (
                made(matrix, identifier, "grpo", nodes=nodes, reproducible=is_so) for is_so in (False, True)
            )
            changed = {key for key in found.settings if found.settings[key] != plain.settings.get(key)}
            rollout = "actor_rollout_ref.rollout."
            assert {f"{rollout}top_k", f"{rollout}top_p", f"{rollout}n"} <= changed | {f"{rollout}n"}, tag
            assert changed <= {f"{rollout}{name}" for name in ("top_k", "top_p", "n")} | {
                "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"
            }, tag
            assert found.settings[f"{rollout}n"] == "1"
            assert plain.draws is None and "nothing is drawn" in str(found.draws)


def test_a_recipe_without_a_reproducible_form_is_refused(matrix: Matrix) -> None:
    with pytest.raises(NoMatchError, match="'sft' has no reproducible form"):
        made(matrix, A3_SGLANG, "sft", reproducible=True)
