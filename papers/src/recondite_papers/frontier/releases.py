"""From the bounded sums of R runs to what is released, and to the gradients of their optimizers.

Laws are those of :mod:`recondite.mechanisms`. Noise on each record is the exception: the sum of a
batch's many independent draws is drawn from the normal law with the exact mean and total variance,
the same stand-in that the attack scores by.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from recondite.mechanisms.partitioned import block_weights
from recondite.numerics.bessel import bessel_ratio
from recondite.numerics.sphere import cosines
from recondite_papers.frontier.defences import FrontierRun

__all__ = ["BankReleaser", "Family", "Filter", "families"]

_FEEDBACK, _FORWARD = (
    0.9,
    0.05,
)  # of DOPPLER's filter, as recondite.training.low_pass.LowPass has them


@dataclass(frozen=True)
class Family:
    """Neighbouring runs that share a law.

    Attributes:
      kind: "additive" or "spherical".
      runs: Where they stand.
      sizes: Of the blocks.
    """

    kind: str
    runs: slice
    sizes: tuple[int, ...]


def families(runs: Sequence[FrontierRun], dim: int, blocks: tuple[int, ...]) -> list[Family]:
    """Additive noise first, then von Mises-Fisher noise on one block, then on several."""
    order = ["additive", "vmf", "partitioned"]
    kinds = [r.defence.noise if r.defence.noise in order else "additive" for r in runs]
    if kinds != sorted(kinds, key=order.index):
        raise ValueError(f"runs must stand in the order {', '.join(order)}")
    out = []
    for kind in order:
        if kind in kinds:
            first, count = kinds.index(kind), kinds.count(kind)
            sizes = blocks if kind == "partitioned" else (dim,)
            name = "additive" if kind == "additive" else "spherical"
            out.append(Family(name, slice(first, first + count), sizes))
    return out


class BankReleaser:
    """Draws the noise of every run, step after step.

    Attributes:
      noise: The noise of the last release of the additive runs.
      release: The last release, of all runs: sums in units of one record's bound, or directions.
    """

    def __init__(
        self,
        runs: Sequence[FrontierRun],
        found: Sequence[Family],
        layers: int,
        dim: int,
        batch: float,
        steps: int,
        generator: torch.Generator,
    ) -> None:
        device = generator.device
        self.generator, self.found, self.batch = generator, list(found), batch
        fixed, each = [], []
        for run in runs:
            noise, shrink = run.defence.noise, 0.0
            apart = math.sqrt(layers) if run.defence.rule == "per-layer" else 1.0
            fixed.append(run.value * apart if noise == "gaussian" else 0.0)
            if noise == "directional":
                shrink = float(bessel_ratio(0.5 * dim - 1.0, run.value))
            each.append((1.0 - shrink**2) / dim / shrink**2 if shrink else 0.0)
        self._fixed = torch.tensor(fixed, dtype=torch.float64, device=device).square()
        self._each = torch.tensor(each, dtype=torch.float64, device=device)
        self._cosines: list[list[tuple[Tensor, Tensor]]] = []
        self.kappas: list[Tensor] = []
        for family in self.found:
            if family.kind != "spherical":
                continue
            kappas = [run.value for run in runs[family.runs]]
            self.kappas.append(torch.tensor(kappas, dtype=torch.float64, device=device))
            self._cosines.append([self._drawn(kappas, size, steps) for size in family.sizes])
        self.step = 0

    def _drawn(self, kappas: Sequence[float], size: int, steps: int) -> tuple[Tensor, Tensor]:
        """(runs, steps) of cosines and sines: they do not depend on the gradient."""
        like = torch.empty(1, device=self.generator.device)
        pairs = [cosines(steps, size, kappa, like, self.generator) for kappa in kappas]
        cosine, sine = (torch.stack([p[side].float() for p in pairs]) for side in (0, 1))
        return cosine, sine

    def variance(self, count: Tensor) -> Tensor:
        """(R,): of the additive noise's coordinates, with so many records in the batch."""
        return self._fixed + self._each * count.double()

    def __call__(self, sums: Tensor, count: Tensor) -> Tensor:
        """Releases the sums (R, dim) of a batch; returns what optimizers get."""
        drawn = torch.randn(sums.shape, device=sums.device, generator=self.generator)
        gradient = sums / self.batch
        release = sums
        place = 0
        for family in self.found:
            here = family.runs
            if family.kind == "additive":
                scale = self.variance(count.clamp(min=1.0))[here].sqrt().float()
                self.noise = drawn[here] * scale[:, None]
                gradient[here] += self.noise / self.batch
                continue
            made = self._turned(sums[here], drawn[here], family, self._cosines[place])
            release = torch.cat([release[: here.start], made, release[here.stop :]])
            gradient[here] = made
            place += 1
        self.release = release
        self.step += 1
        return gradient

    def _turned(
        self,
        sums: Tensor,
        drawn: Tensor,
        family: Family,
        pairs: list[tuple[Tensor, Tensor]],
    ) -> Tensor:
        out = []
        pieces = zip(
            torch.split(sums, list(family.sizes), 1),
            torch.split(drawn, list(family.sizes), 1),
            pairs,
            block_weights(family.sizes),
            strict=True,
        )
        for block, noise, (cosine, sine), weight in pieces:
            norm = block.norm(dim=1, keepdim=True)
            unit = torch.where(norm > 0, block / norm.clamp(min=1e-30), torch.zeros_like(block))
            tangent = noise - (noise * unit).sum(1, keepdim=True) * unit
            tangent = tangent / tangent.norm(dim=1, keepdim=True)
            t, s = cosine[:, self.step, None], sine[:, self.step, None]
            # A sum of zero has no direction: its release is uniform.
            out.append(weight * torch.where(norm > 0, t * unit + s * tangent, tangent))
        return torch.cat(out, 1)


class Filter:
    """DOPPLER's low-pass filter for some runs: post-processing of releases.

    The recursion and the start of :class:`recondite.training.low_pass.LowPass`, default weights.
    """

    def __init__(self, chosen: Sequence[bool], dim: int, device: torch.device) -> None:
        self.on = torch.tensor(list(chosen), device=device)[:, None]
        self.any = any(chosen)
        shape = (len(chosen), dim) if self.any else (0,)
        self.last, self.out = (torch.zeros(shape, device=device) for _ in range(2))
        self.one, self.begun = 0.0, False

    def __call__(self, gradient: Tensor) -> Tensor:
        """The gradients, those of the chosen runs filtered."""
        if not self.any:
            return gradient
        self.out = _FEEDBACK * self.out + _FORWARD * (gradient + self.last)
        self.one = _FEEDBACK * self.one + _FORWARD * (2.0 if self.begun else 1.0)
        self.begun, self.last = True, gradient.clone()
        return torch.where(self.on, self.out / self.one, gradient)
