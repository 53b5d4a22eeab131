"""The reward of the smoke run as a worker of ROLL, which finds one by the name of its class."""

from __future__ import annotations

from typing import Any

import torch
from reward import compute_score
from roll.distributed.executor.worker import Worker
from roll.distributed.scheduler.decorator import Dispatch, register
from roll.distributed.scheduler.protocol import DataProto
from roll.models.model_providers import default_tokenizer_provider


class SmokeReward(Worker):
    def __init__(self, worker_config: Any) -> None:
        super().__init__(worker_config=worker_config)
        self.tokenizer = default_tokenizer_provider(model_args=worker_config.model_args)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def initialize(self, pipeline_config: Any) -> None:
        """Need nothing: there is no model."""

    @register(dispatch_mode=Dispatch.DP_MP_COMPUTE, clear_cache=False)
    def compute_rewards(self, data: Any) -> Any:
        answers = self.tokenizer.batch_decode(data.batch["responses"], skip_special_tokens=True)
        right = data.non_tensor_batch["answer"]
        scores = torch.tensor(
            [compute_score("", answer, wanted) for answer, wanted in zip(answers, right, strict=True)]
        )
        return DataProto.from_dict(
            tensors={
                "token_level_rewards": torch.zeros(data.batch["responses"].shape),
                "response_level_rewards": scores,
                "scores": scores.clone(),
            }
        )
