"""Generates with SGLang alone."""

from __future__ import annotations


def generate(model: str, prompts: list[list[int]], tokens: int, devices: int) -> list[list[int]]:
    from sglang.srt.entrypoints.engine import Engine

    engine = Engine(
        model_path=model,
        # it warns where it goes on with the model of transformers
        log_level="warning",
        device="npu",
        attention_backend="ascend",
        dtype="float32",
        context_length=512,
        mem_fraction_static=0.5,
        max_total_tokens=8192,
        max_running_requests=len(prompts),
        chunked_prefill_size=2048,
        tp_size=devices,
    )
    sampling = {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True}
    answers = engine.generate(input_ids=prompts, sampling_params=sampling)
    engine.shutdown()
    # older releases give the last tokens of the prompt too
    return [list(answer["output_ids"][-tokens:]) for answer in answers]
