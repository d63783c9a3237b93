"""What an attacker sees of some records: releases, with the law that the defence made them by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.func import jvp, vmap

from recondite.attacks.posterior.gradients import BoundedGradient
from recondite.attacks.posterior.prior import PublicPrior
from recondite.gradients.leaked import configured_for, leaked_gradients
from recondite.mechanisms import Gaussian, Observed

if TYPE_CHECKING:
    from recondite.attacks.victim import Defended, Victim

__all__ = ["STAND_IN", "ReleaseSite", "log_likelihoods", "released", "site_of"]

STAND_IN = 1e-3  # noise multiplier that stands in for none
_REHEARSED = 0  # seed of releases that an attacker makes for himself
_TANGENTS = 50  # directions differentiated at once
_CELLS = 1 << 23  # gradients by candidates held at once where inner products do not do


@dataclass(frozen=True, eq=False)
class ReleaseSite:
    """Releases of some victims' records at one setting of the model's weights.

    Attributes:
      gradient: A record's bounded gradient at these weights.
      law: The defence's law.
      seen: (victims, releases, dim), as the mechanism released them, in its units.
      rest: (victims, dim), the known sum of the others in each batch, in units; None where a
        record is alone.
      noisy: Whether the defence adds noise; where not, ``law`` has a little that stands in for it.
      again: Makes as many releases, in the same units, of other records alone from their images
        and labels, for an attacker who rehearses; None where that is not known.
    """

    gradient: BoundedGradient
    law: Observed
    seen: Tensor
    rest: Tensor | None = None
    noisy: bool = True
    again: Callable[[Tensor, Tensor], Tensor] | None = None

    def centre(self, gradients: Tensor, victim: int) -> Tensor:
        """What the mechanism gets, in its units, from bounded gradients (…, dim) of a record."""
        handed: Tensor = self.law.units.of(gradients)
        return handed if self.rest is None else handed + self.rest[victim].to(handed)

    def log_likelihood(self, victim: int, centres: Tensor) -> Tensor:
        """Log-density of all of a victim's releases given (n, dim), up to a constant, (n,)."""
        law, seen = self.law.mechanism, self.seen[victim].to(centres)
        sizes = law.likelihood_blocks()
        if sizes is None or law.stage == "record":
            rows = centres[:, None] if law.stage == "record" else centres
            each = [law.log_likelihood(one.expand_as(centres), rows) for one in seen]
            return torch.stack(each).sum(0)
        inner, squared, own = _products(seen, centres, sizes)
        total: Tensor = law.log_likelihood_of_products(inner, squared, own[:, None]).sum(0)
        return total

    def table(self, gradients: Tensor, wanted: Tensor) -> Tensor:
        """Log-likelihoods of all victims under (n, dim) candidates, (victims, n)."""
        law = self.law.mechanism
        out = torch.zeros(wanted.shape, dtype=torch.float64, device=gradients.device)
        sizes = None if law.stage == "record" else law.likelihood_blocks()
        if sizes is not None and self.rest is None:  # one matrix product for all victims
            centres = self.centre(gradients, 0).double()
            seen = self.seen.double()
            inner, squared, own = _products(seen.flatten(0, 1), centres, sizes)
            shape = seen.shape[:2]
            inner, own = inner.reshape(*shape, *inner.shape[1:]), own.reshape(*shape, -1)
            each = law.log_likelihood_of_products(inner, squared, own[:, :, None])
            out += each.sum(1)
            return out
        step = max(1, _CELLS // self.gradient.dim)
        for victim, chosen in enumerate(wanted):
            for places in chosen.nonzero().flatten().split(step):
                centres = self.centre(gradients[places], victim).double()
                out[victim, places] = self.log_likelihood(victim, centres)
        return out

    def linearised(
        self, victim: int, prior: PublicPrior, point: Tensor, label: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The log-likelihood around a point of the prior's coordinates: vector and precision.

        The score is the likelihood's own; the precision the expected (Fisher) information of the
        releases, i·JᵀJ with J the Jacobian of the bounded gradient (of its direction, for a
        release without scale), as Gauss and Newton have it.
        """
        law, dtype = self.law.mechanism, torch.float32
        information = law.fisher_information()
        basis = prior.basis.to(dtype)

        def centred(point: Tensor) -> Tensor:
            flat = prior.mean.to(dtype) + point @ basis
            return self.centre(self.gradient.at(flat.reshape(prior.shape), label), victim)

        at = point.to(dtype)
        columns = []
        for start in range(0, prior.rank, _TANGENTS):
            tangents = torch.eye(prior.rank, dtype=dtype, device=at.device)[
                start : start + _TANGENTS
            ]
            columns.append(vmap(lambda t: jvp(centred, (at,), (t,))[1])(tangents))
        jacobian = torch.cat(columns)  # (rank, dim)
        centre = centred(at).detach().double().requires_grad_(True)
        with torch.enable_grad():
            (pull,) = torch.autograd.grad(self.log_likelihood(victim, centre[None])[0], centre)
        score = (jacobian @ pull.to(dtype)).double()
        if law.scale_free:
            length = centre.detach().norm()
            unit = (centre.detach() / length).to(dtype)
            jacobian = (jacobian - (jacobian @ unit)[:, None] * unit) / length.to(dtype)
        count = self.seen.shape[1]
        precision = count * information * (jacobian @ jacobian.T).double()
        return score + precision @ point, precision


def _products(seen: Tensor, centres: Tensor, sizes: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
    """⟨release, centre⟩ (k, n, parts), ‖centre‖² (n, parts) and ‖release‖² (k, parts)."""
    parts = (torch.split(one, list(sizes), 1) for one in (seen, centres))
    pairs = list(zip(*parts, strict=True))
    inner = torch.stack([mine @ theirs.T for mine, theirs in pairs], -1)
    squared = torch.stack([theirs.square().sum(1) for _, theirs in pairs], -1)
    return inner, squared, torch.stack([mine.square().sum(1) for mine, _ in pairs], -1)


def log_likelihoods(
    sites: Sequence[ReleaseSite], images: Tensor, labels: Tensor, wanted: Tensor
) -> Tensor:
    """Log-likelihood of every victim's releases under every candidate, (victims, candidates).

    Args:
      sites: What was seen.
      images: Candidates, (n, c, h, w).
      labels: Theirs.
      wanted: (victims, n), whether a victim's candidate is to be tried; −∞ where not.
    """
    total = torch.zeros(wanted.shape, dtype=torch.float64, device=images.device)
    for site in sites:
        for place, rows in site.gradient.rows(images, labels):
            total[:, place] += site.table(rows, wanted[:, place])
    return total.masked_fill(~wanted, -torch.inf)


def released(
    victim: Victim, model: nn.Module, images: Tensor, labels: Tensor, count: int
) -> tuple[ReleaseSite, tuple[str, ...]]:
    """What ``count`` steps on each record alone release, with fresh noise, and what to note.

    Args:
      victim: Whose defence.
      model: Its weights at these steps.
      images: (victims, c, h, w).
      labels: (victims,).
      count: Releases of each record.
    """
    again = images.repeat_interleave(count, 0)[:, None]
    leak = victim.leak(model, again, labels.repeat_interleave(count)[:, None])
    flat = torch.cat([part.flatten(1) for part in leak.values()], 1)
    return site_of(model, victim.defence, flat.reshape(len(images), count, -1))


def site_of(
    model: nn.Module, defence: Defended, gradients: Tensor
) -> tuple[ReleaseSite, tuple[str, ...]]:
    """Releases of records alone, whoever made them, with the defence's law, and what to note.

    Args:
      model: Its weights at these steps.
      defence: What was done to the gradients.
      gradients: (victims, releases, dim), in the model's numbers.
    """
    noisy = bool(defence.mechanism.parameter)
    law = configured_for(
        defence.mechanism if noisy else Gaussian(STAND_IN),
        model,
        1,
        clipping=defence.clipping,
        max_grad_norm=defence.max_grad_norm,
    )
    seen = law.units.observed(gradients, law.mechanism)

    def again(images: Tensor, labels: Tensor) -> Tensor:
        count = gradients.shape[1]
        batches = images.repeat_interleave(count, 0)[:, None]
        leak = leaked_gradients(
            model,
            defence.seen(batches),
            labels.repeat_interleave(count)[:, None],
            defence.mechanism,
            clipping=defence.clipping,
            max_grad_norm=defence.max_grad_norm,
            seed=_REHEARSED,
        )
        flat = torch.cat([part.flatten(1) for part in leak.values()], 1)
        made: Tensor = law.units.observed(flat, law.mechanism)
        return made.reshape(len(images), count, -1)

    gradient = BoundedGradient(model, defence.clipping, defence.max_grad_norm)
    stands_in = f"no noise on gradients: a normal law of noise multiplier {STAND_IN:g} stands in"
    return ReleaseSite(gradient, law, seen, noisy=noisy, again=again), () if noisy else (stands_in,)
