"""Channels of Tan et al. (2024) on a device: the noise of many runs in one draw a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recondite.channels import (
    MinimumPowerChannel,
    NaturalChannel,
    Spectrum,
    WhiteChannel,
)
from recondite.channels.noise import Noise
from recondite.channels.personalized import _paper_bound
from recondite_papers.jobs.data import Split

__all__ = [
    "KINDS",
    "ChannelInputs",
    "ChannelSetting",
    "Fitted",
    "Fitter",
    "beta",
    "covariance",
    "spectrum",
]  # fmt: skip

KINDS = ("natural", "white", "personalized-paper", "personalized", "minimum-power")


@dataclass(frozen=True)
class ChannelSetting:
    """A channel of one run.

    Attributes:
      kind: One of ``KINDS``, or "none".
      capacity: κ in nats.
      noise: "per_step" or "once".
    """

    kind: str = "none"
    capacity: float = 0.0
    noise: str = "per_step"


def beta(shape: tuple[int, int, int]) -> np.ndarray:
    """The paper's weights: 50 on rows 12-19 and columns 8-23, 1 elsewhere, in every channel."""
    weights = np.ones(shape)
    weights[:, 12:20, 8:24] = 50.0
    return weights.reshape(-1)


def spectrum(data: Split) -> Spectrum:
    """Of the training records."""
    return Spectrum.from_covariance(covariance(data.images.flatten(1)).cpu().numpy())


def covariance(rows: Tensor) -> Tensor:
    """Of some rows, computed where they are, in float64."""
    mean = rows.mean(0, dtype=torch.float64)
    total = torch.zeros(rows.shape[1], rows.shape[1], dtype=torch.float64, device=rows.device)
    for part in torch.split(rows, 5000):
        centred = part.double() - mean
        total += centred.T @ centred
    return total / (len(rows) - 1)


@dataclass(frozen=True)
class Fitted:
    """What a run needs of a channel.

    Attributes:
      noise: The noise.
      exact_nats: What it allows, where the paper's bound was solved for instead.
    """

    noise: Noise
    exact_nats: float | None = None


class Fitter:
    """Channels of one data set. Personalized ones share what is the same for every capacity.

    The results are those of :class:`recondite.channels.PersonalizedChannel`, which decomposes
    the rescaled covariance anew for each capacity: half a minute each at 3,072 features.
    """

    def __init__(self, known: Spectrum, shape: tuple[int, int, int]) -> None:
        self.known, self.weights = known, beta(shape)
        self._scaled: Spectrum | None = None
        self._bound: Callable[[float], float] | None = None

    @property
    def scaled(self) -> Spectrum:
        """Of the records with feature j divided by sqrt(β_j)."""
        if self._scaled is None:
            self._scaled = self.known.rescaled(1 / np.sqrt(self.weights))
        return self._scaled

    def __call__(self, setting: ChannelSetting) -> Fitted:
        """The channel of a setting."""
        kinds: dict[str, Any] = {
            "natural": NaturalChannel,
            "white": WhiteChannel,
            "minimum-power": MinimumPowerChannel,
        }
        if setting.kind in kinds:
            return Fitted(kinds[setting.kind].from_spectrum(self.known, setting.capacity).noise)
        values, counts = self.scaled.values, self.scaled.counts
        if setting.kind == "personalized":
            variance = NaturalChannel.from_spectrum(self.scaled, setting.capacity).noise_variance
        else:
            if self._bound is None:
                self._bound, _ = _paper_bound(self.known.covariance(), self.weights)
            variance = _solved(self._bound, setting.capacity)
        exact = 0.5 * float(np.sum(counts * np.log1p(values / variance)))
        noise = Noise(self.known.dim, variance, scale=np.sqrt(self.weights))
        return Fitted(noise, exact)


def _solved(bound: Callable[[float], float], capacity: float) -> float:
    """The σ at which a decreasing bound is the capacity, from above."""
    low, high = 1e-12, 1e12
    for _ in range(200):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if bound(middle) > capacity else (low, middle)
    return high


