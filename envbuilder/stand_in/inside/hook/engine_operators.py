"""The operators of torch_npu that engines, Megatron and DeepSpeed call, in plain torch over the memory of the stand-in.

Each takes the arguments of the real operator and writes to the same tensors. A missing case raises
NotImplementedError; a missing operator stays torch_npu's, which fails under its name. There is no autograd: engines
infer, and the optimizer has its gradients.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import npu_attention
import torch
import training_attention
from host_kernels import KEY, host_view, on_device
from npu_attention import refuse
from torch import Tensor

# how often each operator ran, for the report of a run
calls: Counter[str] = Counter()
_libraries: dict[str, torch.library.Library] = {}


# --- positions --------------------------------------------------------------------------------------------------------


def _rotated(item: Tensor, cosine: Tensor, sine: Tensor, *, halves: bool) -> Tensor:
    width = cosine.shape[-1] * 2
    turned, rest = item[..., :width].float(), item[..., width:]
    one, two = turned.chunk(2, -1) if halves else (turned[..., ::2], turned[..., 1::2])
    one, two = one * cosine - two * sine, two * cosine + one * sine
    both = torch.cat((one, two), -1) if halves else torch.stack((one, two), -1).flatten(-2)
    return torch.cat((both.to(item.dtype), rest), -1)


def _rotary_embedding(
    positions: Tensor, query: Tensor, key: Tensor, head_size: int, cos_sin_cache: Tensor, is_neox_style: bool = True
) -> None:
    rows = host_view(cos_sin_cache)[host_view(positions).long().flatten()]
    cosine, sine = (part.float()[:, None] for part in rows.chunk(2, -1))
    for item in (host_view(query), host_view(key)):
        turned = _rotated(item.reshape(len(cosine), -1, head_size), cosine, sine, halves=is_neox_style)
        item.copy_(turned.reshape(item.shape))


def _mrope(
    positions: Tensor, query: Tensor, key: Tensor, cos_sin_cache: Tensor, head_size: int, *,
    mrope_section: Sequence[int] | None = None, rotary_mode: str = "half",
) -> tuple[Tensor, Tensor]:  # fmt: skip
    if mrope_section and any(mrope_section):
        raise refuse("npu_mrope", "sections")
    query, key = query.clone(), key.clone()
    _rotary_embedding(positions, query, key, head_size, cos_sin_cache, rotary_mode == "half")
    return query, key


def rope_forward_triton(
    q: Tensor, k: Tensor, cos: Tensor | None = None, sin: Tensor | None = None, cos_sin_cache: Tensor | None = None,
    positions: Tensor | None = None, rope_dim: int = -1, is_neox_style: bool = True,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Replace the triton kernel of vllm-ascend with this name."""
    calls["rope_forward_triton"] += 1
    q, k = q.contiguous(), k.contiguous()
    if cos_sin_cache is not None:
        assert positions is not None
        rows = host_view(cos_sin_cache)[host_view(positions).long().flatten()]
        cosine, sine = (part.float()[:, None] for part in rows.chunk(2, -1))
    else:
        assert cos is not None
        assert sin is not None
        cosine, sine = (host_view(part).reshape(len(q), 1, -1).float() for part in (cos, sin))
        if rope_dim not in {-1, cosine.shape[-1] * 2}:
            cosine, sine = cosine[..., : rope_dim // 2], sine[..., : rope_dim // 2]
    for item in (host_view(q), host_view(k)):
        item.copy_(_rotated(item, cosine, sine, halves=is_neox_style))
    return q, k


# --- sampling and training --------------------------------------------------------------------------------------------


def _top_k_top_p(logits: Tensor, p: Tensor | None = None, k: Tensor | None = None) -> Tensor:
    wide = host_view(logits).clone()
    ordered, places = wide.float().sort(-1)
    if k is not None:
        first = wide.shape[-1] - host_view(k).long().clamp(1, wide.shape[-1])
        ordered = ordered.masked_fill(ordered < ordered.gather(1, first[:, None]), float("-inf"))
    if p is not None:
        unlikely = torch.softmax(ordered, -1).cumsum(-1) <= 1 - host_view(p).float()[:, None]
        unlikely[:, -1] = False
        ordered = ordered.masked_fill(unlikely, float("-inf"))
    return on_device(wide.scatter_(1, places, ordered.to(wide.dtype)), logits.device)


def _matmul_add_fp32(x: Tensor, weight: Tensor, c: Tensor) -> None:
    one, two = host_view(x).float(), host_view(weight).float()
    host_view(c).add_(one.t() @ two if len(one) == len(two) else one @ two.t())


def _apply_adam_w(
    beta1_power: float, beta2_power: float, lr: float, weight_decay: float, beta1: float, beta2: float, epsilon: float,
    grad: Tensor, max_grad_norm: Tensor | None, amsgrad: bool | None, maximize: bool | None, *, out: Sequence[Tensor],
) -> tuple[Tensor, ...]:  # fmt: skip
    """Make one step of AdamW. The powers are those of the previous step."""
    if amsgrad:
        raise refuse("npu_apply_adam_w", "amsgrad")
    weight, mean, square = map(host_view, out)
    gradient = host_view(grad).to(mean.dtype) * (-1 if maximize else 1)
    mean.mul_(beta1).add_(gradient, alpha=1 - beta1)
    square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
    root = (square / (1 - beta2_power * beta2)).sqrt() + epsilon
    step = mean / (1 - beta1_power * beta1) / root
    weight.mul_(1 - lr * weight_decay).sub_((lr * step).to(weight.dtype))
    return tuple(out)


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Do not prefetch: the memory of the host is always near."""


_OPERATORS: dict[str, Callable[..., Any]] = {
    "npu::npu_fused_infer_attention_score": npu_attention.fused_infer_attention_score,
    "npu::npu_fused_infer_attention_score.out": npu_attention.fused_infer_attention_score_out,
    "npu::npu_fusion_attention": training_attention.fusion_attention,
    "npu::npu_fusion_attention_grad": training_attention.fusion_attention_grad,
    "npu::npu_scatter_pa_kv_cache": npu_attention.scatter_pa_kv_cache,
    "npu::npu_mrope": _mrope,
    "npu::npu_top_k_top_p": _top_k_top_p,
    "npu::npu_apply_adam_w.out": _apply_adam_w,
    "npu::npu_prefetch": _nothing,
    "atb::_npu_reshape_and_cache": npu_attention.reshape_and_cache,
    "atb::_npu_paged_attention": npu_attention.paged_attention,
    "atb::_npu_flash_attention": npu_attention.flash_attention,
    "atb::_npu_flash_attention_qlens": npu_attention.flash_attention_qlens,
    "atb::_npu_paged_attention_splitfuse": npu_attention.paged_attention_splitfuse,
    "atb::_npu_rotary_embedding": _rotary_embedding,
    "atb::_npu_matmul_add_fp32": _matmul_add_fp32,
}
# an operator of vllm-ascend's extension, which only the vendor's compiler makes; its sampler always needs this operator
_EXTENSION = "npu_apply_top_k_top_p(Tensor logits, Tensor? p=None, Tensor? k=None) -> Tensor"


def install() -> None:
    """Replace the operators in the dispatcher of this process."""
    # older releases of torch_npu load these operators at the first call, and would undo the replacement
    with suppress(ImportError, OSError):
        from torch_npu.op_plugin.atb._atb_ops import _register_atb_extensions

        _register_atb_extensions()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, function in _OPERATORS.items():
            space, _, short = name.partition("::")
            if torch._C._jit_get_schemas_for_operator(name.partition(".")[0]):
                library = _libraries.setdefault(space, torch.library.Library(space, "IMPL"))
                library.impl(short, _counted(name, function), KEY)
        extension = _libraries.setdefault("_C_ascend", torch.library.Library("_C_ascend", "FRAGMENT"))
        extension.define(_EXTENSION)
        short = _EXTENSION.partition("(")[0]
        extension.impl(short, _counted(f"_C_ascend::{short}", _top_k_top_p), KEY)


def _counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        calls[name] += 1
        return function(*args, **kwargs)

    return kernel
