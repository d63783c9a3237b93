"""The first block of an encoder as functions: what its layers' inputs say of each other.

BERT and its kin: words, places and kinds are added up and normalised; a token attends to all; what
it attended to is added to it and normalised; then comes the first layer of the MLP and its bend.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from recondite.attacks.text.sites import LayerSite, Sites

__all__ = ["EncoderBlock"]

_ROLES = {"query": 0, "q_lin": 0, "key": 1, "k_lin": 1, "value": 2, "v_lin": 2}
_PROBE = (5, 6, 7, 8, 6)
_CLOSE = 1e-4


@dataclass(frozen=True, eq=False)
class EncoderBlock:
    """Of a block that was tried on a probe: its functions made the model's own values.

    Attributes:
      embedding: The normalisation of the embeddings' sum.
      projections: Query, key and value.
      out: The projection of what was attended to.
      norm: The normalisation after it.
      up: The first layer of the MLP.
      bend: What follows it, element by element.
      heads: Of the attention.
    """

    embedding: nn.LayerNorm
    projections: tuple[nn.Linear, nn.Linear, nn.Linear]
    out: nn.Linear
    norm: nn.LayerNorm
    up: nn.Linear
    bend: Callable[[Tensor], Tensor]
    heads: int

    @classmethod
    def of(cls, sites: Sites) -> EncoderBlock | None:
        """The first block; None where a model is built otherwise, or has adapters."""
        if sites.causal or len(sites.sites) < 5:
            return None
        first, *rest = sites.sites[:4]
        roles = {_ROLES.get(name.split(".")[-1], -1): part for name, part in _named(first)}
        alone = [*roles.values(), *(site.layers[0] for site in rest)]
        if set(roles) != {0, 1, 2} or not all(type(part) is nn.Linear for part in alone):
            return None
        tokens = torch.tensor([_PROBE], device=sites.device) % sites.vocabulary
        seen = [sites.inputs(site, tokens) for site in sites.sites[:4]]
        made = sites.made_by(tokens, [seen[0], seen[2], seen[3]])
        norms = [
            next((m for m in parts if isinstance(m, nn.LayerNorm) and m.elementwise_affine), None)
            for parts in made[:2]
        ]
        bend = next((m for m in made[2] if not any(True for _ in m.parameters())), None)
        heads = getattr(sites.config, "num_attention_heads", None) or 0
        if None in norms or bend is None or not heads or seen[0].shape[-1] % heads:
            return None
        layers: Any = [site.layers[0] for site in rest]
        query, key, value = (roles[role] for role in range(3))
        block = cls(
            embedding=norms[0],  # type: ignore[arg-type]
            projections=(query, key, value),  # type: ignore[arg-type]
            out=layers[0],
            norm=norms[1],  # type: ignore[arg-type]
            up=layers[1],
            bend=bend,
            heads=heads,
        )
        return block if block._agrees([one[0].double() for one in seen]) else None

    def _agrees(self, seen: list[Tensor]) -> bool:
        embedded, attended, normed, bent = seen
        query, key, value = self.projected(embedded)
        weights = torch.einsum("ihd,jhd->hij", query, key).softmax(-1)
        own = torch.einsum("hij,jhd->ihd", weights, value).flatten(1)
        after = self._normalised(embedded + _affine(self.out, attended))
        pairs = (own, attended), (after, normed), (self.bent(normed)[0], bent)
        return all(float((a - b).norm()) <= _CLOSE * float(b.norm()) for a, b in pairs)

    def sums(self, sites: Sites, tokens: Tensor, place: int) -> tuple[Tensor, Tensor]:
        """Embeddings of (n,) tokens at a place, (n, width) each: their sum, and normalised."""
        at = torch.full((1,), place, device=tokens.device)
        before = LayerSite(("",), (self.embedding,))
        raw, normed = (
            sites.inputs(site, tokens[:, None], at)[:, 0].double()
            for site in (before, sites.sites[0])
        )
        return raw, normed

    def projected(self, embedded: Tensor) -> tuple[Tensor, ...]:
        """Queries (in units of a softmax), keys and values of (n, width), (n, heads, size)."""
        shape = (*embedded.shape[:-1], self.heads, -1)
        query, key, value = (_affine(part, embedded).view(shape) for part in self.projections)
        return query / query.shape[-1] ** 0.5, key, value

    def bent(self, normed: Tensor) -> tuple[Tensor, Tensor]:
        """What the MLP's second layer gets of (…, width), and its slope in the first's output."""
        with torch.enable_grad():
            before = _affine(self.up, normed).detach().requires_grad_(True)
            after = self.bend(before)
            (slope,) = torch.autograd.grad(after.sum(), before)
        return after.detach(), slope

    def attended(self, normed: Tensor, embedded: Tensor, basis: Tensor) -> tuple[Tensor, float]:
        """What a token attended to, from its normalised sum with itself, and how far that is off.

        The normalisation took away a mean and a scale: two numbers, found as those with which the
        answer lies in the span of all that was attended to.

        Args:
          normed: (width,) as the MLP gets it.
          embedded: (width,) of the token, as the attention gets it.
          basis: Of the span, orthonormal rows.
        """
        weight, bias = (_wide(part) for part in (self.norm.weight, self.norm.bias))
        centred = (normed - bias) / weight
        back = torch.linalg.pinv(_wide(self.out.weight))
        constant = embedded if self.out.bias is None else embedded + _wide(self.out.bias)
        free = back @ torch.stack([centred, torch.ones_like(centred), constant], 1)
        outside = free - basis.mT @ (basis @ free)
        found = torch.linalg.lstsq(outside[:, :2], outside[:, 2:]).solution
        rest = (outside[:, :2] @ found - outside[:, 2:]).norm() / outside[:, 2].norm()
        return free[:, :2] @ found[:, 0] - free[:, 2], float(rest)

    def _normalised(self, values: Tensor) -> Tensor:
        norm = self.norm
        made = nn.functional.layer_norm(
            values, norm.normalized_shape, _wide(norm.weight), _wide(norm.bias), norm.eps
        )
        return made


def _named(site: LayerSite) -> list[tuple[str, nn.Module]]:
    return list(zip(site.names, site.layers, strict=True))


def _wide(value: Tensor) -> Tensor:
    return value.detach().double()


def _affine(layer: nn.Linear, values: Tensor) -> Tensor:
    bias = None if layer.bias is None else _wide(layer.bias)
    return nn.functional.linear(values, _wide(layer.weight), bias)
