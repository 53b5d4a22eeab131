"""The commands of the source documents, option by option; what follows from counts and releases; what is refused."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from envbuilder.errors import EnvbuilderError, HostError, NoMatchError, UsageError
from envbuilder.matrix import Matrix, load
from envbuilder.quickstart.choose import Training, Wish, training_of
from envbuilder.quickstart.steps import Network, Step, inside, steps_of
from tests.conftest import A3_SGLANG, OPENRLHF, PODC_VLLM, Edit, environment

V041 = "verl-v0.4.1-vllm-atlas-900-a2-podc-aarch64"
V040 = "verl-v0.4.0-vllm-atlas-800t-a2-aarch64"
OPENRLHF_062 = "openrlhf-v0.6.2-vllm-atlas-800t-a2-aarch64"

# as a shell hands them to the program: quotes are gone
SEED_002 = """
algorithm.adv_estimator=grpo data.train_files=$HOME/data/gsm8k/train.parquet data.val_files=$HOME/data/gsm8k/test.parquet
data.train_batch_size=128 data.max_prompt_length=512 data.max_response_length=128 data.filter_overlong_prompts=True
data.truncation=error actor_rollout_ref.actor.optim.lr=5e-7 actor_rollout_ref.model.use_remove_padding=False
actor_rollout_ref.actor.entropy_coeff=0.001 actor_rollout_ref.actor.ppo_mini_batch_size=64
actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=20 actor_rollout_ref.actor.use_kl_loss=True
actor_rollout_ref.actor.kl_loss_coef=0.001 actor_rollout_ref.actor.kl_loss_type=low_var_kl
actor_rollout_ref.model.enable_gradient_checkpointing=True actor_rollout_ref.actor.fsdp_config.param_offload=False
actor_rollout_ref.actor.fsdp_config.optimizer_offload=False actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=40
actor_rollout_ref.rollout.enable_chunked_prefill=False actor_rollout_ref.rollout.tensor_model_parallel_size=2
actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.gpu_memory_utilization=0.6 actor_rollout_ref.rollout.n=5
actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=40 actor_rollout_ref.ref.fsdp_config.param_offload=True
algorithm.kl_ctrl.kl_coef=0.001 trainer.critic_warmup=0 trainer.logger=[console]
trainer.project_name=verl_grpo_example_gsm8k trainer.n_gpus_per_node=8 trainer.nnodes=1 trainer.save_freq=-1
trainer.test_freq=5 trainer.total_epochs=1 trainer.device=npu
"""
# the document left two lines out that its first version has
SEED_002_FIRST = "actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B-Instruct trainer.experiment_name=qwen2_7b_function_rm"
# the script that the document names; where model and checkpoints lie is left to the reader there
SEED_003 = """
algorithm.adv_estimator=grpo data.train_files=$HOME/data/gsm8k/train.parquet data.val_files=$HOME/data/gsm8k/test.parquet
data.train_batch_size=16 data.max_prompt_length=512 data.max_response_length=1024 data.filter_overlong_prompts=True
data.truncation=error actor_rollout_ref.model.path=Qwen/Qwen3-8B actor_rollout_ref.actor.optim.lr=1e-6
actor_rollout_ref.model.use_remove_padding=True actor_rollout_ref.actor.ppo_mini_batch_size=16
actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 actor_rollout_ref.actor.use_kl_loss=True
actor_rollout_ref.actor.entropy_coeff=0 actor_rollout_ref.actor.kl_loss_coef=0.001
actor_rollout_ref.actor.kl_loss_type=low_var_kl actor_rollout_ref.actor.use_torch_compile=False
actor_rollout_ref.model.enable_gradient_checkpointing=True actor_rollout_ref.actor.fsdp_config.param_offload=True
actor_rollout_ref.actor.fsdp_config.optimizer_offload=True actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=2
actor_rollout_ref.rollout.tensor_model_parallel_size=4 actor_rollout_ref.rollout.name=sglang
actor_rollout_ref.rollout.gpu_memory_utilization=0.3 actor_rollout_ref.rollout.n=5
+actor_rollout_ref.rollout.engine_kwargs.sglang.attention_backend=ascend
actor_rollout_ref.ref.fsdp_config.param_offload=True actor_rollout_ref.rollout.enable_chunked_prefill=False
actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=2 actor_rollout_ref.nccl_timeout=1800
algorithm.use_kl_in_reward=False trainer.critic_warmup=0 trainer.logger=console trainer.val_before_train=False
trainer.project_name=verl_grpo_example_512_1024_gsm8k trainer.experiment_name=qwen3_8b_function_rm
trainer.n_gpus_per_node=4 trainer.nnodes=1 trainer.save_freq=1000 trainer.test_freq=10000 trainer.total_epochs=5
trainer.default_local_dir=checkpoints actor_rollout_ref.actor.ulysses_sequence_parallel_size=4
actor_rollout_ref.ref.ulysses_sequence_parallel_size=4 trainer.device=npu
"""
SEED_004_SFT = """
data.train_files=$HOME/data/gsm8k/train.parquet data.val_files=$HOME/data/gsm8k/test.parquet data.prompt_key=extra_info
data.response_key=extra_info data.train_batch_size=512 optim.lr=1e-4 +data.prompt_dict_keys=[question]
+data.response_dict_keys=[answer] data.micro_batch_size_per_gpu=4 model.partial_pretrain=Qwen/Qwen2.5-0.5B-Instruct
trainer.default_local_dir=/save trainer.project_name=gsm8k-sft
trainer.experiment_name=gsm8k-sft-qwen-2.5-0.5b-instruct trainer.logger=[console] trainer.total_epochs=1
trainer.default_hdfs_dir=null model.lora_rank=32 model.lora_alpha=16 model.target_modules=all-linear
"""
SEED_004_GRPO = """
algorithm.adv_estimator=grpo data.train_files=$HOME/data/gsm8k/train.parquet data.val_files=$HOME/data/gsm8k/test.parquet
data.train_batch_size=16 data.max_prompt_length=512 data.max_response_length=1024 data.filter_overlong_prompts=True
data.truncation=error actor_rollout_ref.model.path=Qwen/Qwen2-7B-Instruct actor_rollout_ref.actor.optim.lr=5e-7
critic.optim.lr=9e-6 actor_rollout_ref.actor.ppo_max_token_len_per_gpu=2048
actor_rollout_ref.model.use_remove_padding=False actor_rollout_ref.actor.ppo_mini_batch_size=64
actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 actor_rollout_ref.actor.use_kl_loss=True
actor_rollout_ref.actor.kl_loss_coef=0.001 actor_rollout_ref.actor.kl_loss_type=low_var_kl
actor_rollout_ref.model.enable_gradient_checkpointing=True actor_rollout_ref.actor.fsdp_config.param_offload=False
actor_rollout_ref.actor.fsdp_config.optimizer_offload=False actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=80
actor_rollout_ref.rollout.tensor_model_parallel_size=4 actor_rollout_ref.rollout.name=vllm
actor_rollout_ref.rollout.gpu_memory_utilization=0.2 actor_rollout_ref.rollout.n=5
actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=80 actor_rollout_ref.ref.fsdp_config.param_offload=True
actor_rollout_ref.rollout.enable_chunked_prefill=False algorithm.kl_ctrl.kl_coef=0.001 trainer.critic_warmup=0
trainer.logger=[console,wandb] trainer.project_name=verl_grpo_example_gsm8k trainer.experiment_name=qwen2_7b_function_rm
trainer.n_gpus_per_node=8 trainer.nnodes=2 trainer.save_freq=-1 trainer.test_freq=5 trainer.total_epochs=15
"""
# the scripts of the branch, which the document of OpenRLHF says are started as on other devices
OPENRLHF_GRPO = """
--ref_num_nodes 1 --ref_num_gpus_per_node 1 --reward_num_nodes 1 --reward_num_gpus_per_node 1 --actor_num_nodes 1
--actor_num_gpus_per_node 4 --vllm_num_engines 2 --vllm_tensor_parallel_size 1 --pretrain OpenRLHF/Llama-3-8b-sft-mixture
--reward_pretrain OpenRLHF/Llama-3-8b-rm-700k --save_path /openrlhf/examples/test_scripts/checkpoint/llama3-8b-rlhf
--micro_train_batch_size 16 --train_batch_size 128 --micro_rollout_batch_size 32 --rollout_batch_size 1024
--n_samples_per_prompt 8 --max_epochs 1 --prompt_max_len 1024 --max_samples 100000 --generate_max_len 1024
--init_kl_coef 1e-3 --gamma 1.0 --use_kl_loss --kl_estimator k3 --advantage_estimator group_norm --zero_stage 3 --bf16
--actor_learning_rate 5e-7 --prompt_data OpenRLHF/prompt-collection-v0.1 --input_key context_messages
--apply_chat_template --normalize_reward --adam_offload --gradient_checkpointing --packing_samples --save_steps -1
--ckpt_path /openrlhf/examples/test_scripts/ckpt/llama3-8b-rlhf
"""
OPENRLHF_SFT = """
--max_len 2048 --dataset Open-Orca/OpenOrca --input_key question --output_key response --train_batch_size 256
--micro_train_batch_size 2 --max_samples 500000 --pretrain meta-llama/Meta-Llama-3-8B --save_path ./checkpoint/llama3-8b-sft
--save_steps -1 --logging_steps 1 --eval_steps -1 --zero_stage 2 --max_epochs 1 --bf16 --flash_attn --learning_rate 5e-6
--load_checkpoint --gradient_checkpointing
"""


def made(matrix: Matrix, identifier: str, recipe: str, **wish: Any) -> Training:
    return training_of(matrix, environment(matrix, identifier), recipe, Wish(**wish))


def last(training: Training) -> Step:
    return inside(training, Network())[-1]


def split(text: str) -> list[str]:
    """As a shell does it, for which a backslash at the end of a line is nothing."""
    return shlex.split(text.replace("\\\n", ""))


def words(training: Training) -> list[str]:
    return split(last(training).command)


def mapping(texts: list[str]) -> dict[str, str]:
    """Options and their values; a switch has none. Each option occurs once."""
    found: dict[str, str] = {}
    for position, text in enumerate(texts):
        key, equals, value = text.partition("=")
        if text.startswith("--"):
            after = texts[position + 1 : position + 2]
            key, equals, value = text, "=", after[0] if after and not after[0].startswith("--") else ""
        if equals:
            assert key not in found
            found[key] = value
    return found


def options(training: Training, program: str) -> dict[str, str]:
    """What stands behind the module of the trainer."""
    said = words(training)
    return mapping(said[said.index(program) + 1 :])


def prepared(training: Training) -> list[str]:
    (step,) = [step for step in inside(training, Network()) if "data_preprocess" in step.command]
    return split(step.command)


# --- the documents ---------------------------------------------------------------------------------------


def test_seed_002(matrix: Matrix) -> None:
    found = made(matrix, V041, "grpo")
    assert options(found, "verl.trainer.main_ppo") == mapping((SEED_002 + SEED_002_FIRST).split())
    assert words(found)[:3] == ["python3", "-m", "verl.trainer.main_ppo"]
    assert last(found).variables == {"VLLM_ATTENTION_BACKEND": "XFORMERS"}
    assert found.departures == ()
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


def test_seed_004_grpo_as_verl_takes_it(matrix: Matrix) -> None:
    """The document has values that every release of these rows refuses; each is told."""
    found = made(matrix, V040, "grpo", nodes=2)
    documented = mapping(SEED_004_GRPO.split())
    said = options(found, "verl.trainer.main_ppo")
    assert {key: value for key, value in said.items() if documented.get(key) != value} == {
        "actor_rollout_ref.actor.ppo_mini_batch_size": "16",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": "5",
        "trainer.device": "npu",
        "trainer.logger": "[console]",
    }
    assert documented.keys() <= said.keys() and len(found.departures) == 3
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
    (start,) = [split(step.command) for step in inside(found, Network()) if step.command.startswith("ray start")]
    assert start == ["ray", "start", "--head", "--port", "6379", '--resources={"NPU": 8}']


def test_seed_001_on_more_nodes(matrix: Matrix) -> None:
    found = made(matrix, OPENRLHF, "grpo", nodes=2)
    steps = {step.where: split(step.command) for step in inside(found, Network()) if "--resources" in step.command}
    assert steps["head"][:5] == ["ray", "start", "--head", "--port", "6379"]
    assert steps["worker"][:3] == ["ray", "start", "--address=MASTER-NODE-ADDRESS:6379"]
    said = options(found, "openrlhf.cli.train_ppo_ray")
    changed = {key for key, value in mapping(OPENRLHF_GRPO.split()).items() if said[key] != value}
    assert changed == {"--ref_num_nodes", "--reward_num_nodes", "--actor_num_nodes", "--vllm_num_engines"}


def test_the_older_script_of_openrlhf_asks_for_one_answer(matrix: Matrix) -> None:
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


# --- counts and releases ---------------------------------------------------------------------------------


def test_two_devices_on_two_nodes(matrix: Matrix) -> None:
    """Tested with 2 and 8, says the document."""
    found = options(made(matrix, V040, "grpo", nodes=2, npus=2), "verl.trainer.main_ppo")
    assert found["trainer.n_gpus_per_node"] == "2" and found["trainer.nnodes"] == "2"
    assert found["actor_rollout_ref.rollout.tensor_model_parallel_size"] == "2"


def test_several_nodes_with_the_other_engine(matrix: Matrix) -> None:
    found = made(matrix, A3_SGLANG, "grpo", nodes=2)
    said, documented = options(found, "verl.trainer.main_ppo"), mapping(SEED_003.split())
    assert {key for key in said if said[key] != documented.get(key)} == {"trainer.nnodes"}
    variables = last(found).variables
    assert variables["HCCL_CONNECT_TIMEOUT"] == "3600", "several nodes wait longer than the script for one says"
    assert variables["RAY_EXPERIMENTAL_NOSET_ASCEND_RT_VISIBLE_DEVICES"] == "1", "of the row"
    assert variables["RAY_ADDRESS"] == "auto"


# option: the first and the last tag whose configuration has it; any that is not here, all of them have.
# verl-project/verl at each tag: verl/trainer/config/ppo_trainer.yaml or _generated_ppo_trainer.yaml, sft_trainer.yaml up
# to v0.7.0, sft_trainer_engine.yaml with model/hf_model.yaml after it, examples/data_preprocess/gsm8k.py
TAGS = ["v0.4.0", "v0.4.1", "v0.5.0", "v0.6.0", "v0.6.1", "v0.7.0", "v0.7.1", "v0.8.0", "v0.9.0"]
LIVES = {
    ("grpo", "actor_rollout_ref.nccl_timeout"): ("v0.6.0", None),
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
SAVE = {tag: "--local_dir" if TAGS.index(tag) < TAGS.index("v0.6.0") else "--local_save_dir" for tag in TAGS}


def rows(matrix: Matrix) -> list[tuple[str, str]]:
    """One environment of each branch and engine."""
    return [
        (branch.name, f"verl-{branch.name}-{engine}-cpu-aarch64")
        for branch in matrix.branches
        if branch.framework == "verl"
        for engine in branch.engines
    ]


@pytest.mark.parametrize("recipe", ["grpo", "sft"])
@pytest.mark.parametrize("nodes", [1, 2])
def test_every_option_is_one_of_its_release(matrix: Matrix, recipe: str, nodes: int) -> None:
    assert {tag for tag, _ in rows(matrix)} == set(TAGS)
    for tag, identifier in rows(matrix):
        if recipe == "sft" and nodes > 1:
            continue
        found = made(matrix, identifier, recipe, nodes=nodes)
        assert prepared(found)[2] == SAVE[tag], identifier
        for key in found.settings:
            first, final = LIVES.get((recipe, key.lstrip("+")), (None, None))
            assert TAGS.index(first or TAGS[0]) <= TAGS.index(tag) <= TAGS.index(final or TAGS[-1]), (identifier, key)


def test_what_a_release_does_by_itself_is_not_said(matrix: Matrix) -> None:
    device = {tag: made(matrix, name, "grpo").settings.get("trainer.device") for tag, name in rows(matrix)}
    assert [tag for tag in TAGS if device[tag] == "npu"] == TAGS[: TAGS.index("v0.7.0")]
    device = {tag: made(matrix, name, "sft").settings.get("trainer.device") for tag, name in rows(matrix)}
    assert [tag for tag in TAGS if device[tag] == "npu"] == ["v0.5.0", "v0.6.0", "v0.6.1"]
    attention = [tag for tag, name in rows(matrix) if "VLLM_ATTENTION_BACKEND" in made(matrix, name, "grpo").variables]
    assert sorted(attention) == ["v0.4.0", "v0.4.1", "v0.5.0", "v0.6.1", "v0.7.0", "v0.7.1"]


def test_the_newer_trainer_learns_from_conversations(matrix: Matrix) -> None:
    found = made(matrix, "verl-v0.8.0-vllm-cpu-aarch64", "sft")
    assert found.program[-1] == "verl.trainer.sft_trainer"
    assert found.settings["model.path"] == "Qwen/Qwen2.5-0.5B-Instruct"
    assert prepared(found)[1:] == [
        "/opt/envbuilder/src/verl/examples/data_preprocess/gsm8k_multiturn_sft.py",
        "--local_save_dir",
        "$HOME/data/gsm8k_sft",
    ]
    assert found.settings["data.train_files"] == "$HOME/data/gsm8k_sft/train.parquet"


def test_the_users_word_is_last(matrix: Matrix) -> None:
    settings = {"actor_rollout_ref.rollout.engine_kwargs.sglang.attention_backend": "torch", "+a.b": "c d"}
    found = made(matrix, A3_SGLANG, "grpo", model="/models/my model", data="/d", settings=settings)
    said = options(found, "verl.trainer.main_ppo")
    assert said["actor_rollout_ref.model.path"] == "/models/my model"
    assert said["+actor_rollout_ref.rollout.engine_kwargs.sglang.attention_backend"] == "torch"
    assert said["+a.b"] == "c d" and said["data.val_files"] == "/d/test.parquet"
    assert prepared(found)[-1] == "/d"


# --- what is refused -------------------------------------------------------------------------------------

MINI = "actor_rollout_ref.actor.ppo_mini_batch_size"
MICRO = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"
TENSOR = "actor_rollout_ref.rollout.tensor_model_parallel_size"
SEQUENCE = "actor_rollout_ref.actor.ulysses_sequence_parallel_size"


@pytest.mark.parametrize(
    ("identifier", "recipe", "wish", "kind", "words"),
    [
        (V041, "grpo", {"settings": {"data.train_batch_size": "127"}}, UsageError, "is 635, which devices, 8, does not divide"),
        (V041, "grpo", {"settings": {MINI: "256"}}, UsageError, "is 128, and .*ppo_mini_batch_size is 256"),
        (V041, "grpo", {"settings": {MINI: "48"}}, UsageError, "whole mini batches"),
        (V041, "grpo", {"settings": {MICRO: "16"}}, UsageError, "whole micro batches"),
        (V041, "grpo", {"settings": {"actor_rollout_ref.rollout.n": "3"}}, UsageError, "whole micro batches"),
        (V041, "grpo", {"npus": 1}, UsageError, "npus is 1, and .*tensor_model_parallel_size is 2"),
        (V041, "grpo", {"settings": {TENSOR: "3"}}, UsageError, "whole copies of the model"),
        (V041, "grpo", {"settings": {TENSOR: "0"}}, UsageError, "at least 1, not '0'"),
        (V041, "grpo", {"npus": 9}, HostError, "Atlas 900 A2 PODc has 8 NPUs, and not 9"),
        (A3_SGLANG, "grpo", {"npus": 5}, HostError, "1 of them or whole cards: 5 are neither"),
        (A3_SGLANG, "grpo", {"npus": 18}, HostError, "Atlas 800T A3 has 16 NPUs, and not 18"),
        (A3_SGLANG, "grpo", {"npus": 8, "settings": {SEQUENCE: "3"}}, UsageError, "spread over a part of the devices"),
        (V040, "sft", {"settings": {"data.train_batch_size": "500"}}, UsageError, "every device gets the same"),
        (V040, "sft", {"settings": {"data.micro_batch_size_per_gpu": "5"}}, UsageError, "whole micro batches"),
        (V040, "sft", {"nodes": 2}, UsageError, "is for 1 node"),
        (OPENRLHF, "grpo", {"npus": 4}, UsageError, "stand side by side"),
        (OPENRLHF, "grpo", {"settings": {"rollout_batch_size": "1022"}}, UsageError, "same number of prompts"),
        (OPENRLHF, "sft", {"settings": {"train_batch_size": "250"}}, UsageError, "whole micro batches"),
        (OPENRLHF, "dpo", {}, NoMatchError, "has no recipe 'dpo'"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused(
    matrix: Matrix, identifier: str, recipe: str, wish: dict[str, Any], kind: type[EnvbuilderError], words: str
) -> None:
    with pytest.raises(kind, match=words):
        made(matrix, identifier, recipe, **wish)


def test_what_there_is_is_told(matrix: Matrix, edit: Edit) -> None:
    with pytest.raises(NoMatchError) as caught:
        made(matrix, PODC_VLLM, "ppo")
    assert caught.value.hint == "it has: grpo, sft"
    changed = load(edit("recipes/verl-grpo.yaml", "engines: [vllm, sglang]", "engines: [sglang]"))
    with pytest.raises(NoMatchError, match="is not for vLLM") as caught:
        made(changed, PODC_VLLM, "grpo")
    assert caught.value.hint == "it is for --engine sglang"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("by: devices\n", "by: devises\n", "'devises' is no setting of this recipe"),
        ("source: asserts\n", "source: assert\n", "there is no source 'assert'"),
        ("engines: [vllm, sglang]", "engines: [vllm, sgland]", "did you mean 'sglang'"),
        ("when: {engine: [vllm]}", "when: {engine: [vlm]}", "did you mean 'vllm'"),
        ("recipe: grpo", "recipe: sft", "'sft' of verl is in"),
        ("npus: 8", "npu: 8", "the key 'npus' is missing"),
    ],
)
def test_mistakes_in_a_recipe_are_found(edit: Edit, old: str, new: str, words: str) -> None:
    folder = edit("recipes/verl-grpo.yaml", old, new)
    with pytest.raises(EnvbuilderError, match=words):
        load(folder, everything=True)


def test_the_steps_of_several_nodes_are_in_order(matrix: Matrix) -> None:
    found = steps_of(made(matrix, PODC_VLLM, "grpo", nodes=4, npus=4), Network("10.0.0.1", "bond0"), "some/image:1")
    assert [step.where for step in found] == ["all", "all", "head", "worker", "head", "head"]
    head, worker = found[2], found[3]
    assert head.variables == worker.variables
    assert {head.variables[f"{name}_SOCKET_IFNAME"] for name in ("HCCL", "GLOO", "TP")} == {"bond0"}
    assert "--node-ip-address=10.0.0.1" in head.command and "--address=10.0.0.1:6379" in worker.command
    assert '"nodes": 4' in found[4].command and found[5].variables["RAY_ADDRESS"] == "auto"
