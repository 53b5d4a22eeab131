"""Patches of vLLM."""

from __future__ import annotations

import os
from typing import Any

from patching import after_import, await_samples, version_of, wrapping


@after_import("vllm.engine.arg_utils")
def plain_attention(arguments: Any) -> None:
    """vLLM before 0.10: chunked prefill and prefix caching need intel_extension_for_pytorch; verl turns both on."""
    if os.environ.get("VLLM_USE_V1") != "0":
        return

    @wrapping(arguments.EngineArgs, "create_engine_config")
    def create_engine_config(original: Any, self: Any, *rest: Any, **settings: Any) -> Any:
        self.enable_prefix_caching = self.enable_chunked_prefill = False
        return original(self, *rest, **settings)


@after_import("vllm.engine.arg_utils")
def whole_prompts(arguments: Any) -> None:
    """vLLM 0.11 on x86_64: `No module named 'intel_extension_for_pytorch'` for prompts in chunks, which it turns off on
    Arm only; and without them, wrong answers where the cache has the beginning of a prompt."""
    if not version_of(arguments).startswith("0.11."):
        return

    @wrapping(arguments.EngineArgs, "_set_default_args")
    def set_default_args(original: Any, self: Any, *rest: Any, **settings: Any) -> None:
        original(self, *rest, **settings)
        self.enable_chunked_prefill = self.enable_prefix_caching = False


@after_import("vllm.v1.engine.core")
def whole_steps(core: Any) -> None:
    """Not a failure: with one seed each run had other samples, as vLLM computes together what has arrived."""
    if not hasattr(core.EngineCoreProc, "_process_input_queue"):
        return  # vLLM 0.7, whose older engine generates

    @wrapping(core.EngineCoreProc, "_process_input_queue")
    def process_input_queue(original: Any, self: Any) -> None:
        was_idle = not self.scheduler.has_requests()
        original(self)
        if not was_idle or not self.scheduler.has_requests():
            return

        def receive() -> bool:
            if self.input_queue.empty():
                return False
            original(self)
            return True

        await_samples(self.scheduler.get_num_unfinished_requests, receive)
        waiting = self.scheduler.waiting
        ordered = sorted(waiting, key=lambda request: list(request.prompt_token_ids))
        waiting.clear()
        waiting.extend(ordered)
