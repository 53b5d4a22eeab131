"""Patches of torch."""

from __future__ import annotations

import functools
from typing import Any

from patching import after_import


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
