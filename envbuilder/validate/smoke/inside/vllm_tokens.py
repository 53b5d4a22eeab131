"""Generates with vLLM alone."""

from __future__ import annotations

import os


def generate(model: str, prompts: list[list[int]], tokens: int, devices: int) -> list[list[int]]:
    from vllm import LLM, SamplingParams
    from vllm.engine.arg_utils import EngineArgs

    # releases with two engines refuse float32 in the newer one, which can compute it; other types round
    if os.environ.get("VLLM_USE_V1") == "1" and hasattr(EngineArgs, "_is_v1_supported_oracle"):
        EngineArgs._is_v1_supported_oracle = lambda *_: True

    engine = LLM(
        model,
        enforce_eager=True,
        dtype="float32",
        max_model_len=512,
        max_num_seqs=len(prompts),
        gpu_memory_utilization=0.3,
        tensor_parallel_size=devices,
    )
    sampling = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True)
    answers = engine.generate([{"prompt_token_ids": prompt} for prompt in prompts], sampling, use_tqdm=False)
    return [list(answer.outputs[0].token_ids) for answer in answers]
