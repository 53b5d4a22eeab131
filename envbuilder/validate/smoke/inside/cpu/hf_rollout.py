"""A rollout with HF generation for verl 0.6, whose registry no longer has one; verl's own update sends the weights."""

from __future__ import annotations

from typing import Any

import torch
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.hf_rollout import HFRollout


class HFSyncRollout(BaseRollout):
    def __init__(self, config: Any, model_config: Any, device_mesh: Any) -> None:
        from transformers import AutoModelForCausalLM

        super().__init__(config, model_config, device_mesh)
        self.module = AutoModelForCausalLM.from_pretrained(
            model_config.local_path, torch_dtype=torch.float32, attn_implementation="eager"
        )

    async def resume(self, tags: Any) -> None:
        pass

    async def release(self) -> None:
        pass

    async def update_weights(self, weights: Any, **_: Any) -> None:
        self.module.load_state_dict({name: tensor.detach().float() for name, tensor in weights}, strict=True)

    generate_sequences = HFRollout.generate_sequences
    _generate_minibatch = HFRollout._generate_minibatch
