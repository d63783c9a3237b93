"""The identification games of R runs at once, on the device.

The scores of :class:`recondite.attacks.identification.IdentificationGame`, whose attacker knows
every other record, the batches they were in, the mechanism and all weights, and sees every release.
Everything is in inner products, and in double precision once these are taken. Nothing is asked of
the device before the end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from recondite_papers.frontier.banks import CandidateRows
from recondite_papers.frontier.batches import FrontierPlan
from recondite_papers.frontier.releases import BankReleaser, Family

__all__ = ["Games", "additive", "spherical"]


class Games:
    """Scores (R, victims, 1 + pool): of the victim itself, then of the pool.

    Attributes:
      known: Σ ℓ over the steps the victim took part in.
      secret: Poisson: Σ ln(1 - q + q·e^ℓ); random allocation: Σ over epochs of ln((1/T)·Σ e^ℓ);
        the same as ``known`` for noise on each record, where participation is no secret.
    """

    def __init__(
        self,
        runs: int,
        plan: FrontierPlan,
        pool: int,
        sampling: str,
        told: Sequence[bool],
        device: torch.device,
    ) -> None:
        shape = (runs, plan.victims, 1 + pool)
        self.known = torch.zeros(shape, dtype=torch.float64, device=device)
        self._secret = torch.zeros_like(self.known)
        self._epoch = torch.full_like(self.known, -math.inf) if sampling == "allocation" else None
        self._told = torch.tensor(list(told), device=device)[:, None, None]
        self._per_epoch, self._step = plan.per_epoch, 0

    @property
    def secret(self) -> Tensor:
        """Of an attacker who is not told when the victim took part."""
        return torch.where(self._told, self.known, self._secret)

    def add(self, ratios: Tensor, taken: Tensor) -> None:
        """Takes a step's log-ratios ℓ (R, victims, 1 + pool) into account."""
        self.known += ratios * taken.double()[None, :, None]
        self._step += 1
        if self._epoch is None:
            rate = 1.0 / self._per_epoch
            there = ratios + math.log(rate)
            self._secret += torch.logaddexp(there, torch.full_like(there, math.log1p(-rate)))
            return
        self._epoch = torch.logaddexp(self._epoch, ratios)
        if self._step % self._per_epoch == 0:
            self._secret += self._epoch - math.log(self._per_epoch)
            self._epoch = torch.full_like(self._epoch, -math.inf)


def additive(rows: CandidateRows, inner: Tensor, variance: Tensor, taken: Tensor) -> Tensor:
    """ℓ under normal noise n, where a victim's batch without it is r - n - m·g.

    ⟨r - S, g_z⟩ is ⟨n, g_z⟩ + m·⟨g, g_z⟩, so that large sums cancel before they are formed.

    Args:
      rows: Of one block.
      inner: (R, n): ⟨n, g⟩ of every record.
      variance: (R,), of the noise.
      taken: (victims,), m.
    """
    victims = len(taken)
    inner, squared = inner.double(), rows.squared[..., 0].double()
    m = taken.double()
    own = inner[:, :victims] + (m - 0.5) * squared[:, :victims]
    pool = (inner - 0.5 * squared)[:, None, victims:] + m[:, None] * rows.cross[..., 0].double()
    return torch.cat([own.unsqueeze(-1), pool], 2) / variance[:, None, None]


def spherical(
    rows: CandidateRows, inner: Tensor, sums: Tensor, release: Tensor, kappa: Tensor,
    sizes: tuple[int, ...], taken: Tensor,
) -> Tensor:  # fmt: skip
    """ℓ under von Mises-Fisher noise: the change of κ·cos, block by block.

    Args:
      rows: Of every block.
      inner: (R, n, 2, blocks): of every record with the release and with the batch's sum.
      sums: (R, dim), of the whole batch.
      release: (R, dim).
      kappa: (R,), of every block.
      sizes: Of the blocks.
      taken: (victims,), m.
    """
    victims, m = len(taken), taken.double()
    out: Tensor | float = 0.0
    r_blocks, s_blocks = (torch.split(v.double(), list(sizes), 1) for v in (release, sums))
    for place, (r, s) in enumerate(zip(r_blocks, s_blocks, strict=True)):
        with_r, with_s = (inner[:, :, side, place].double() for side in (0, 1))
        squared = rows.squared[..., place].double()
        cross = rows.cross[..., place].double()
        length = (r * r).sum(1)[:, None].sqrt()
        # The sum without the victim, where it took part.
        rest_r = (r * s).sum(1)[:, None] - m * with_r[:, :victims]
        rest_s = (s * s).sum(1)[:, None] - m * (2.0 * with_s[:, :victims] - squared[:, :victims])
        empty = _cosine(rest_r, rest_s, length)
        own = _cosine(
            rest_r + with_r[:, :victims],
            rest_s + 2.0 * with_s[:, :victims] + (1.0 - 2.0 * m) * squared[:, :victims],
            length,
        )
        pool = _cosine(
            rest_r[..., None] + with_r[:, None, victims:],
            rest_s[..., None]
            + 2.0 * (with_s[:, None, victims:] - m[:, None] * cross)
            + squared[:, None, victims:],
            length[..., None],
        )
        change = torch.cat([own.unsqueeze(-1), pool], 2) - empty.unsqueeze(-1)
        out = out + kappa[:, None, None] * change
    assert isinstance(out, Tensor)
    return out


def _cosine(inner: Tensor, squared: Tensor, length: Tensor) -> Tensor:
    """0 for a sum that is zero: its release is uniform."""
    there = squared > 1e-12
    return torch.where(there, inner / (squared.clamp(min=1e-12).sqrt() * length), 0.0)


def ratios(
    family: Family, place: int, releaser: BankReleaser, rows: CandidateRows, inner: Tensor,
    sums: Tensor, count: Tensor, taken: Tensor,
) -> Tensor:  # fmt: skip
    """ℓ of a family's runs."""
    if family.kind == "additive":
        return additive(rows, inner[:, :, 0, 0], releaser.variance(count)[family.runs], taken)
    return spherical(
        rows, inner, sums[family.runs], releaser.release[family.runs], releaser.kappas[place],
        family.sizes, taken,
    )  # fmt: skip
