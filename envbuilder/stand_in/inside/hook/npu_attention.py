"""The attention of engines on an NPU, in plain torch over the memory of the stand-in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

import torch
from host_kernels import host_view, on_device
from torch import Tensor

UNLIMITED = 2**31 - 1


def refuse(operator: str, what: object) -> NotImplementedError:
    return NotImplementedError(f"stand-in of CANN: {operator} with {what}")


def _numbers(values: Tensor | Sequence[int]) -> list[int]:
    listed = host_view(values).tolist() if isinstance(values, Tensor) else values
    return [int(value) for value in listed]


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


def fused_infer_attention_score(
    query: Tensor, key: Tensor, value: Tensor, *, atten_mask: Tensor | None = None,
    actual_seq_lengths: Sequence[int] | None = None, actual_seq_lengths_kv: Sequence[int] | None = None,
    block_table: Tensor | None = None, num_heads: int = 1, scale: float = 1.0, pre_tokens: int = UNLIMITED,
    next_tokens: int = UNLIMITED, input_layout: str = "BSH", num_key_value_heads: int = 0, sparse_mode: int = 0,
    block_size: int = 0, softmax_lse_flag: bool = False, workspace: Tensor | None = None, **others: Any,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    given = [name for name, item in others.items() if isinstance(item, Tensor)]
    if given or softmax_lse_flag:
        raise refuse("npu_fused_infer_attention_score", given or "softmax_lse_flag")
    wide, keys, values = host_view(query), host_view(key), host_view(value)
    groups = num_key_value_heads or num_heads
    lengths = _numbers(actual_seq_lengths) if actual_seq_lengths is not None else None
    key_lengths = _numbers(actual_seq_lengths_kv) if actual_seq_lengths_kv is not None else None
    result = torch.zeros(wide.shape, dtype=wide.dtype)
    # the engines use these modes with a mask of the past only
    causal = sparse_mode in {2, 3, 4}
    window = pre_tokens if pre_tokens < UNLIMITED and sparse_mode in {0, 4} else None
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
        queries, results = query.reshape(len(query), heads, -1), result.view(len(query), heads, -1)
        for first, last in pairwise((0, *lengths)):
            yield queries[first:last], results[first:last]
    elif layout in {"BSH", "BSND"}:
        shape = (*query.shape[:2], heads, -1)
        queries, results = query.reshape(shape), result.view(shape)
        for number in range(len(query)):
            yield queries[number], results[number]
    elif layout == "BNSD":
        for number in range(len(query)):
            yield query[number].transpose(0, 1), result[number].transpose(0, 1)
    else:
        raise refuse("npu_fused_infer_attention_score", f"layout {layout}")


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


def fused_infer_attention_score_out(
    query: Tensor, key: Tensor, value: Tensor, *, out: Sequence[Tensor], **options: Any
) -> tuple[Tensor, Tensor]:
    result, _ = fused_infer_attention_score(query, key, value, **options)
    host_view(out[0]).copy_(host_view(result).view(out[0].shape))
    return out[0], out[1]


def reshape_and_cache(key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_indices: Tensor) -> None:
    slots = host_view(slot_indices).long()
    kept = slots >= 0
    for new, cache in ((host_view(key), host_view(key_cache)), (host_view(value), host_view(value_cache))):
        flat = cache.view(cache.shape[0] * cache.shape[1], *cache.shape[2:])
        flat[slots[kept]] = new[: len(slots)][kept].reshape(-1, *cache.shape[2:]).to(cache.dtype)


def scatter_pa_kv_cache(
    key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor, **options: Any
) -> None:
    reshape_and_cache(key, value, key_cache, value_cache, slot_mapping)


def paged_attention(
    query: Tensor, key_cache: Tensor, value_cache: Tensor, num_kv_heads: int, num_heads: int, scale_value: float,
    block_table: Tensor, context_lens: Tensor, out: Tensor, *, workspace: Tensor | None = None,
) -> None:  # fmt: skip
    wide, target, blocks = host_view(query), host_view(out), host_view(block_table)
    for number, length in enumerate(_numbers(context_lens)[: len(wide)]):
        if length:
            caches = (host_view(cache) for cache in (key_cache, value_cache))
            own = (_cached(cache, blocks[number], length, num_kv_heads) for cache in caches)
            made = attend(wide[number].reshape(1, num_heads, -1), own, scale_value, causal=False)
            target[number] = made.reshape(target[number].shape)


def flash_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, seq_len: Tensor, scale_value: float,
    num_heads: int, num_kv_heads: int, out: Tensor,
) -> None:  # fmt: skip
    lengths, both = _numbers(seq_len), (host_view(key), host_view(value))
    own = (
        [item[first:last].reshape(last - first, num_kv_heads, -1) for item in both] for first, last in _bounds(lengths)
    )
    _attend_each(query, own, lengths, num_heads, scale_value, out)


def flash_attention_qlens(
    query: Tensor, key_cache: Tensor, value_cache: Tensor, block_table: Tensor, mask: Tensor | None, seq_len: Tensor,
    context_lens: Tensor, num_kv_heads: int, num_heads: int, scale_value: float, out: Tensor,
) -> None:  # fmt: skip
    caches, blocks = (host_view(key_cache), host_view(value_cache)), host_view(block_table)
    own = (
        [_cached(cache, blocks[number], length, num_kv_heads) for cache in caches]
        for number, length in enumerate(_numbers(context_lens))
    )
    _attend_each(query, own, _numbers(seq_len), num_heads, scale_value, out)


def _attend_each(
    query: Tensor, cached: Iterable[Sequence[Tensor]], lengths: Sequence[int], heads: int, scale: float, out: Tensor
) -> None:
    """Fill the result of successive sequences, each with its keys and values."""
    wide, target = host_view(query), host_view(out)
    for (first, last), own in zip(_bounds(lengths), cached, strict=False):
        made = attend(wide[first:last].reshape(last - first, heads, -1), own, scale, causal=True)
        target[first:last] = made.reshape(target[first:last].shape)


def _bounds(lengths: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield where each sequence begins and ends."""
    return pairwise(accumulate(lengths, initial=0))


def paged_attention_splitfuse(
    query: Tensor, key_cache: Tensor, value_cache: Tensor, block_table: Tensor, context_lens: Tensor,
    mask: Tensor | None, seq_len: Tensor, *others: Any,
) -> None:  # fmt: skip
    flash_attention_qlens(query, key_cache, value_cache, block_table, mask, seq_len, context_lens, *others)