class ChannelInputs:
    """Maps indices (R, B) to images (R, B, c, h, w) with every run's own noise.

    Attributes:
      data: The records.
      settings: One for each run.
      generator: What all noise is drawn from.
    """

    def __init__(
        self,
        data: Split,
        known: Spectrum | Fitter,
        settings: list[ChannelSetting],
        generator: torch.Generator,
    ) -> None:
        self.data, self.settings, self.generator = data, settings, generator
        self.rows = data.images.flatten(1)
        device, dim = self.rows.device, self.rows.shape[1]
        fitted = known if isinstance(known, Fitter) else Fitter(known, data.shape)
        wanted = {(s.kind, s.capacity): s for s in settings if s.kind != "none"}
        channels = {key: fitted(setting) for key, setting in wanted.items()}
        self.channels = channels
        # Noise is S·(a·z + V diag(g) Vᵀ z): scales on features, and gains along eigenvectors.
        self.scale = torch.zeros(len(settings), 1, dim, device=device)
        self.gains = torch.zeros(len(settings), 1, dim, device=device)
        self.vectors: Tensor | None = None
        self.turned: list[int] = []
        for run, setting in enumerate(settings):
            if setting.kind == "none":
                continue
            noise = channels[setting.kind, setting.capacity].noise
            if noise.along is None:
                scale = 1.0 if noise.scale is None else torch.from_numpy(noise.scale).float()
                self.scale[run, 0] = noise.variance**0.5 * torch.as_tensor(scale, device=device)
            else:
                self.gains[run, 0] = torch.from_numpy(np.sqrt(noise.along)).float().to(device)
                self.turned.append(run)
                if self.vectors is None:
                    basis = np.ascontiguousarray(fitted.known.eigenvectors)
                    self.vectors = torch.from_numpy(basis).float().to(device)
        self.copies = {run: self._copy(run) for run, s in enumerate(settings) if s.noise == "once"}
        fresh = [run for run, s in enumerate(settings) if s.noise != "once" and s.kind != "none"]
        # Index tensors stay on the device: a list would be copied there at every step.
        self.plain = torch.tensor([r for r in fresh if r not in self.turned], device=device).long()
        self.shaped = torch.tensor([r for r in fresh if r in self.turned], device=device).long()

    def _copy(self, run: int) -> Tensor:
        """One noisy copy of all records, in half precision: 300 MB for CIFAR-10."""
        out = torch.empty(self.rows.shape, dtype=torch.float16, device=self.rows.device)
        for start in range(0, len(self.rows), 5000):
            part = self.rows[start : start + 5000]
            out[start : start + 5000] = (part + self._draw(run, len(part))).half()
        return out

    def _normal(self, *shape: int, generator: torch.Generator | None = None) -> Tensor:
        return torch.randn(shape, device=self.rows.device, generator=generator or self.generator)

    def _draw(self, run: int, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Noise of one run."""
        normal = self._normal(count, self.rows.shape[1], generator=generator)
        if run in self.turned and self.vectors is not None:
            return (normal * self.gains[run]) @ self.vectors.T
        return normal * self.scale[run]

    def __call__(self, index: Tensor) -> Tensor:
        """The noisy images."""
        out = self.rows[index]
        count, dim = index.shape[1], self.rows.shape[1]
        if len(self.plain):
            out[self.plain] += self._normal(len(self.plain), count, dim) * self.scale[self.plain]
        if len(self.shaped) and self.vectors is not None:
            along = self._normal(len(self.shaped), count, dim) * self.gains[self.shaped]
            out[self.shaped] += (along.view(-1, dim) @ self.vectors.T).view_as(along)
        for run, copy in self.copies.items():
            out[run] = copy[index[run]].float()
        return out.view(*index.shape, *self.data.shape)

    def noisy(self, run: int, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Some images through one run's channel, afresh, from the shared generator or another."""
        if self.settings[run].kind == "none":
            return images
        return images + self._draw(run, len(images), generator).view_as(images)
