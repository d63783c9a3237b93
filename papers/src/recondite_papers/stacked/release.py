"""What every run of a stack releases at a step: bounded, averaged and noised gradients.

The laws are those of :mod:`recondite.mechanisms`; only the bookkeeping differs, since runs with
other mechanisms and parameters stand in one tensor. Cosines of von Mises-Fisher draws do not
depend on the gradient, so those of a whole training are drawn before it, by the same exact sampler.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from recondite._validate import choice
from recondite.numerics.sphere import cosines
from recondite_papers.stacked.blocks import Partition
from recondite_papers.stacked.network import Stack, Taps

__all__ = ["Releaser", "StackRelease"]

KINDS = ("none", "clip", "gaussian", "vmf", "directional")
_NUMBERS = 1 << 28  # entries of per-sample gradients at once: 1 GiB, and as much for each temporary
CLIPPING = ("none", "flat", "per-layer", "scale", "psac")


@dataclass(frozen=True)
class StackRelease:
    """What one run of a stack releases.

    Attributes:
      kind: "none" (no defence), "clip", "gaussian", "vmf" (on the average) or "directional" (on
        each record).
      value: σ or κ.
      clipping: "flat", "per-layer" (every layer to ``norm``), "scale", "psac" or "none".
      norm: C.
      sensitivity: Norm that σ multiplies; with per-layer clipping C·sqrt(layers) is sound, and C
        what a program that forgets the layers would use.
      blocks: Partition of directional noise: "flat", "layers", "rows", "last-axis", "elements" or
        a number of parts.
      weights: "public" (sqrt(size/dim)); "own": the block's share of the unit gradient; "clipped":
        the block's norm after clipping to 1 where the others scale to 1. A program might keep
        such norms; that releases them, so its ε is infinite.
    """

    kind: str = "none"
    value: float = 0.0
    clipping: str = "flat"
    norm: float = 1.0
    sensitivity: float | None = None
    blocks: str | int = "flat"
    weights: str = "public"

    def __post_init__(self) -> None:
        choice("kind", self.kind, KINDS)
        choice("clipping", self.clipping, CLIPPING)
        choice("weights", self.weights, ("public", "own", "clipped"))


class Releaser:
    """Turns taps into the gradients (R, dim) that optimizers get."""

    def __init__(
        self,
        stack: Stack,
        releases: Sequence[StackRelease],
        batch: int,
        steps: int,
        generator: torch.Generator,
    ) -> None:
        self.stack, self.batch, self.generator = stack, batch, generator
        self.releases = list(releases)
        if len(self.releases) != stack.runs:
            raise ValueError(f"releases must be one for each of {stack.runs} runs")
        layers = len(stack.weights)
        self._limits()
        self.sigma = self._column(
            [
                0.0 if r.kind != "gaussian" else r.value * (r.sensitivity or self._norm(r, layers))
                for r in self.releases
            ]
        )
        self.turned = [i for i, r in enumerate(self.releases) if r.kind == "vmf"]
        noisy = [i for i, r in enumerate(self.releases) if r.kind == "gaussian"]
        self.on_noisy = _index(noisy, stack.device)
        self.on_turned = _index(self.turned, stack.device)
        self.records = [i for i, r in enumerate(self.releases) if r.kind == "directional"]
        if self.turned:
            self._draw_cosines(steps)
        self._partition = None
        if self.records:
            chosen = {(r.blocks, r.weights) for r in self.releases if r.kind == "directional"}
            if len(chosen) > 1 or len(self.records) != len(self.releases):
                raise ValueError("directional runs of one stack must share blocks and weights")
            blocks, weights = next(iter(chosen))
            kappas = [r.value for r in self.releases]
            self._partition = Partition(stack, kappas, blocks, weights, generator)
        # Releases done: on the device, so that a recorded step can count.
        self.step = torch.zeros(1, device=stack.device, dtype=torch.long)

    def _column(self, values: Sequence[float]) -> Tensor:
        return torch.tensor(values, device=self.stack.device)[:, None]

    @staticmethod
    def _norm(release: StackRelease, layers: int) -> float:
        return release.norm * (layers**0.5 if release.clipping == "per-layer" else 1.0)

    def _limits(self) -> None:
        """Which runs are bounded, how, and by what; nothing here is asked of the device later."""
        runs = [i for i, r in enumerate(self.releases) if r.clipping != "none"]
        self.bounded = _index(runs, self.stack.device)
        chosen = [self.releases[i] for i in runs]
        self.limit = self._column([r.norm for r in chosen])[:, :, None]
        self.modes = {
            mode: torch.tensor([r.clipping == mode for r in chosen], device=self.stack.device)[
                :, None, None
            ]
            for mode in {r.clipping for r in chosen}
        }
        self.plain = torch.tensor(
            [r.clipping == "none" for r in self.releases], device=self.stack.device
        )[:, None]

    def _draw_cosines(self, steps: int) -> None:
        drawn: dict[float, list[Tensor]] = {}
        like = torch.empty(1, device=self.stack.device)
        kappas = [self.releases[i].value for i in self.turned]
        for kappa in dict.fromkeys(kappas):
            count = kappas.count(kappa) * steps
            pair = cosines(count, self.stack.dim, kappa, like, self.generator)
            drawn[kappa] = [values.float().view(-1, steps) for values in pair]
        used = dict.fromkeys(drawn, 0)
        rows: list[tuple[Tensor, Tensor]] = []
        for kappa in kappas:
            at = used[kappa]
            rows.append((drawn[kappa][0][at], drawn[kappa][1][at]))
            used[kappa] = at + 1
        self.cosine = torch.stack([row[0] for row in rows])
        self.sine = torch.stack([row[1] for row in rows])

    @torch.no_grad()
    def __call__(self, taps: Taps, mask: Tensor) -> Tensor:
        """The released gradients of all runs."""
        if self._partition is not None:
            return self._directional(self._partition, taps, mask) / self.batch
        average = self.stack.weighted_sum(taps, self.factors(taps, mask))
        # Without a defence the loss is averaged over the records that are there.
        count = mask.sum(1, keepdim=True).clamp(min=1.0)
        average /= torch.where(self.plain, count, torch.full_like(count, float(self.batch)))
        if self.on_noisy is not None:
            sigma = self.sigma[self.on_noisy]
            noise = torch.randn(
                (len(sigma), average.shape[1]), device=average.device, generator=self.generator
            )
            average[self.on_noisy] += noise * (sigma / self.batch)
        if self.on_turned is not None:
            average[self.on_turned] = self._turn(average[self.on_turned])
        self.step += 1
        return average

    def _directional(self, partition: Partition, taps: Taps, mask: Tensor) -> Tensor:
        """Sum of the records' noised gradients, as many at a time as memory holds."""
        total = torch.zeros((self.stack.runs, self.stack.dim), device=mask.device)
        flipped = partition.single and partition.clipped
        # Where flips are drawn one by one, only the other runs' gradients are formed.
        runs = max(1, len(partition.often)) if flipped else self.stack.runs
        count = max(1, _NUMBERS // (runs * self.stack.dim))
        for start in range(0, mask.shape[1], count):
            some, taken = taps.samples(start, start + count), mask[:, start : start + count]
            if flipped:
                total += partition.flipped(self.stack, some, self._clipped(some, taken))
            else:
                total += partition(self.stack.per_sample(some), taken)
        return total

    def _clipped(self, taps: Taps, mask: Tensor) -> Tensor:
        """(R, B): what clips each sample's gradient to length 1."""
        norms = self.stack.squared_norms(taps).sum(-1).sqrt()
        return mask * torch.where(norms > 1.0, 1.0 / norms, torch.ones_like(norms))

    def factors(self, taps: Taps, mask: Tensor) -> Tensor:
        """(R, B, layers): what each sample's gradient is multiplied by."""
        layers = len(taps.inputs)
        factors = mask[:, :, None].repeat(1, 1, layers)
        if self.bounded is not None:
            part = self.bounded
            cut = Taps([a[part] for a in taps.inputs], [d[part] for d in taps.deltas])
            factors[part] *= self._bounds(self.stack.squared_norms(cut))
        return factors

    def _bounds(self, squared: Tensor) -> Tensor:
        """Factors from squared norms (runs, B, layers) of the runs that are bounded."""
        limit = self.limit
        whole = squared.sum(-1, keepdim=True).sqrt()
        # A norm of zero (or one whose square underflows) has no direction: it contributes nothing.
        ratio = torch.where(whole > 0, limit / whole.clamp(min=1e-38), torch.zeros_like(whole))
        factor = ratio.clamp(max=1.0).expand_as(squared)
        if "per-layer" in self.modes:
            layered = (limit / squared.sqrt().clamp(min=1e-38)).clamp(max=1.0)
            factor = torch.where(self.modes["per-layer"], layered, factor)
        if "psac" in self.modes:
            adaptive = limit / (whole + 0.1 / (whole + 0.1))
            factor = torch.where(self.modes["psac"], adaptive, factor)
        if "scale" in self.modes:
            factor = torch.where(self.modes["scale"], ratio, factor)
        return torch.where(torch.isfinite(whole), factor, torch.zeros_like(factor))

    def _turn(self, average: Tensor) -> Tensor:
        """A draw from VMF(average/‖average‖, κ) for each row; a zero row becomes uniform."""
        norms = average.norm(dim=1, keepdim=True)
        noise = torch.randn(average.shape, device=average.device, generator=self.generator)
        unit = torch.where(norms > 0, average / norms.clamp(min=1e-38), torch.zeros_like(average))
        along = (noise * unit).sum(1, keepdim=True)
        tangent = noise - along * unit
        tangent /= tangent.norm(dim=1, keepdim=True)
        t = self.cosine.index_select(1, self.step)
        s = self.sine.index_select(1, self.step)
        return torch.where(norms > 0, t * unit + s * tangent, tangent)


def _index(runs: list[int], device: torch.device) -> slice | Tensor | None:
    """Runs as a slice where they are neighbours (a view, not a copy), or as a tensor there."""
    if not runs:
        return None
    if runs == list(range(runs[0], runs[-1] + 1)):
        return slice(runs[0], runs[-1] + 1)
    return torch.tensor(runs, device=device)
