"""The commands of the source documents, which are compared with the quickstarts."""

from __future__ import annotations

# as the program gets them from the shell, without quotes
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
# two lines of the first version of the document that later versions lack
SEED_002_FIRST = "actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B-Instruct trainer.experiment_name=qwen2_7b_function_rm"
# the script that the document names, which leaves the places of model and checkpoints to the reader
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
# the scripts of the branch; by the document of OpenRLHF they are started as on other devices
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
