"""Models of many runs at once, and the bounded gradients of their records.

A bank holds R models of one architecture that see the same batches. ``Head`` is a linear layer on
public features, in closed form; ``Net`` any chain that a :class:`~recondite_papers.stacked.Stack`
holds. Gradients are in units of one record's bound (of each layer's, where layers are bounded
apart). Several views of a record are averaged before they are bounded.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from recondite_papers.stacked import Stack
from recondite_papers.stacked.network import Taps

__all__ = ["Bank", "CandidateRows", "Factors", "Head", "Net", "network"]

_STABILITY = {"automatic": 0.01, "psac": 0.1}  # γ and r, as the library has them


class Factors:
    """The rule of every run as a function from squared norms to factors.

    Guarantee: factor times norm is at most 1 (in every layer, with per-layer clipping), up to
    rounding. A gradient that is zero or not finite gets the factor 0.
    """

    def __init__(self, rules: Sequence[str], norm: float, device: torch.device) -> None:
        self.norm = norm
        self.is_rule = {
            rule: torch.tensor([r == rule for r in rules], device=device)[:, None, None]
            for rule in dict.fromkeys(rules)
        }

    def __call__(self, squared: Tensor) -> Tensor:
        """(R, n, layers) of the same shape."""
        layered = squared.clamp(min=0.0).sqrt()
        whole = squared.sum(-1, keepdim=True).clamp(min=0.0).sqrt()
        out = torch.zeros_like(squared)
        for rule, here in self.is_rule.items():
            if rule == "per-layer":
                apart = self.norm / math.sqrt(squared.shape[-1])
                found = 1.0 / layered.clamp(min=apart)
            elif rule == "automatic":
                found = 1.0 / (whole + _STABILITY[rule])
            elif rule == "psac":
                found = 1.0 / (whole + _STABILITY[rule] / (whole + _STABILITY[rule]))
            elif rule == "scale":
                found = torch.where(whole > 1e-20, 1.0 / whole.clamp(min=1e-20), 0.0)
            else:
                found = 1.0 / whole.clamp(min=self.norm)
            out = torch.where(here, found.expand_as(squared), out)
        return torch.where(torch.isfinite(whole), out, torch.zeros_like(out))


@dataclass
class CandidateRows:
    """Bounded gradients of the intruder's records, by their inner products.

    Attributes:
      squared: (R, n, blocks).
      cross: (R, victims, pool, blocks), of victims with the pool.
    """

    squared: Tensor
    cross: Tensor


class Bank(ABC):
    """R models.

    Attributes:
      dim: Parameters of one model.
      flat: (R, dim): the weights, which steps change in place.
      layers: Sizes of the layers that are bounded apart.
    """

    dim: int
    flat: Tensor
    layers: tuple[int, ...]

    @abstractmethod
    def backward(self, inputs: Tensor, labels: Tensor, mask: Tensor) -> None:
        """Looks at a batch: (B, views, …), or (R, B, 1, …) with inputs of each run's own."""

    @abstractmethod
    def squared(self) -> Tensor:
        """(R, B, layers) of the batch looked at."""

    @abstractmethod
    def total(self, factors: Tensor) -> Tensor:
        """(R, dim): the sum of the batch's gradients, each times its factors (R, B, layers)."""

    @abstractmethod
    def rows(
        self, runs: slice, factors: Factors, sizes: tuple[int, ...], victims: int
    ) -> CandidateRows:
        """Inner products of the batch looked at, for some runs, in blocks of these sizes."""

    @abstractmethod
    def inner(self, runs: slice, vectors: Tensor) -> Tensor:
        """(R, n, k, blocks): inner products of the rows last asked for with vectors (R, k, dim)."""

    @abstractmethod
    def accuracy(self, inputs: Tensor, labels: Tensor, part: int = 500) -> Tensor:
        """(R,): share of the records got right."""

    @abstractmethod
    def moved(self) -> None:
        """Called after ``flat`` has changed."""


