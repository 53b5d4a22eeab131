"""The operators of torch_npu that engines and DeepSpeed call, in plain torch over the memory of the stand-in.

Each takes the arguments of the real one and writes where it writes. What is not written here raises
NotImplementedError or stays torch_npu's, which fails under its name. There is no autograd: engines infer, and the
optimizer has its gradients.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import torch
from host_kernels import KEY, host_view, on_device
from torch import Tensor

# how often each operator ran, for the report of a run
calls: Counter[str] = Counter()
_UNLIMITED = 2**31 - 1
_libraries: dict[str, torch.library.Library] = {}


def _numbers(values: Tensor | Sequence[int]) -> list[int]:
    listed = host_view(values).tolist() if isinstance(values, Tensor) else values
    return [int(value) for value in listed]


def _refuse(operator: str, what: object) -> NotImplementedError:
    return NotImplementedError(f"stand-in of CANN: {operator} with {what}")


# --- attention --------------------------------------------------------------------------------------------------------


def attend(query: Tensor, cached: Iterable[Tensor], scale: float, *, causal: bool, window: int | None = None) -> Tensor:
    """Return the attention of one sequence: tokens, heads, width. The last query belongs to the last key."""
    key, value = cached
    queries, heads, _ = query.shape
    keys, groups, _ = key.shape
    if heads != groups:
        key, value = (item.repeat_interleave(heads // groups, 1) for item in (key, value))
    scores = torch.einsum("qhd,khd->hqk", query.float(), key.float()) * scale
    if causal or window is not None:
        ago = torch.arange(keys - queries, keys)[:, None] - torch.arange(keys)[None, :]
        hidden = ago < 0 if causal else torch.zeros_like(ago, dtype=torch.bool)
        if window is not None:
            hidden = hidden | (ago > window)
        scores = scores.masked_fill(hidden, float("-inf"))
    return torch.einsum("hqk,khd->qhd", torch.softmax(scores, -1), value.float()).to(query.dtype)


def _cached(cache: Tensor, blocks: Tensor, length: int, heads: int) -> Tensor:
    """Return the first tokens of one sequence from a cache of blocks."""
    size = cache.shape[1]
    used = blocks[: -(-length // size)].long()
    return cache[used].reshape(len(used) * size, heads, -1)[:length]


def _fused_infer_attention_score(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    atten_mask: Tensor | None = None,
    actual_seq_lengths: Sequence[int] | None = None,
    actual_seq_lengths_kv: Sequence[int] | None = None,
    block_table: Tensor | None = None,
    num_heads: int = 1,
    scale: float = 1.0,
    pre_tokens: int = _UNLIMITED,
    next_tokens: int = _UNLIMITED,
    input_layout: str = "BSH",
    num_key_value_heads: int = 0,
    sparse_mode: int = 0,
    block_size: int = 0,
    softmax_lse_flag: bool = False,
    workspace: Tensor | None = None,
    **others: Any,
) -> tuple[Tensor, Tensor]:
    given = [name for name, item in others.items() if isinstance(item, Tensor)]
    if given or softmax_lse_flag:
        raise _refuse("npu_fused_infer_attention_score", given or "softmax_lse_flag")
    wide, keys, values = host_view(query), host_view(key), host_view(value)
    groups = num_key_value_heads or num_heads
    lengths = _numbers(actual_seq_lengths) if actual_seq_lengths is not None else None
    key_lengths = _numbers(actual_seq_lengths_kv) if actual_seq_lengths_kv is not None else None
    result = torch.zeros(wide.shape, dtype=wide.dtype)
    # the engines use these modes with a mask of the past only
    causal = sparse_mode in {2, 3, 4}
    window = pre_tokens if pre_tokens < _UNLIMITED and sparse_mode in {0, 4} else None
    pairs = _sequences(wide, result, input_layout, num_heads, lengths)
    for number, (part, target) in enumerate(pairs):
        if not len(part):
            continue
        if block_table is not None:
            assert key_lengths is not None
            blocks = host_view(block_table)[number]
            caches = (_by_token(cache, groups, block_size) for cache in (keys, values))
            own = [_cached(cache, blocks, key_lengths[number], groups) for cache in caches]
        else:
            own = [_uncached(item, input_layout, number, groups, key_lengths) for item in (keys, values)]
        target[: len(part)] = attend(part, own, scale, causal=causal, window=window)
    return on_device(result, query.device), torch.zeros(1, device=query.device)


def _sequences(
    query: Tensor, result: Tensor, layout: str, heads: int, lengths: list[int] | None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the queries of each sequence and the part of the result that they fill, as tokens, heads, width."""
    if layout == "TND":
        assert lengths is not None
        both = (query.reshape(len(query), heads, -1), result.view(len(query), heads, -1))
        for first, last in pairwise((0, *lengths)):
            yield both[0][first:last], both[1][first:last]
    elif layout in {"BSH", "BSND"}:
        batch, tokens = query.shape[:2]
        both = (query.reshape(batch, tokens, heads, -1), result.view(batch, tokens, heads, -1))
        for number in range(batch):
            yield both[0][number], both[1][number]
    elif layout == "BNSD":
        for number in range(len(query)):
            yield query[number].transpose(0, 1), result[number].transpose(0, 1)
    else:
        raise _refuse("npu_fused_infer_attention_score", f"layout {layout}")


