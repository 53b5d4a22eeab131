"""Patches of verl."""

from __future__ import annotations

import asyncio
import copy
import importlib
import importlib.util
from typing import Any

from patching import HIDDEN_FROM, after_import, version_of, wrapping

# verl 0.6.1 and later import the mixture-of-experts models of vLLM without using them.
# `module 'triton.language' has no attribute 'exp'` (vLLM 0.11),
# `Parameter block_size has unsupported type list[int]` (vLLM 0.9 with torch 2.5).
_EXPERTS = ("deepseek_v2", "mixtral", "qwen2_moe", "qwen3_moe", "qwen3_vl_moe", "qwen3_next", "qwen3_5", "kimi_vl")
HIDDEN_FROM["verl.utils.vllm.patch"] = [f"vllm.model_executor.models.{name}" for name in _EXPERTS]


@after_import("verl.utils.device")
def backend_name(device: Any) -> None:
    """verl returns `nccl`, or raises, on a machine without an accelerator."""
    device.get_nccl_backend = lambda: "gloo"


@after_import("verl.utils.memory_utils")
def garbage(memory: Any) -> None:
    """Not a failure: verl 0.6 and later collect garbage up to nine times in a step, to free memory of a device. A CPU
    has no such memory, and collecting takes as long as the step."""
    memory.aggressive_empty_cache = lambda *_, **__: None


@after_import("verl.workers.sharding_manager.base")
def timing(base: Any) -> None:
    """verl 0.4: `'BaseShardingManager' object has no attribute 'timing'` on its own path with HF generation."""
    if not hasattr(base.BaseShardingManager, "timing"):
        base.BaseShardingManager.timing = {}


@after_import("verl.workers.rollout.base")
def rollout(base: Any) -> None:
    """verl 0.6: HF generation is shipped but not registered; 0.6.0 gets the event loop before one is set."""
    original = asyncio.get_event_loop

    def get_event_loop() -> asyncio.AbstractEventLoop:
        try:
            return original()
        except RuntimeError:
            asyncio.set_event_loop(asyncio.new_event_loop())
            return original()

    asyncio.get_event_loop = get_event_loop
    registry = getattr(base, "_ROLLOUT_REGISTRY", None)
    if registry is not None:
        registry.setdefault(("hf", "sync"), "hf_rollout.HFSyncRollout")
        registry.setdefault(("smoke", "async"), "server_rollout.Sender")


@after_import("verl.workers.rollout.replica")
def rollout_server(replica: Any) -> None:
    """verl 0.7 and later: only servers of engines are registered, and `rollout.mode=sync` is refused."""
    registry = getattr(replica, "RolloutReplicaRegistry", None)
    if registry is not None:
        registry.register("smoke", lambda: importlib.import_module("server_rollout").Replica)


@after_import("verl.workers.rollout.hf_rollout")
def samples(hf_rollout: Any) -> None:
    """verl 0.5: `Two tensor dict must have identical batch size. Got 64 and 512`. The trainer repeats the prompts, and
    this rollout repeats them again."""
    if not version_of(hf_rollout).startswith("0.5."):
        return

    @wrapping(hf_rollout.HFRollout, "_generate_minibatch")
    def generate(original: Any, self: Any, prompts: Any) -> Any:
        kept = self.config
        self.config = copy.deepcopy(kept)
        self.config.n = 1
        try:
            return original(self, prompts)
        finally:
            self.config = kept


@after_import("verl.workers.rollout.hf_rollout")
def draws(hf_rollout: Any) -> None:
    """Not a failure: with these draws another device has the same samples."""

    @wrapping(hf_rollout.HFRollout, "generate_sequences")
    def generate_sequences(original: Any, *arguments: Any, **settings: Any) -> Any:
        with importlib.import_module("draws").drawn_on_the_cpu():
            return original(*arguments, **settings)


@after_import("verl.plugin.platform.platform_manager")
def platform(manager: Any) -> None:
    """verl 0.9: `No engine registered for device='cpu'`; it has no platform for a CPU."""
    import platform_cpu

    manager.PlatformRegistry.register(platform="smoke")(platform_cpu.make(manager.PlatformBase))


@after_import("verl.utils.device")
def visible_devices(device: Any) -> None:
    """`invalid literal for int() with base 10: ''`: it reads the variable of CUDA, and Ray sets that of an NPU."""
    device.get_visible_devices_keyword = lambda: "ASCEND_RT_VISIBLE_DEVICES"


@after_import("verl.utils.device")
def device_number(device: Any) -> None:
    """verl 0.8: `Invalid device string: 'cpu:cpu'`."""
    if version_of(device).startswith("0.8."):
        import platform_cpu

        device.get_device_id = lambda: platform_cpu.Device("cpu")


@after_import("verl.utils.attention_utils")
def padding(attention: Any) -> None:
    """verl 0.8: `No module named 'flash_attn'`: without torch_npu it takes padding from flash_attn. For an NPU it has
    its own, which is plain torch."""
    if importlib.util.find_spec("verl.utils.npu_flash_attn_utils") is None:
        return

    def functions() -> tuple[Any, ...]:
        own = importlib.import_module("verl.utils.npu_flash_attn_utils")
        return own.index_first_axis, own.pad_input, own.rearrange, own.unpad_input

    attention._get_attention_functions = functions


@after_import("verl.workers.engine.base")
def engines(base: Any) -> None:
    """verl 0.8: `Unknown device: cpu for model_type: language_model and backend: fsdp`."""
    if not version_of(base).startswith("0.8."):
        return
    original = base.EngineRegistry.register.__func__

    def register(cls: Any, model_type: str, backend: Any, device: Any = "cuda") -> Any:
        devices = device if isinstance(device, list) else [device]
        return original(cls, model_type, backend, [*devices, "cpu"])

    base.EngineRegistry.register = classmethod(register)


@after_import("verl.workers.rollout.vllm_rollout.utils")
def device_of_the_engine(utils: Any) -> None:
    """verl 0.7.1 and 0.8: `NotImplementedError` in vLLM, whose CPU has no identifier to name the socket for weights.
    Then `AssertionError` before the weights are received: a worker for CPUs has no device."""
    utils.get_device_uuid = lambda _: "CPU"
    receiver = getattr(utils, "vLLMColocateWorkerExtension", None)
    if not hasattr(receiver, "update_weights_from_ipc"):
        return

    @wrapping(receiver, "update_weights_from_ipc")
    def update_weights_from_ipc(original: Any, self: Any, *arguments: Any, **settings: Any) -> Any:
        self.device = utils.torch.device("cpu")
        return original(self, *arguments, **settings)


@after_import("verl.workers.rollout.vllm_rollout.vllm_rollout_spmd")
def sleep_mode(spmd: Any) -> None:
    """verl 0.4: `Sleep mode is only supported on CUDA devices.`; later releases have a setting for it."""
    if not version_of(spmd).startswith("0.4."):
        return

    class Awake(spmd.LLM):
        def __init__(self, *arguments: Any, **settings: Any) -> None:
            super().__init__(*arguments, **{**settings, "enable_sleep_mode": False})

        def sleep(self, **_: Any) -> None:
            pass

        wake_up = sleep

    spmd.LLM = Awake
