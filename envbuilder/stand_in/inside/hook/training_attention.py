"""The attention of trainers on an NPU, forwards and backwards, in plain torch over the memory of the stand-in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from host_kernels import host_view, on_device
from npu_attention import UNLIMITED, refuse
from torch import Tensor

_NAME = "npu_fusion_attention"
# modes of the mask: given, completely given, the past from the first key on, the past up to the last key, a band
_GIVEN, _ALL, _PAST, _PAST_OF_LAST, _BAND = range(5)
# from each layout to batch, heads, tokens, width
_ORDERS = {"SBH": (1, 2, 0, 3), "BSH": (0, 2, 1, 3), "BSND": (0, 2, 1, 3), "BNSD": (0, 1, 2, 3), "TND": (0, 2, 1, 3)}


class _Mask(NamedTuple):
    given: Tensor | None
    mode: int
    before: int
    after: int

    def hidden(self, queries: int, keys: int) -> Tensor:
        shift = keys - queries if self.mode == _PAST_OF_LAST else 0
        ahead = torch.arange(keys)[None, :] - torch.arange(queries)[:, None] - shift
        if self.mode in {_PAST, _PAST_OF_LAST}:
            return ahead > 0
        hidden = torch.zeros(queries, keys, dtype=torch.bool)
        if self.given is not None and self.mode in {_GIVEN, _ALL}:
            hidden = hidden | host_view(self.given).bool()
        if self.mode in {_GIVEN, _BAND}:
            hidden = hidden | (ahead > self.after) | (ahead < -self.before)
        return hidden


class _Sequences(NamedTuple):
    """Queries, keys or values, as batch, heads, tokens, width."""

    tensor: Tensor
    layout: str
    heads: int
    bounds: tuple[int, ...] | None

    def parts(self) -> Iterator[Tensor]:
        """Yield the tokens that attend to each other: those of the whole batch, or of each successive sequence."""
        wide = self.tensor.unsqueeze(0) if self.layout == "TND" else self.tensor
        split = wide.reshape(*wide.shape[:2], self.heads, -1) if wide.dim() == 3 else wide
        by_head = split.permute(_ORDERS[self.layout])
        if self.bounds is None:
            yield by_head
        for first, last in pairwise((0, *self.bounds) if self.bounds else ()):
            yield by_head[:, :, first:last]

    def joined(self, parts: Sequence[Tensor]) -> Tensor:
        order = _ORDERS[self.layout]
        back = [order.index(place) for place in range(4)]
        return torch.cat(tuple(parts), 2).permute(back).reshape(self.tensor.shape).to(self.tensor.dtype).contiguous()


def _sequences(
    query: Tensor, others: Sequence[Tensor], heads: int, layout: str, ends: Any, key_ends: Any
) -> tuple[_Sequences, ...]:
    if layout not in _ORDERS:
        raise refuse(_NAME, f"layout {layout}")
    bounds, key_bounds = (tuple(int(end) for end in item) if item else None for item in (ends, key_ends))
    first = _Sequences(host_view(query), layout, heads, bounds)
    width = next(first.parts()).shape[-1]

    def groups(item: Tensor) -> int:
        place = {"BNSD": 1, "BSND": 2, "TND": 1}.get(layout)
        return int(item.shape[place] if place is not None else item.shape[-1] // width)

    return first, *(_Sequences(host_view(item), layout, groups(item), key_bounds) for item in others)


def _shares(query: Tensor, key: Tensor, scale: float, mask: _Mask) -> Tensor:
    """Return how much each query takes of each key."""
    scores = query.float() @ key.float().transpose(-1, -2) * scale
    scores = scores.masked_fill(mask.hidden(query.shape[2], key.shape[2]), float("-inf"))
    # a query that may see no key, such as padding, takes nothing
    return torch.softmax(scores, -1).nan_to_num(0.0)


def _spread(item: Tensor, heads: int) -> Tensor:
    return item.repeat_interleave(heads // item.shape[1], 1).float()


def _gathered(item: Tensor, groups: int) -> Tensor:
    """Return the sum over the heads that share a key."""
    return item.reshape(item.shape[0], groups, -1, *item.shape[2:]).sum(2)


def _refuse_others(keep_prob: float, others: dict[str, Any]) -> None:
    given = [name for name in ("pse", "padding_mask", "sink") if others.get(name) is not None]
    if given or keep_prob != 1.0:
        raise refuse(_NAME, given or f"keep_prob {keep_prob}")


def fusion_attention(
    query: Tensor, key: Tensor, value: Tensor, head_num: int, input_layout: str, pse: Tensor | None = None,
    padding_mask: Tensor | None = None, atten_mask: Tensor | None = None, scale: float = 1.0, keep_prob: float = 1.0,
    pre_tockens: int = UNLIMITED, next_tockens: int = UNLIMITED, inner_precise: int = 0,
    prefix: Sequence[int] | None = None, actual_seq_qlen: Sequence[int] | None = None,
    actual_seq_kvlen: Sequence[int] | None = None, sparse_mode: int = 0, *others: Any, **options: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor, int, int, int]:  # fmt: skip
    _refuse_others(keep_prob, {"pse": pse, "padding_mask": padding_mask, **options})
    mask = _Mask(atten_mask, sparse_mode, pre_tockens, next_tockens)
    whole = _sequences(query, (key, value), head_num, input_layout, actual_seq_qlen, actual_seq_kvlen)
    made = [
        _shares(part, _spread(keys, head_num), scale, mask) @ _spread(values, head_num)
        for part, keys, values in zip(*(item.parts() for item in whole), strict=True)
    ]
    empty = torch.zeros(1, device=query.device)
    return on_device(whole[0].joined(made), query.device), empty, empty.clone(), empty.clone(), 0, 0, 0


def fusion_attention_grad(
    query: Tensor, key: Tensor, value: Tensor, dy: Tensor, head_num: int, input_layout: str, *,
    atten_mask: Tensor | None = None, scale_value: float = 1.0, keep_prob: float = 1.0,
    pre_tockens: int = UNLIMITED, next_tockens: int = UNLIMITED, actual_seq_qlen: Sequence[int] | None = None,
    actual_seq_kvlen: Sequence[int] | None = None, sparse_mode: int = 0, **others: Any,
) -> tuple[Tensor, ...]:  # fmt: skip
    _refuse_others(keep_prob, others)
    mask = _Mask(atten_mask, sparse_mode, pre_tockens, next_tockens)
    whole = _sequences(query, (key, value), head_num, input_layout, actual_seq_qlen, actual_seq_kvlen)
    change = whole[0]._replace(tensor=host_view(dy))
    made: list[tuple[Tensor, ...]] = []
    for part, keys, values, wanted in zip(*(item.parts() for item in (*whole, change)), strict=True):
        groups, wide = keys.shape[1], _spread(keys, head_num)
        shares, of_value = _shares(part, wide, scale_value, mask), wanted.float()
        of_shares = of_value @ _spread(values, head_num).transpose(-1, -2)
        of_scores = shares * (of_shares - (of_shares * shares).sum(-1, keepdim=True)) * scale_value
        of_key, of_values = of_scores.transpose(-1, -2) @ part.float(), shares.transpose(-1, -2) @ of_value
        made.append((of_scores @ wide, _gathered(of_key, groups), _gathered(of_values, groups)))
    joined = (item.joined(parts) for item, parts in zip(whole, zip(*made, strict=True), strict=True))
    results = tuple(on_device(item, query.device) for item in joined)
    return *results, *(torch.zeros(1, device=query.device) for _ in range(_gradients() - len(results)))


def _gradients() -> int:
    """Return how many results the operator of this release of torch_npu has."""
    return len(torch.ops.npu.npu_fusion_attention_grad.default._schema.returns)