def _by_token(cache: Tensor, heads: int, block_size: int) -> Tensor:
    """Return a cache with the tokens of a block before its heads."""
    heads_first = cache.dim() == 4 and cache.shape[1:3] == (heads, block_size) and heads != block_size
    return cache.transpose(1, 2) if heads_first else cache


def _uncached(item: Tensor, layout: str, number: int, heads: int, lengths: list[int] | None) -> Tensor:
    """Return the keys or values of one sequence."""
    if layout == "TND":
        assert lengths is not None
        first, last = (0, *lengths)[number : number + 2]
        return item.reshape(len(item), heads, -1)[first:last]
    if layout == "BNSD":
        return item[number, :, : lengths[number] if lengths else None].transpose(0, 1)
    own = item[number, : lengths[number] if lengths else None]
    return own.reshape(len(own), heads, -1)


def _fused_infer_attention_score_out(
    query: Tensor, key: Tensor, value: Tensor, *, out: Sequence[Tensor], **options: Any
) -> tuple[Tensor, Tensor]:
    result, _ = _fused_infer_attention_score(query, key, value, **options)
    host_view(out[0]).copy_(host_view(result).view(out[0].shape))
    return out[0], out[1]


def _reshape_and_cache(
    key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_indices: Tensor
) -> None:
    slots = host_view(slot_indices).long()
    kept = slots >= 0
    for new, cache in ((host_view(key), host_view(key_cache)), (host_view(value), host_view(value_cache))):
        flat = cache.view(cache.shape[0] * cache.shape[1], *cache.shape[2:])
        flat[slots[kept]] = new[: len(slots)][kept].reshape(-1, *cache.shape[2:]).to(cache.dtype)


def _scatter_pa_kv_cache(
    key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor, **options: Any
) -> None:
    _reshape_and_cache(key, value, key_cache, value_cache, slot_mapping)


def _paged_attention(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    num_kv_heads: int,
    num_heads: int,
    scale_value: float,
    block_table: Tensor,
    context_lens: Tensor,
    out: Tensor,
    *,
    workspace: Tensor | None = None,
) -> None:
    wide, target, blocks = host_view(query), host_view(out), host_view(block_table)
    for number, length in enumerate(_numbers(context_lens)[: len(wide)]):
        if length:
            caches = (host_view(cache) for cache in (key_cache, value_cache))
            own = (_cached(cache, blocks[number], length, num_kv_heads) for cache in caches)
            made = attend(wide[number].reshape(1, num_heads, -1), own, scale_value, causal=False)
            target[number] = made.reshape(target[number].shape)


def _flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    seq_len: Tensor,
    scale_value: float,
    num_heads: int,
    num_kv_heads: int,
    out: Tensor,
) -> None:
    wide, keys, values, target = map(host_view, (query, key, value, out))
    first = 0
    for length in _numbers(seq_len):
        part = slice(first, first + length)
        own = (item[part].reshape(length, num_kv_heads, -1) for item in (keys, values))
        made = attend(wide[part].reshape(length, num_heads, -1), own, scale_value, causal=True)
        target[part] = made.reshape(target[part].shape)
        first += length