class Head(Bank):
    """R linear layers on features with a constant as their last coordinate, from zero.

    The features of the intruder's records do not change, nor do their inner products: they are
    computed once, in :meth:`keep`.
    """

    def __init__(self, runs: int, features: int, classes: int, device: torch.device) -> None:
        self.classes, self.width = classes, features
        self.dim, self.layers = classes * features, (classes * features,)
        self.flat = torch.zeros(runs, self.dim, device=device)
        self._kept: Tensor | None = None

    def keep(self, features: Tensor, victims: int) -> None:
        """The intruder's records, (n, views, features): victims, then the pool."""
        flat = features.float().flatten(0, 1)
        views = features.shape[1]
        self._kept = (flat[: victims * views] @ flat[victims * views :].T).contiguous()

    def moved(self) -> None:
        """Nothing to do: the weights are read where they are."""

    def _weights(self) -> Tensor:
        return self.flat.view(-1, self.classes, self.width)

    def backward(self, inputs: Tensor, labels: Tensor, mask: Tensor) -> None:
        """By the closed form of cross-entropy's gradient."""
        self._inputs = inputs.float()
        # (R, B, views, classes)
        if inputs.ndim == 3:
            views = inputs.shape[1]
            flat = self._inputs.flatten(0, 1)
            logits = flat @ self.flat.view(-1, self.width).T
            logits = logits.view(len(labels), views, -1, self.classes).permute(2, 0, 1, 3)
        else:
            logits = (self._inputs.flatten(2) @ self._weights().mT).unsqueeze(2)
        wanted = functional.one_hot(labels, self.classes).to(logits)
        delta = torch.softmax(logits, -1) - wanted[:, None, :]
        self._delta = delta * (mask[:, None, None] / logits.shape[2])

    def squared(self) -> Tensor:
        """From the Gram matrices of the views: a gradient is δ aᵀ."""
        delta = self._delta
        if self._inputs.ndim == 3:
            grams = self._inputs @ self._inputs.mT  # (B, views, views)
        else:
            grams = self._inputs @ self._inputs.mT
        return ((delta @ delta.mT) * grams).sum((-1, -2)).unsqueeze(-1)

    def total(self, factors: Tensor) -> Tensor:
        """One matrix product over the batch and its views."""
        scaled = self._delta * factors.unsqueeze(2)  # (R, B, views, classes)
        if self._inputs.ndim == 3:
            left = scaled.permute(0, 3, 1, 2).flatten(2).flatten(0, 1)  # (R·classes, B·views)
            out = left @ self._inputs.flatten(0, 1)
        else:
            out = scaled.squeeze(2).mT @ self._inputs.squeeze(2)
        return out.reshape(len(self.flat), self.dim)

    def rows(
        self, runs: slice, factors: Factors, sizes: tuple[int, ...], victims: int
    ) -> CandidateRows:
        """Blocks are the whole vector, or the rows of the classes."""
        assert self._kept is not None
        squared = self.squared()[runs]
        scaled = self._delta[runs] * factors(squared).unsqueeze(2)
        self._scaled, self._sizes = scaled, sizes
        views = scaled.shape[2]
        ours, theirs = scaled[:, :victims].flatten(1, 2), scaled[:, victims:].flatten(1, 2)
        grams = self._inputs @ self._inputs.mT
        count, others = victims, len(self._inputs) - victims
        if len(sizes) == 1:
            cross = (ours @ theirs.mT) * self._kept
            cross = cross.view(-1, count, views, others, views).sum((2, 4)).unsqueeze(-1)
            found = ((scaled @ scaled.mT) * grams).sum((-1, -2)).unsqueeze(-1)
            return CandidateRows(found, cross)
        if views != 1 or len(sizes) != self.classes:
            raise ValueError("a head's blocks must be its classes' rows, with one view")
        cross = ours.unsqueeze(2) * theirs.unsqueeze(1) * self._kept[..., None]
        return CandidateRows(scaled.square().squeeze(2) * grams.view(-1, 1), cross)

    def inner(self, runs: slice, vectors: Tensor) -> Tensor:
        """δ times what the vectors' rows make of the features."""
        del runs
        count, views = self._inputs.shape[:2]
        rows = vectors.view(*vectors.shape[:2], self.classes, self.width)
        flat = self._inputs.flatten(0, 1)
        made = (rows.flatten(0, 2) @ flat.T).view(*rows.shape[:3], count, views)
        made = made.permute(0, 3, 4, 1, 2)  # (R, n, views, k, classes)
        out = (made * self._scaled.unsqueeze(3)).sum(2)
        return out if len(self._sizes) > 1 else out.sum(-1, keepdim=True)

    @torch.no_grad()
    def accuracy(self, inputs: Tensor, labels: Tensor, part: int = 2000) -> Tensor:
        """On features (n, features)."""
        right = torch.zeros(len(self.flat), device=self.flat.device)
        for start in range(0, len(labels), part):
            some = inputs[start : start + part].float()
            logits = (some @ self.flat.view(-1, self.width).T).view(len(some), -1, self.classes)
            right += (logits.argmax(-1) == labels[start : start + part, None]).sum(0)
        return right / len(labels)


