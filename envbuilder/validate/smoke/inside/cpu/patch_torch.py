"""Patches of torch."""

from __future__ import annotations

from typing import Any

from patching import after_import, wrapping


@after_import("torch")
def device_calls(torch: Any) -> None:
    """`module 'torch.cpu' has no attribute 'get_device_name'`, `empty_cache`, `max_memory_allocated` and the like."""

    def nothing(*_: Any, **__: Any) -> None:
        pass

    idle = ("empty_cache", "ipc_collect", "manual_seed", "manual_seed_all", "reset_peak_memory_stats")
    empty = ("max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved")
    missing: dict[str, Any] = {
        **dict.fromkeys(idle, nothing),
        **dict.fromkeys(empty, lambda *_, **__: 0),
        "mem_get_info": lambda *_, **__: (2**33, 2**34),
        "get_device_name": lambda *_, **__: "CPU",
        "get_rng_state": lambda *_, **__: torch.get_rng_state(),
        "set_rng_state": lambda state, *_, **__: torch.set_rng_state(state),
    }
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

    @wrapping(torch.autocast, "__init__")
    def init(original: Any, self: Any, device_type: str, *arguments: Any, **settings: Any) -> None:
        original(self, device_type, *arguments, **{**settings, "enabled": False})


@after_import("torch.distributed.distributed_c10d")
def gloo(c10d: Any) -> None:
    """A CPU has no NCCL or HCCL; `Cannot use ReduceOp.AVG with Gloo`; `allgather: invalid tensor size at index 0`."""

    @wrapping(c10d, "init_process_group")
    def init_process_group(original: Any, backend: str | None = None, *arguments: Any, **settings: Any) -> Any:
        return original("gloo" if backend else None, *arguments, **settings)

    @wrapping(c10d, "all_reduce")
    def all_reduce(
        original: Any, tensor: Any, op: Any = c10d.ReduceOp.SUM, group: Any = None, async_op: bool = False
    ) -> Any:
        if op != c10d.ReduceOp.AVG:
            return original(tensor, op=op, group=group, async_op=async_op)
        work = original(tensor, op=c10d.ReduceOp.SUM, group=group)
        tensor.div_(c10d.get_world_size(group))
        return work

    @wrapping(c10d, "all_gather")
    def all_gather(original: Any, tensors: Any, tensor: Any, group: Any = None, async_op: bool = False) -> Any:
        flat = tensor.reshape(1) if tensor.dim() == 0 and tensors and tensors[0].dim() == 1 else tensor
        return original(tensors, flat, group=group, async_op=async_op)

    @wrapping(c10d, "all_gather_into_tensor")
    def all_gather_into_tensor(original: Any, output: Any, tensor: Any, *rest: Any, **settings: Any) -> Any:
        return original(output, tensor.reshape(1) if tensor.dim() == 0 else tensor, *rest, **settings)


@after_import("torch.distributed.fsdp._init_utils")
def sync_on_cpu(fsdp: Any) -> None:
    """`ValueError: The module has CPU parameters or buffers when sync_module_states=True`; gloo can broadcast them."""
    fsdp._check_module_states_for_sync_module_states = lambda *_, **__: None
