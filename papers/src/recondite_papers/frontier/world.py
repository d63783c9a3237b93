"""One data set and one model of the frontier: records, features, views, victims, pool."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional

from recondite_papers.frontier.banks import Bank, Head, Net, network
from recondite_papers.frontier.batches import FrontierPlan
from recondite_papers.frontier.risk import Public
from recondite_papers.frontier.scattering import Scattering
from recondite_papers.frontier.training import Intruder
from recondite_papers.jobs.channels import covariance
from recondite_papers.jobs.data import Split

__all__ = ["Sizes", "World", "views"]


@dataclass(frozen=True)
class Sizes:
    """How much is played for.

    Attributes:
      victims: Training records, the first ones.
      pool: Held-out records that are candidates, the first test records.
      held: Test records that are held out in all: learning rates are chosen on them, and accuracy
        is measured on the others.
    """

    victims: int
    pool: int
    held: int


class World:
    """What all runs of a data set and a model share.

    Attributes:
      data: Pixels in [0, 1].
      model: "head" (linear, on scattering features) or "net".
      plan: Of the training.
      sizes: Of the games.
    """

    def __init__(self, data: Split, model: str, plan: FrontierPlan, sizes: Sizes) -> None:
        self.data, self.model, self.plan, self.sizes = data, model, plan, sizes
        self.device = data.images.device
        self._stored: dict[str, Tensor] = {}

    @cached_property
    def scattering(self) -> Scattering:
        """Of images of this size."""
        return Scattering(self.data.shape[1], self.device)

    def seen(self, images: Tensor) -> Tensor:
        """What the model gets of images (n, …): features with a constant, or scaled pixels."""
        if self.model == "net":
            return (images - 0.5) / 0.25
        made = self.scattering.in_parts(images)
        return torch.cat([made, torch.ones_like(made[:, :1])], 1)

    def stored(self, part: str, count: int = 1) -> Tensor:
        """(n, views, …) of "train", "pool" or "test" records, computed once."""
        name = f"{part}/{count}"
        if name not in self._stored:
            images = {
                "train": self.data.images,
                "held": self.data.test_images[: self.sizes.held],
                "test": self.data.test_images[self.sizes.held :],
            }[part]
            made = [self.seen(view) for view in views(images, count)]
            self._stored[name] = torch.stack(made, 1)
        return self._stored[name]

    def forget(self) -> None:
        """Frees the features."""
        self._stored.clear()

    def inputs(self, count: int = 1) -> Callable[[Tensor], Tensor]:
        """From indices of training records to what the model gets."""
        train = self.stored("train", count)
        return lambda index: train[index]

    def bank(self, runs: int, seed: int) -> Bank:
        """Fresh models: heads start from zero, networks from the seed's weights."""
        if self.model == "net":
            return Net([network(self.data.shape, seed)] * runs, self.device)
        return Head(runs, self.stored("train").shape[-1], self.data.classes, self.device)

    @cached_property
    def dim(self) -> int:
        """Parameters."""
        return self.bank(1, 0).dim

    @cached_property
    def layers(self) -> tuple[int, ...]:
        """Sizes of the layers that are bounded apart."""
        return self.bank(1, 0).layers

    @property
    def blocks(self) -> tuple[int, ...]:
        """Of partitioned noise: the layers, or the rows of a head's classes."""
        if self.model == "net":
            return self.layers
        return (self.dim // self.data.classes,) * self.data.classes

    def intruder(self, count: int = 1) -> Intruder:
        """Victims and pool as the model sees them."""
        inputs = torch.cat(
            [
                self.stored("train", count)[: self.sizes.victims],
                self.stored("held", count)[: self.sizes.pool],
            ]
        )
        labels = torch.cat(
            [self.data.labels[: self.sizes.victims], self.data.test_labels[: self.sizes.pool]]
        )
        return Intruder(inputs, labels, self.sizes.pool)

    @cached_property
    def public(self) -> Public:
        """Pixels of victims and pool."""
        victims, pool = self.sizes.victims, self.sizes.pool
        return Public(
            self.data.images[:victims].flatten(1),
            self.data.labels[:victims],
            self.data.test_images[:pool].flatten(1),
            self.data.test_labels[:pool],
        )

    @cached_property
    def eigenvalues(self) -> Tensor:
        """Of the covariance of the training records, which channels are sized by."""
        found: Tensor = torch.linalg.eigvalsh(covariance(self.data.images.flatten(1)))
        return found.clamp(min=0.0)

    @cached_property
    def within(self) -> tuple[Tensor, Tensor]:
        """Eigenvalues and eigenvectors of the pool's covariance around its class means."""
        public = self.public
        weight = (public.pool_labels[:, None] == public.pool_labels[None, :]).float()
        centred = public.pool - (weight / weight.sum(1, keepdim=True)) @ public.pool
        covariance = centred.double().T @ centred.double() / len(centred)
        values, vectors = torch.linalg.eigh(covariance)
        return values.clamp(min=0.0), vectors.float()

    def accuracy(self, bank: Bank, part: str = "test") -> Tensor:
        """On the records that learning rates were not chosen on, or on those they were."""
        held = self.sizes.held
        labels = self.data.test_labels[held:] if part == "test" else self.data.test_labels[:held]
        return bank.accuracy(self.stored(part)[:, 0], labels)


def views(images: Tensor, count: int) -> list[Tensor]:
    """The record itself, its mirror image, and both moved by two pixels: the same at every use."""
    if count == 1:
        return [images]
    side = images.shape[-1]
    wide = functional.pad(images, (2, 2, 2, 2), mode="replicate")
    down, up = wide[..., :side, :side], wide[..., 4:, 4:]
    return [images, images.flip(-1), down.contiguous(), up.flip(-1)][:count]