def _flash_attention_qlens(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_table: Tensor,
    mask: Tensor | None,
    seq_len: Tensor,
    context_lens: Tensor,
    num_kv_heads: int,
    num_heads: int,
    scale_value: float,
    out: Tensor,
) -> None:
    wide, target, blocks = map(host_view, (query, out, block_table))
    first = 0
    for number, (length, whole) in enumerate(zip(_numbers(seq_len), _numbers(context_lens), strict=False)):
        part = slice(first, first + length)
        caches = (host_view(cache) for cache in (key_cache, value_cache))
        own = (_cached(cache, blocks[number], whole, num_kv_heads) for cache in caches)
        made = attend(wide[part].reshape(length, num_heads, -1), own, scale_value, causal=True)
        target[part] = made.reshape(target[part].shape)
        first += length


def _paged_attention_splitfuse(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_table: Tensor,
    context_lens: Tensor,
    mask: Tensor | None,
    seq_len: Tensor,
    *others: Any,
) -> None:
    _flash_attention_qlens(query, key_cache, value_cache, block_table, mask, seq_len, context_lens, *others)


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
    positions: Tensor,
    query: Tensor,
    key: Tensor,
    cos_sin_cache: Tensor,
    head_size: int,
    *,
    mrope_section: Sequence[int] | None = None,
    rotary_mode: str = "half",
) -> tuple[Tensor, Tensor]:
    if mrope_section and any(mrope_section):
        raise _refuse("npu_mrope", "sections")
    query, key = query.clone(), key.clone()
    _rotary_embedding(positions, query, key, head_size, cos_sin_cache, rotary_mode == "half")
    return query, key


def rope_forward_triton(
    q: Tensor,
    k: Tensor,
    cos: Tensor | None = None,
    sin: Tensor | None = None,
    cos_sin_cache: Tensor | None = None,
    positions: Tensor | None = None,
    rope_dim: int = -1,
    is_neox_style: bool = True,
) -> tuple[Tensor, Tensor]:
    """Take the place of vllm-ascend's triton kernel of that name."""
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
    beta1_power: float,
    beta2_power: float,
    lr: float,
    weight_decay: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    grad: Tensor,
    max_grad_norm: Tensor | None,
    amsgrad: bool | None,
    maximize: bool | None,
    *,
    out: Sequence[Tensor],
) -> tuple[Tensor, ...]:
    """Make one step of AdamW. The powers are those of the step before."""
    if amsgrad:
        raise _refuse("npu_apply_adam_w", "amsgrad")
    weight, mean, square = map(host_view, out)
    gradient = host_view(grad).to(mean.dtype) * (-1 if maximize else 1)
    mean.mul_(beta1).add_(gradient, alpha=1 - beta1)
    square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
    root = (square / (1 - beta2_power * beta2)).sqrt() + epsilon
    step = mean / (1 - beta1_power * beta1) / root
    weight.mul_(1 - lr * weight_decay).sub_((lr * step).to(weight.dtype))
    return tuple(out)


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Fetch ahead: there is nothing to gain."""


_OPERATORS: dict[str, Callable[..., Any]] = {
    "npu::npu_fused_infer_attention_score": _fused_infer_attention_score,
    "npu::npu_fused_infer_attention_score.out": _fused_infer_attention_score_out,
    "npu::npu_scatter_pa_kv_cache": _scatter_pa_kv_cache,
    "npu::npu_mrope": _mrope,
    "npu::npu_top_k_top_p": _top_k_top_p,
    "npu::npu_apply_adam_w.out": _apply_adam_w,
    "npu::npu_prefetch": _nothing,
    "atb::_npu_reshape_and_cache": _reshape_and_cache,
    "atb::_npu_paged_attention": _paged_attention,
    "atb::_npu_flash_attention": _flash_attention,
    "atb::_npu_flash_attention_qlens": _flash_attention_qlens,
    "atb::_npu_paged_attention_splitfuse": _paged_attention_splitfuse,
    "atb::_npu_rotary_embedding": _rotary_embedding,
    "atb::_npu_matmul_add_fp32": _matmul_add_fp32,
}
# of vllm-ascend's own extension, which the vendor's compiler makes; its sampler asks for this one whatever was compiled
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
