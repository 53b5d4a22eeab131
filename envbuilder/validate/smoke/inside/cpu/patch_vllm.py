"""Patches of vLLM."""

from __future__ import annotations

import functools
import os
from typing import Any

from patching import after_import, await_samples, version_of


@after_import("vllm.engine.arg_utils")
def plain_attention(arguments: Any) -> None:
    """vLLM before 0.10: chunked prefill and prefix caching need intel_extension_for_pytorch; verl turns both on."""
    if os.environ.get("VLLM_USE_V1") != "0":
        return
    original = arguments.EngineArgs.create_engine_config

    @functools.wraps(original)
    def create_engine_config(self: Any, *rest: Any, **settings: Any) -> Any:
        self.enable_prefix_caching = self.enable_chunked_prefill = False
        return original(self, *rest, **settings)

    arguments.EngineArgs.create_engine_config = create_engine_config


@after_import("vllm.engine.arg_utils")
def whole_prompts(arguments: Any) -> None:
    """vLLM 0.11 on x86_64: `No module named 'intel_extension_for_pytorch'` for prompts in chunks, which it turns off by
    itself on Arm only; and without them, wrong answers where the cache has the beginning of a prompt."""
    if not version_of(arguments).startswith("0.11."):
        return
    original = arguments.EngineArgs._set_default_args

    @functools.wraps(original)
    def set_default_args(self: Any, *rest: Any, **settings: Any) -> None:
        original(self, *rest, **settings)
        self.enable_chunked_prefill = self.enable_prefix_caching = False

    arguments.EngineArgs._set_default_args = set_default_args


@after_import("vllm.v1.engine.core")
def whole_steps(core: Any) -> None:
    """Not a failure: with one seed each run had other samples, as those that have arrived are computed together."""
    original = getattr(core.EngineCoreProc, "_process_input_queue", None)
    if original is None:
        return  # vLLM 0.7, whose older engine generates

    @functools.wraps(original)
    def process_input_queue(self: Any) -> None:
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

    core.EngineCoreProc._process_input_queue = process_input_queue
