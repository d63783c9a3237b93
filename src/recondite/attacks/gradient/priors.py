"""What an attacker believes of images before seeing a gradient."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recondite import _validate

__all__ = ["GaussianPrior", "total_variation"]


def total_variation(images: Tensor) -> Tensor:
    """Mean absolute difference of neighbouring pixels, of (trials, batch, c, h, w): (trials,)."""
    total = images.new_zeros(len(images))
    for axis in (-1, -2):
        if images.shape[axis] > 1:
            total = total + images.diff(dim=axis).abs().flatten(1).mean(1)
    return total


@dataclass(frozen=True, eq=False)
class GaussianPrior:
    """A Gaussian law of images, fitted on public ones: the linear (Wiener) denoiser.

    An image is ``mean + coefficients @ basis``; coefficients are independent standard normals a
    priori. Maximising likelihood times this prior keeps what the leak supports and shrinks the
    rest to what such images look like.

    Attributes:
      mean: (d,).
      basis: (rank, d), rows scaled by the deviation along them.
      shape: (c, h, w).
    """

    mean: Tensor
    basis: Tensor
    shape: tuple[int, int, int]

    @classmethod
    def fit(cls, images: Tensor, rank: int | None = None) -> GaussianPrior:
        """Fits to public images, (n, c, h, w), in the scale of the model.

        Args:
          images: At least two.
          rank: Directions kept; by default what holds 99.5% of the variance.
        """
        if images.ndim != 4 or len(images) < 2:
            raise ValueError("images must be (n, c, h, w) with two or more public images")
        rows = images.flatten(1).double()
        mean = rows.mean(0)
        _, singular, right = torch.linalg.svd(rows - mean, full_matrices=False)
        variance = singular.square() / (len(rows) - 1)
        share = variance.cumsum(0) / variance.sum().clamp_min(1e-30)
        kept = (
            int((share < 0.995).sum()) + 1 if rank is None else _validate.at_least("rank", rank, 1)
        )
        kept = min(kept, len(variance))
        basis = variance[:kept].sqrt().unsqueeze(1) * right[:kept]
        channels, height, width = images.shape[1:]
        return cls(mean.to(images), basis.to(images), (channels, height, width))

    def images(self, coefficients: Tensor) -> Tensor:
        """(..., rank) to (..., c, h, w)."""
        flat = self.mean + coefficients @ self.basis
        return flat.reshape(*coefficients.shape[:-1], *self.shape)

    def penalty(self, coefficients: Tensor) -> Tensor:
        """Minus the log-density of (trials, batch, rank) up to a constant, (trials,)."""
        return 0.5 * coefficients.square().flatten(1).sum(1)
