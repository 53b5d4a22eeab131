"""Patches that let a framework made for accelerators train on a CPU. None of them is active in a run on NPUs.

Each patch quotes the failure that it prevents, and is applied right after its module was imported, so that the
trainer, the workers and the losses remain those of upstream.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import importlib
import importlib.metadata
import os
from collections.abc import Callable
from typing import Any

Patch = Callable[[Any], None]
PATCHES: dict[str, list[Patch]] = {}
# Modules that cannot be imported while the module of the key is executed: verl 0.6.1 and later import the
# mixture-of-experts models of vLLM without using them. `module 'triton.language' has no attribute 'exp'` (vLLM 0.11),
# `Parameter block_size has unsupported type list[int]` (vLLM 0.9 with torch 2.5).
_EXPERTS = ("deepseek_v2", "mixtral", "qwen2_moe", "qwen3_moe", "qwen3_vl_moe", "qwen3_next", "qwen3_5", "kimi_vl")
HIDDEN_FROM = {"verl.utils.vllm.patch": [f"vllm.model_executor.models.{name}" for name in _EXPERTS]}


def _version(module: Any) -> str:
    return importlib.metadata.version(module.__name__.partition(".")[0])


def after_import(module: str) -> Callable[[Patch], Patch]:
    def register(patch: Patch) -> Patch:
        PATCHES.setdefault(module, []).append(patch)
        return patch

    return register


@after_import("torch")
def device_calls(torch: Any) -> None:
    """`module 'torch.cpu' has no attribute 'get_device_name'`, `empty_cache`, `max_memory_allocated` and the like."""

    def nothing(*_: Any, **__: Any) -> None:
        pass

    def zero(*_: Any, **__: Any) -> int:
        return 0

    idle = ("empty_cache", "ipc_collect", "manual_seed", "manual_seed_all", "reset_peak_memory_stats")
    empty = ("max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved")
    missing: dict[str, Any] = {**dict.fromkeys(idle, nothing), **dict.fromkeys(empty, zero)}
    missing["mem_get_info"] = lambda *_, **__: (2**33, 2**34)
    missing["get_device_name"] = lambda *_, **__: "CPU"
    missing["get_rng_state"] = lambda *_, **__: torch.get_rng_state()
    missing["set_rng_state"] = lambda state, *_, **__: torch.set_rng_state(state)
    for name, function in missing.items():
        if not hasattr(torch.cpu, name):
            setattr(torch.cpu, name, function)
    torch.cpu.set_device = nothing


@after_import("torch")
def pinned_memory(torch: Any) -> None:
    """`RuntimeError: CPU device type not an accelerator.` when the reference model is offloaded."""
    torch.Tensor.pin_memory = lambda self, *_, **__: self


@after_import("torch")
def autocast(torch: Any) -> None:
    """Not a failure: bfloat16 is emulated on most CPUs and ten times slower than float32."""
    original = torch.autocast.__init__

    @functools.wraps(original)
    def init(self: Any, device_type: str, *arguments: Any, **settings: Any) -> None:
        original(self, device_type, *arguments, **{**settings, "enabled": False})

    torch.autocast.__init__ = init


@after_import("torch.distributed.distributed_c10d")
def gloo(c10d: Any) -> None:
    """A CPU has no NCCL or HCCL; `Cannot use ReduceOp.AVG with Gloo`; `allgather: invalid tensor size at index 0`."""
    start, reduce, gather, gather_into = (
        c10d.init_process_group, c10d.all_reduce, c10d.all_gather, c10d.all_gather_into_tensor,
    )  # fmt: skip

    @functools.wraps(start)
    def init_process_group(backend: str | None = None, *arguments: Any, **settings: Any) -> Any:
        return start("gloo" if backend else None, *arguments, **settings)

    @functools.wraps(reduce)
    def all_reduce(tensor: Any, op: Any = c10d.ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Any:
        if op != c10d.ReduceOp.AVG:
            return reduce(tensor, op=op, group=group, async_op=async_op)
        work = reduce(tensor, op=c10d.ReduceOp.SUM, group=group)
        tensor.div_(c10d.get_world_size(group))
        return work

    @functools.wraps(gather)
    def all_gather(tensors: Any, tensor: Any, group: Any = None, async_op: bool = False) -> Any:
        flat = tensor.reshape(1) if tensor.dim() == 0 and tensors and tensors[0].dim() == 1 else tensor
        return gather(tensors, flat, group=group, async_op=async_op)

    @functools.wraps(gather_into)
    def all_gather_into_tensor(output: Any, tensor: Any, group: Any = None, async_op: bool = False) -> Any:
        return gather_into(output, tensor.reshape(1) if tensor.dim() == 0 else tensor, group=group, async_op=async_op)

    c10d.init_process_group, c10d.all_reduce = init_process_group, all_reduce
    c10d.all_gather, c10d.all_gather_into_tensor = all_gather, all_gather_into_tensor


@after_import("torch.distributed.fsdp._init_utils")
def sync_on_cpu(fsdp: Any) -> None:
    """`ValueError: The module has CPU parameters or buffers when sync_module_states=True`; gloo can broadcast them."""
    fsdp._check_module_states_for_sync_module_states = lambda *_, **__: None


@after_import("verl.utils.device")
def backend_name(device: Any) -> None:
    """verl returns `nccl`, or raises, on a machine without an accelerator."""
    device.get_nccl_backend = lambda: "gloo"


@after_import("verl.utils.memory_utils")
def garbage(memory: Any) -> None:
    """Not a failure: verl 0.6 and later collect garbage up to nine times in a step, to free memory of a device; a CPU
    has no such memory, and collecting takes as long as the step."""
    memory.aggressive_empty_cache = lambda *_, **__: None


@after_import("verl.workers.sharding_manager.base")
def timing(base: Any) -> None:
    """verl 0.4: `'BaseShardingManager' object has no attribute 'timing'` on its own path with HF generation."""
    if not hasattr(base.BaseShardingManager, "timing"):
        base.BaseShardingManager.timing = {}


@after_import("verl.workers.rollout.base")
def rollout(base: Any) -> None:
    """verl 0.6: HF generation is shipped but not registered; 0.6.0 asks for an event loop before one is set."""
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
    if not _version(hf_rollout).startswith("0.5."):
        return
    original = hf_rollout.HFRollout._generate_minibatch

    @functools.wraps(original)
    def generate(self: Any, prompts: Any) -> Any:
        kept = self.config
        self.config = copy.deepcopy(kept)
        self.config.n = 1
        try:
            return original(self, prompts)
        finally:
            self.config = kept

    hf_rollout.HFRollout._generate_minibatch = generate


@after_import("verl.plugin.platform.platform_manager")
def platform(manager: Any) -> None:
    """verl 0.9: `No engine registered for device='cpu'`; it has no platform for a CPU."""
    import platform_cpu

    manager.PlatformRegistry.register(platform="smoke")(platform_cpu.make(manager.PlatformBase))


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
