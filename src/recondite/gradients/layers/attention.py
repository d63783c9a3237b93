"""``nn.MultiheadAttention``: four linear maps, and between them what has no weights."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear
from torch.nn.utils.parametrize import is_parametrized

from recondite.gradients.forwards import WatchedForward
from recondite.gradients.layers.sites import Site, SitesEntry, SitesRule
from recondite.gradients.tape import Tape

__all__ = ["AttentionRule", "is_attention"]


def is_attention(layer: nn.Module) -> bool:
    """Whether it is torch's own, with its own parts, and without keys and values that it learns.

    >>> is_attention(nn.MultiheadAttention(4, 2)), is_attention(nn.Linear(4, 2))
    (True, False)
    """
    return (
        type(layer) is nn.MultiheadAttention
        and type(layer.out_proj) is NonDynamicallyQuantizableLinear
        and "forward" not in vars(layer)
        and layer.bias_k is None
        and layer.bias_v is None
        and not layer.add_zero_attn
        and not any(is_parametrized(part) for part in layer.modules())
    )


class AttentionRule(SitesRule):
    """Queries, keys, values and what comes out, each a linear map; records on either axis."""

    def attach(self, tape: Tape, layer: nn.Module) -> None:
        """Runs the layer through the tape while training."""
        plain = layer.forward
        layer.forward = WatchedForward(layer, _Attention(tape, layer, self, plain), plain)


class _Attention:
    """The forward function of one layer."""

    def __init__(self, tape: Tape, layer: Any, rule: SitesRule, plain: Any) -> None:
        self.tape, self.layer, self.rule, self.plain = tape, layer, rule, plain
        width, bias = layer.embed_dim, layer.in_proj_bias
        self.sites = []
        for place, name in enumerate(("q", "k", "v")):
            rows = slice(place * width, (place + 1) * width)
            own = layer.in_proj_weight
            site = Site(own, bias, rows) if own is not None else None
            if site is None:
                site = Site(getattr(layer, f"{name}_proj_weight"), None)
                site.add(bias, "bias", rows)
            self.sites.append(site)
        self.sites.append(Site(layer.out_proj.weight, layer.out_proj.bias))

    def __call__(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        key_padding_mask: torch.Tensor | None = None,
        need_weights: bool = True,
        attn_mask: torch.Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        layer, tape = self.layer, self.tape
        training = tape.recording and layer.training and torch.is_grad_enabled()
        if tape.probe is None and not training:
            return self.plain(  # type: ignore[no-any-return]
                query,
                key,
                value,
                key_padding_mask=key_padding_mask,
                need_weights=need_weights,
                attn_mask=attn_mask,
                average_attn_weights=average_attn_weights,
                is_causal=is_causal,
            )
        if query.dim() != 3:
            raise ValueError(
                "layer MultiheadAttention saw one sequence without a batch: keep the batch on an "
                "axis of its own"
            )
        if is_causal and attn_mask is None:
            raise ValueError("layer MultiheadAttention: is_causal=True needs attn_mask too")
        if not layer.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        query, key, value = (tape.for_each_record(x) for x in (query, key, value))
        rows = len(query)
        masks = _together(key_padding_mask, attn_mask, query, layer.num_heads)
        if tape.probe is not None:
            tape.probe += [(layer, x.detach()) for x in (query, key, value)]
            if masks is not None:  # one that all records share is shown once for each
                tape.probe.append((layer, masks.detach().expand(rows, *masks.shape[-3:])))
        entry = self.rule.begin(tape, layer, rows, query) if training else None
        heads = []
        for place, x in enumerate((query, key, value)):
            found = self._map(entry, place, x)
            heads.append(found.reshape(rows, found.shape[1], layer.num_heads, -1).transpose(1, 2))
        dropout = layer.dropout if layer.training else 0.0
        mixed, weights = _attend(heads, masks, dropout, need_weights)
        out = self._map(entry, 3, mixed.transpose(1, 2).reshape(rows, query.shape[1], -1))
        if weights is not None and average_attn_weights:
            weights = weights.mean(1)
        return out if layer.batch_first else out.transpose(0, 1), weights

    def _map(self, entry: SitesEntry | None, place: int, x: torch.Tensor) -> torch.Tensor:
        layer = self.layer
        if place == 3:
            weight, bias = layer.out_proj.weight, layer.out_proj.bias
        else:
            rows = slice(place * layer.embed_dim, (place + 1) * layer.embed_dim)
            apart = (layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight)[place]
            weight = layer.in_proj_weight[rows] if apart is None else apart
            bias = None if layer.in_proj_bias is None else layer.in_proj_bias[rows]
        if entry is None:
            return functional.linear(x, weight, bias)
        return entry.linear(self.sites[place], x, weight, bias)


def _together(
    padding: torch.Tensor | None, mask: torch.Tensor | None, like: torch.Tensor, heads: int
) -> torch.Tensor | None:
    """Both masks as one that is added: (records or 1, heads or 1, queries or 1, keys)."""
    out: torch.Tensor | None = None
    if mask is not None:
        out = _added(mask, like)
        out = out if out.dim() == 2 else out.reshape(-1, heads, *out.shape[1:])
    if padding is not None:
        hidden = _added(padding, like)[:, None, None, :]
        out = hidden if out is None else out + hidden
    return out


def _added(mask: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    if mask.is_floating_point():
        return mask.to(like.dtype)
    return torch.zeros_like(mask, dtype=like.dtype).masked_fill_(mask, -math.inf)


def _attend(
    heads: list[torch.Tensor], mask: torch.Tensor | None, dropout: float, need_weights: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """As torch's own: by its kernel where nobody wants the weights."""
    query, key, value = heads
    if not need_weights:
        mask = None if mask is None else mask.to(query.dtype)
        attend = functional.scaled_dot_product_attention
        return attend(query, key, value, attn_mask=mask, dropout_p=dropout), None
    scores = (query * math.sqrt(1.0 / query.shape[-1])) @ key.mT
    weights = (scores if mask is None else scores + mask).softmax(-1)
    if dropout > 0.0:
        weights = functional.dropout(weights, dropout)
    return weights @ value, weights