class Net(Bank):
    """R networks; a layer is a module with weights, its bias among them."""

    def __init__(self, models: Sequence[nn.Module], device: torch.device) -> None:
        self.stack = Stack(models, device)
        self.dim = self.stack.dim
        self.layers = tuple(
            weight[0].numel() + (0 if bias is None else bias[0].numel())
            for weight, bias in zip(self.stack.weights, self.stack.biases, strict=True)
        )
        parameters = self.stack.parameters()
        self._sizes_of = [p[0].numel() for p in parameters]
        self.flat = torch.cat([p.flatten(1) for p in parameters], 1)

    def moved(self) -> None:
        """Copies the joined weights to where the stack reads them."""
        pieces = torch.split(self.flat, self._sizes_of, 1)
        for parameter, piece in zip(self.stack.parameters(), pieces, strict=True):
            parameter.copy_(piece.view_as(parameter))

    def backward(self, inputs: Tensor, labels: Tensor, mask: Tensor) -> None:
        """Views stand side by side, then among the places of each layer."""
        runs = len(self.flat)
        batch = inputs.expand(runs, *inputs.shape) if inputs.ndim == 5 else inputs
        views = batch.shape[2]
        named = labels[None, :, None].expand(runs, -1, views).flatten(1)
        weight = (mask[None, :, None] / views).expand(runs, -1, views).flatten(1)
        taps, _ = self.stack.taps(batch.flatten(1, 2), named, weight)
        count = len(labels)
        self._taps = Taps(
            *(
                [t.reshape(runs, count, views * t.shape[2], t.shape[3]) for t in part]
                for part in (taps.inputs, taps.deltas)
            )
        )
        # Every record's gradient of a convolution, written once; linear layers stay in factors.
        self._made = [
            None if a.shape[2] == 1 else d.mT @ a
            for a, d in zip(self._taps.inputs, self._taps.deltas, strict=True)
        ]

    def _layers(self) -> list[tuple[Tensor, Tensor, Tensor | None, bool]]:
        biased = [bias is not None for bias in self.stack.biases]
        return list(zip(self._taps.inputs, self._taps.deltas, self._made, biased, strict=True))

    def squared(self) -> Tensor:
        """Layer by layer."""
        out = []
        for a, delta, made, biased in self._layers():
            if made is None:
                found = delta.square().sum((2, 3)) * (a.square().sum((2, 3)) + float(biased))
            else:
                found = made.square().sum((2, 3))
                if biased:
                    found = found + delta.sum(2).square().sum(-1)
            out.append(found)
        return torch.stack(out, -1)

    def total(self, factors: Tensor) -> Tensor:
        """Layer by layer, in the order of the parameters."""
        parts = []
        for place, (a, delta, made, biased) in enumerate(self._layers()):
            factor = factors[:, :, place]
            summed = delta.sum(2) * factor[..., None]  # (R, B, O)
            if made is None:
                parts.append((summed.mT @ a.squeeze(2)).flatten(1))
            else:
                parts.append((factor.unsqueeze(1) @ made.flatten(2)).squeeze(1))
            if biased:
                parts.append(summed.sum(1))
        return torch.cat(parts, 1)

    def rows(
        self, runs: slice, factors: Factors, sizes: tuple[int, ...], victims: int
    ) -> CandidateRows:
        """From the gradients themselves."""
        factor = factors(self.squared()[runs])
        parts = []
        for place, (a, delta, made, biased) in enumerate(self._layers()):
            scale = factor[:, :, place, None]
            weight = (delta[runs].mT @ a[runs]) if made is None else made[runs]
            parts.append(weight.flatten(2) * scale)
            if biased:
                parts.append(delta[runs].sum(2) * scale)
        self._rows, self._sizes = torch.cat(parts, 2), sizes
        blocks = torch.split(self._rows, list(sizes), 2)
        return CandidateRows(
            torch.stack([b.square().sum(2) for b in blocks], -1),
            torch.stack([b[:, :victims] @ b[:, victims:].mT for b in blocks], -1),
        )

    def inner(self, runs: slice, vectors: Tensor) -> Tensor:
        """Block by block."""
        del runs
        pairs = zip(
            torch.split(self._rows, list(self._sizes), 2),
            torch.split(vectors, list(self._sizes), 2),
            strict=True,
        )
        return torch.stack([rows @ some.mT for rows, some in pairs], -1)

    @torch.no_grad()
    def accuracy(self, inputs: Tensor, labels: Tensor, part: int = 500) -> Tensor:
        """On images."""
        return self.stack.accuracy(inputs, labels, part)


def network(shape: tuple[int, int, int], seed: int) -> nn.Sequential:
    """Tanh networks in the style of Papernot et al. (2021), for 28×28 and for 32×32 images."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if shape[1] == 28:
            return nn.Sequential(
                nn.Conv2d(shape[0], 16, 8, stride=2, padding=3), nn.Tanh(), nn.MaxPool2d(2),
                nn.Conv2d(16, 32, 4), nn.Tanh(), nn.Flatten(),
                nn.Linear(512, 32), nn.Tanh(), nn.Linear(32, 10),
            )  # fmt: skip
        return nn.Sequential(
            nn.Conv2d(shape[0], 32, 5, stride=2, padding=2), nn.Tanh(),
            nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.Tanh(),
            nn.Conv2d(64, 64, 3, padding=1), nn.Tanh(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(1024, 10),
        )  # fmt: skip
