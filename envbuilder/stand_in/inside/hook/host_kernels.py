"""Makes torch's operators on device `npu` compute on the host, over the memory of the stand-in.

In the dispatcher, the kernels that torch_npu registers for its device are replaced with torch's CPU kernels over a CPU
tensor that shares the memory. Everything above the dispatcher is unchanged: autograd, FSDP, the code of frameworks and
engines. The numbers are those of a CPU. An operator for which torch has no CPU kernel stays torch_npu's, and fails.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch_npu  # noqa: F401  registers what is replaced here
from torch.utils._pytree import tree_map

KEY, AUTOGRAD_KEY = "PrivateUse1", "AutogradPrivateUse1"
# torch_npu.contrib.transfer_to_npu replaces these classes with functions
_Device, _Generator = torch.device, torch.Generator
# operators for memory and metadata, for which the kernels of torch_npu are right
_KEPT = (
    "_pin_memory", "_reshape_alias", "as_strided", "empty", "get_npu_format", "is_pinned", "new_empty",
    "npu_change_data_ptr", "record_stream", "resize_", "set_", "view",
)  # fmt: skip
# torch forgets registrations when their library object is collected
_libraries = {space: torch.library.Library(space, "IMPL") for space in ("aten", "npu")}

Kernel = Callable[..., Any]


def host_view(tensor: torch.Tensor) -> torch.Tensor:
    """Return a CPU tensor over the memory of an NPU tensor; other tensors are returned as they are."""
    if not _is_npu(tensor):
        return tensor
    storage = tensor.untyped_storage()
    count = storage.nbytes() // tensor.element_size()
    if not tensor.numel():
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype)
    if not count:
        raise RuntimeError("stand-in of CANN: the memory of a tensor was freed before its use")
    memory = (ctypes.c_char * storage.nbytes()).from_address(storage.data_ptr())
    flat = torch.frombuffer(memory, dtype=tensor.dtype, count=count)
    return flat.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())


def on_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a copy of a CPU tensor on an NPU."""
    made = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=device)
    host_view(made).copy_(tensor)
    return made


