"""Single-image RGB victims that two attackers are given: real CIFAR-10 test images."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.rows import SkipBenchmark
from recondite.attacks.gradient.inverting import InvertingGradients
from recondite.models import build

__all__ = ["SHAPE", "STEP", "TOTAL_VARIATION", "Case", "make_case", "read_images"]

SHAPE = (3, 32, 32)
# What breaching's preset "invertinggradients" says: size of a step, weight of total variation.
STEP, TOTAL_VARIATION = 0.1, 0.2
_MEAN, _STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


@dataclass(frozen=True, eq=False)
class Case:
    """One model and the gradients of many images, each alone.

    Attributes:
      name: Of the model.
      model: With untrained weights, the same for all victims.
      images: (n, 3, 32, 32) in [0, 1].
      labels: (n,); given to both attackers.
      gradients: Parameter name to (n, *parameter), of standardised images.
      mean: Of the standardisation, (3, 1, 1).
      std: Its standard deviation.
    """

    name: str
    model: nn.Module
    images: Tensor
    labels: Tensor
    gradients: dict[str, Tensor]
    mean: Tensor
    std: Tensor

    @property
    def bounds(self) -> tuple[Tensor, Tensor]:
        """Smallest and largest standardised pixel."""
        return -self.mean / self.std, (1.0 - self.mean) / self.std

    def part(self, begin: int, count: int) -> Case:
        """Some of the victims."""
        some = slice(begin, begin + count)
        return replace(
            self,
            images=self.images[some],
            labels=self.labels[some],
            gradients={name: value[some] for name, value in self.gradients.items()},
        )

    def starts(self, seed: int) -> Tensor:
        """What our attack draws first with this seed, (n, 1, 3, 32, 32): the peer gets the same."""
        generator = torch.Generator(device=self.images.device).manual_seed(seed)
        shape = (len(self.images), 1, *SHAPE)
        return torch.randn(shape, generator=generator, device=self.images.device)

    def psnr(self, standardised: Tensor) -> list[float]:
        """Of reconstructions (n, 3, 32, 32), pixels in [0, 1]."""
        pixels = (standardised * self.std + self.mean).clamp(0.0, 1.0)
        mse = (pixels - self.images).square().flatten(1).mean(1).clamp_min(1e-12)
        return [float(value) for value in -10.0 * mse.log10()]

    def attack(self, steps: int, seed: int = 0) -> Tensor:
        """Our side, all victims at once: (n, 3, 32, 32), standardised."""
        attack = InvertingGradients(
            steps=steps, learning_rate=STEP, total_variation=TOTAL_VARIATION
        )
        result = attack.reconstruct_many(
            self.model,
            nn.functional.cross_entropy,
            self.gradients,
            shape=SHAPE,
            labels=self.labels.unsqueeze(1),
            bounds=self.bounds,
            classes=10,
            seed=seed,
        )
        return result.images[:, 0]


def read_images(count: int, file: Path | None = None) -> tuple[Tensor, Tensor]:
    """The first CIFAR-10 test images and labels: from the data directory, or from an ``npz``."""
    if file is not None:
        held = np.load(file, allow_pickle=False)
        pixels = torch.from_numpy(held["images"][:count]).float() / 255.0
        return pixels, torch.from_numpy(held["labels"][:count]).long()
    from recondite.records import load

    try:
        data = load("cifar10", "test")
    except ValueError as error:
        raise SkipBenchmark(str(error)) from error
    return data.images[:count], data.labels[:count]


def make_case(name: str, images: Tensor, labels: Tensor, device: str = "cpu") -> Case:
    """Victims of one model, ``mlp`` or ``lenet``, untrained."""
    model = build(name, SHAPE, seed=0).to(device)
    images, labels = images.to(device), labels.to(device)
    mean, std = (torch.tensor(value, device=device).view(3, 1, 1) for value in (_MEAN, _STD))
    parameters = dict(model.named_parameters())
    each = []
    for image, label in zip((images - mean) / std, labels, strict=True):
        loss = nn.functional.cross_entropy(model(image.unsqueeze(0)), label.unsqueeze(0))
        each.append(torch.autograd.grad(loss, list(parameters.values())))
    stacked = {n: torch.stack(g) for n, g in zip(parameters, zip(*each, strict=True), strict=True)}
    return Case(name, model, images, labels, stacked, mean, std)