def _is_npu(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "npu"


class _Call:
    """One call of an operator: replaces NPU tensors with views on the host, and results with tensors on the NPU."""

    def __init__(self) -> None:
        self.device: torch.device | None = None
        self._originals: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def lower(self, value: Any) -> Any:
        if _is_npu(value):
            self.device = self.device or value.device
            view = host_view(value)
            # the view is kept, so that no other tensor gets its id
            self._originals[id(view)] = (value, view)
            return view
        if isinstance(value, _Device) and value.type == "npu":
            self.device = value
            return _Device("cpu")
        if isinstance(value, _Generator) and value.device.type == "npu":
            return None
        return value

    def lift(self, value: Any) -> Any:
        if self.device is None or not isinstance(value, torch.Tensor) or value.device.type != "cpu":
            return value
        if id(value) in self._originals:
            return self._originals[id(value)][0]
        return on_device(value, self.device)


def _wide(index: Any) -> Any:
    return index.long() if isinstance(index, torch.Tensor) and index.dtype == torch.int32 else index


def _on_host(operator: Any) -> Kernel:
    """Return a kernel that runs the CPU kernel of an operator."""
    arguments = operator._schema.arguments
    outputs = {argument.name for argument in arguments if argument.is_out}
    indices = {position for position, argument in enumerate(arguments) if argument.name == "index"}

    def kernel(*args: Any, **kwargs: Any) -> Any:
        call = _Call()
        given = {name: kwargs.pop(name) for name in outputs & kwargs.keys()}
        args, kwargs = tree_map(call.lower, args), tree_map(call.lower, kwargs)
        if indices:
            # an NPU takes indices of either size, a CPU those of 64 bits
            args = tuple(_wide(value) if position in indices else value for position, value in enumerate(args))
        if not given:
            return tree_map(call.lift, operator(*args, **kwargs))
        if any(isinstance(value, list | tuple) for value in given.values()):
            # lists of outputs have their final sizes
            operator(*args, **kwargs, **tree_map(call.lower, given))
            return None
        results = {name: torch.empty(0, dtype=value.dtype) for name, value in given.items()}
        operator(*args, **kwargs, **results)
        for name, value in given.items():
            if value.size() != results[name].size():
                value.resize_(results[name].size())
            host_view(value).copy_(results[name])
        values = tuple(given.values())
        return values if len(values) > 1 else values[0]

    return kernel


# --- copies between the host and the device, and between types ------------------------------------------------------


def _copy_(self: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    host_view(self).copy_(host_view(source))
    return self


def _copy_from(self: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    return _copy_(target, self)


def _copy_from_and_resize(self: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    if target.size() != self.size():
        target.resize_(self.size())
    return _copy_(target, self)


def _to_copy(
    self: torch.Tensor, *, dtype: torch.dtype | None = None, device: torch.device | None = None,
    memory_format: torch.memory_format | None = None, **others: Any,
) -> torch.Tensor:  # fmt: skip
    made = torch.empty_like(
        self, dtype=dtype or self.dtype, device=device or self.device,
        memory_format=memory_format or torch.preserve_format,
    )  # fmt: skip
    return _copy_(made, self)


def _plain_attention(*args: Any, **kwargs: Any) -> int:
    """Choose the attention that torch computes with other operators."""
    return 0


_COPIES: dict[str, Kernel] = {
    "copy_": _copy_,
    "_copy_from": _copy_from,
    "_copy_from_and_resize": _copy_from_and_resize,
    "_to_copy": _to_copy,
    "_fused_sdp_choice": _plain_attention,
}


# --- operators for which torch_npu has its own autograd, over kernels that only an NPU has --------------------------


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, self: torch.Tensor, dim: int, index: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(index)
        ctx.dim, ctx.shape = dim, self.shape
        with torch._C._AutoDispatchBelowAutograd():
            return torch.ops.aten.gather.default(self, dim, index)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (gradient,), (index,) = gradients, ctx.saved_tensors
        nothing = torch.zeros(ctx.shape, dtype=gradient.dtype, device=gradient.device)
        return nothing.scatter_add(ctx.dim, index, gradient), None, None


def _gather(self: torch.Tensor, dim: int, index: torch.Tensor, *, sparse_grad: bool = False) -> Any:
    return _Gather.apply(self, dim, index)


def _binary_cross_entropy_with_logits(
    self: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None = None,
    pos_weight: torch.Tensor | None = None, reduction: int = 1,
) -> torch.Tensor:  # fmt: skip
    positive = torch.nn.functional.softplus(-self)
    if pos_weight is not None:
        positive = positive * (1 + (pos_weight - 1) * target)
    loss = (1 - target) * self + positive
    if weight is not None:
        loss = loss * weight
    return (loss, loss.mean(), loss.sum())[reduction] if reduction in {1, 2} else loss


# --- fused operators of torch_npu that trainers call, made of torch's operators, which have autograd -----------------


def _rms_norm(self: torch.Tensor, gamma: torch.Tensor, epsilon: float = 1e-6) -> tuple[torch.Tensor, torch.Tensor]:
    wide = self.float()
    factor = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + epsilon)
    return (wide * factor).to(self.dtype) * gamma, factor


def _add_rms_norm(
    one: torch.Tensor, two: torch.Tensor, gamma: torch.Tensor, epsilon: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    both = one + two
    normal, factor = _rms_norm(both, gamma, epsilon)
    return normal, factor, both


def _rotary_mul(
    self: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor, rotary_mode: str = "half"
) -> torch.Tensor:
    if rotary_mode != "half":
        raise NotImplementedError(f"stand-in of CANN: npu_rotary_mul with rotary_mode {rotary_mode}")
    one, two = self.chunk(2, -1)
    return self * cosine + torch.cat((-two, one), -1) * sine


def _swiglu(self: torch.Tensor, dim: int = -1) -> torch.Tensor:
    one, two = self.chunk(2, dim)
    return torch.nn.functional.silu(one) * two


def _cross_entropy_loss(
    input: torch.Tensor,  # noqa: A002  the name of the operator's argument
    target: torch.Tensor, weight: torch.Tensor | None = None, reduction: str = "mean", ignore_index: int = -100,
    label_smoothing: float = 0.0, lse_square_scale_for_zloss: float = 0.0, return_zloss: bool = False,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    if label_smoothing or lse_square_scale_for_zloss or return_zloss:
        raise NotImplementedError("stand-in of CANN: npu_cross_entropy_loss with label smoothing or z-loss")
    logarithms = torch.log_softmax(input.float(), -1)
    loss = torch.nn.functional.nll_loss(logarithms, target, weight, reduction=reduction, ignore_index=ignore_index)
    nothing = torch.zeros((), device=input.device)
    return loss, logarithms, nothing, nothing


def _same(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """Cast to a memory format; there is only one."""
    return self


def _dtype_cast(self: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return self.to(dtype)


_FUSED: dict[str, Kernel] = {
    "npu_rms_norm": _rms_norm,
    "npu_add_rms_norm": _add_rms_norm,
    "npu_rotary_mul": _rotary_mul,
    "npu_swiglu": _swiglu,
    "npu_cross_entropy_loss": _cross_entropy_loss,
    "npu_format_cast": _same,
    "npu_format_cast_": _same,
    "npu_dtype_cast": _dtype_cast,
    "_npu_dtype_cast": _dtype_cast,
}


# --- the replacement ------------------------------------------------------------------------------------------------


def install() -> None:
    """Replace the kernels of torch_npu in the dispatcher of this process."""
    registered = {key: set(torch._C._dispatch_get_registrations_for_dispatch_key(key)) for key in (KEY, AUTOGRAD_KEY)}
    with warnings.catch_warnings():
        # torch warns about every kernel that is replaced
        warnings.simplefilter("ignore")
        for name in sorted(registered[KEY] | registered[AUTOGRAD_KEY]):
            if name.startswith("aten::"):
                _replace(name, registered)
        for short, kernel in _COPIES.items():
            if f"aten::{short}" not in registered[KEY]:
                _libraries["aten"].impl(short, kernel, KEY)
        _libraries["aten"].impl("gather", _gather, AUTOGRAD_KEY)
        _libraries["aten"].impl("binary_cross_entropy_with_logits", _binary_cross_entropy_with_logits, AUTOGRAD_KEY)
        for short, kernel in _FUSED.items():
            _replace_fused(short, kernel)


def _replace(name: str, registered: dict[str, set[str]]) -> None:
    short = name.removeprefix("aten::")
    packet, _, overload = short.partition(".")
    operator = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
    if operator is None:
        return
    library = _libraries["aten"]
    composite = torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd")
    is_view = any(item.alias_info and not item.alias_info.is_write for item in operator._schema.returns)
    if packet in _COPIES:
        library.impl(short, _COPIES[packet], KEY)
    elif packet.startswith(_KEPT) or (is_view and not composite):
        return
    elif composite:
        for key in (KEY, AUTOGRAD_KEY):
            if key == AUTOGRAD_KEY or name in registered[key]:
                library.impl(short, _decomposed(operator), key)
    elif name in registered[KEY] and torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, "CPU"):
        library.impl(short, _on_host(operator), KEY)


def _decomposed(operator: Any) -> Kernel:
    """Return a kernel that computes an operator with the operators that torch composes it of."""
    # the decomposition in C++: that in Python makes the result of a matmul a view, which loses the hooks of FSDP
    return partial(operator._op_dk, torch._C.DispatchKey.CompositeImplicitAutograd)


def _replace_fused(short: str, kernel: Kernel) -> None:
    packet = getattr(torch.ops.npu, short, None)
    for overload in packet.overloads() if packet is not None else ():
        name = short if overload == "default" else f"{short}.{overload}"
        for key in (KEY, AUTOGRAD_KEY):
            _libraries["npu"].impl(name, kernel, key)
