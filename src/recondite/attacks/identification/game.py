"""The identification game: whoever sees a training picks the record out of n candidates.

The attacker of the reconstruction bound's proof, played for real. It knows every other record and
the batches they were in, the mechanism and all weights; it sees every release r_t. With S_t the
bounded sum of the others and g_t(z) candidate z's bounded gradient at the weights of step t,

    ℓ_t(z) = ln f(r_t | S_t + g_t(z)) - ln f(r_t | S_t),    f the mechanism's density,

and the score of a candidate follows from how the record took part. Where that is secret:

    Poisson:            Σ_t ln(1 - q + q·e^{ℓ_t(z)})
    random allocation:  Σ_epochs ln((1/T)·Σ_t e^{ℓ_t(z)})
    participation known, or no secret: Σ of ℓ_t(z) over the steps it took part in.

Choosing the largest score is Bayes-optimal for candidates drawn alike, given a fixed divisor,
independent participation, and weights that are a function of the releases. No attacker can succeed
more often than the bound of :func:`recondite.leakage.rero` at 1/n; this one comes near it where
gradients do not shrink. Everything is computed in units of one record's bound.

Many games are played at once. Every target is a record of the training set; for its own game all
other targets belong to the others, whom the attacker knows. A pool of records that took no part,
drawn alike, gives the other candidates of every game.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from recondite import _validate
from recondite.gradients.clipping import Bound
from recondite.gradients.collector import Collector
from recondite.gradients.handover import Turn, bound_rows
from recondite.mechanisms import Mechanism, Units

__all__ = ["IdentificationGame", "Turn"]

Array = npt.NDArray[np.float64]
PARTICIPATION = ("poisson", "allocation", "known")


class IdentificationGame:
    """Plays one game a target, over all steps of a run.

    Attributes:
      targets: Places of the targets in the training set.
      taken_part: How often each target took part so far.
    """

    def __init__(
        self,
        model: nn.Module,
        mechanism: Mechanism,
        units: Units,
        bound: Bound,
        *,
        targets: Sequence[int],
        target_records: tuple[Tensor, Tensor],
        pool: tuple[Tensor, Tensor],
        participation: str = "poisson",
        rate: float | None = None,
        batches: int | None = None,
        loss_fn: Callable[[Tensor, Tensor], Tensor] | None = None,
    ) -> None:
        """Prepares the games.

        Args:
          model: The model that is trained; its weights are read at every turn.
          mechanism: Configured for the run; its noise must be on sums.
          units: Of the run.
          bound: How a record's gradient is bounded.
          targets: Places of the targets in the training set.
          target_records: Inputs and labels of the targets, in that order.
          pool: Inputs and labels of records that took no part, drawn as the targets were.
          participation: What hides who took part: "poisson", "allocation", or nothing ("known").
          rate: q, with Poisson batches.
          batches: T, with random allocation.
          loss_fn: Averaged over the records it is given; cross-entropy by default.
        """
        self._participation = _validate.choice("participation", participation, PARTICIPATION)
        if mechanism.stage != "sum" or mechanism.likelihood_blocks() is None:
            raise ValueError(
                f"{mechanism.name} has no density that is known in closed form for a sum: play one "
                "release of one record instead"
            )
        if participation == "poisson" and rate is None:
            raise ValueError("rate is needed with Poisson batches")
        if participation == "allocation" and batches is None:
            raise ValueError("batches is needed with random allocation")
        for name, (inputs, labels) in (("target_records", target_records), ("pool", pool)):
            if len(inputs) != len(labels):
                raise ValueError(f"{name} must have one label a record")
        if target_records[0].shape[1:] != pool[0].shape[1:]:
            raise ValueError("pool must hold records of the same shape as the targets")
        if len(target_records[0]) != len(targets):
            raise ValueError("target_records must hold one record for each of targets")
        self.targets = list(targets)
        self.taken_part = np.zeros(len(self.targets), dtype=np.int64)
        self._mechanism, self._units, self._bound = mechanism, units, bound
        self._rate, self._batches = rate, batches
        self._watched = model
        self._model = copy.deepcopy(model).train()
        self._collector = Collector(self._model)
        self._loss_fn = loss_fn or nn.functional.cross_entropy
        self._inputs = torch.cat([target_records[0], pool[0]])
        self._labels = torch.cat([target_records[1], pool[1]])
        games, others = len(self.targets), len(pool[0])
        # Column 0 is the target itself, the rest the pool.
        self._secret: Array = np.zeros((games, 1 + others))
        self._known: Array = np.zeros((games, 1 + others))
        self._epoch: Array = np.full((games, 1 + others), -np.inf)
        self._turns = 0

    @property
    def secret(self) -> Array:
        """Scores of an attacker who is not told when the target took part (games, candidates)."""
        if self._participation == "known":
            return self._known
        return self._secret

    @property
    def known(self) -> Array:
        """Scores of an attacker who is told."""
        return self._known

    def watch(self, turn: Turn) -> None:
        """Takes one release into account; call it before the weights change."""
        gradients = self._gradients()
        ratio = self._log_ratio(turn, gradients)
        part = np.isin(self.targets, np.asarray(turn.records))
        self.taken_part += part
        self._known[part] += ratio[part]
        if self._participation == "poisson":
            assert self._rate is not None
            self._secret += _log_mixture(ratio, self._rate)
        if self._participation == "allocation":
            assert self._batches is not None
            self._epoch = np.logaddexp(self._epoch, ratio)
            self._turns += 1
            if self._turns == self._batches:
                self._secret += self._epoch - np.log(self._batches)
                self._epoch[:], self._turns = -np.inf, 0

    def _gradients(self) -> Tensor:
        """Bounded gradients of targets and pool at the model's weights, in units (rows)."""
        with torch.no_grad():
            for own, theirs in zip(
                self._model.parameters(), self._watched.parameters(), strict=True
            ):
                own.copy_(theirs)
        with torch.enable_grad():
            loss = self._loss_fn(self._model(self._inputs), self._labels)
            torch.autograd.backward(loss)
        with torch.no_grad():
            rows = self._collector.per_sample(len(self._inputs), mean=True)
            bounded = bound_rows(rows, self._collector, self._bound)
            units: Tensor = self._units.of(bounded, reuse=True)
            return units.double()

    def _log_ratio(self, turn: Turn, gradients: Tensor) -> Array:
        """ℓ_t of every game and candidate, from inner products (games, 1 + pool)."""
        sizes = self._mechanism.likelihood_blocks()
        assert sizes is not None
        games = len(self.targets)
        total, release = (turn.total.detach().double(), turn.release.detach().double())
        part = torch.as_tensor(
            np.isin(self.targets, np.asarray(turn.records)), dtype=torch.float64
        ).to(gradients)
        inner, squared, base_inner, base_squared, own = [], [], [], [], []
        start = 0
        for size in sizes:
            place = slice(start, start + size)
            block, r, s = gradients[:, place], release[place], total[place]
            mine = block[:games]
            with_r, with_s = block @ r, block @ s
            squares = (block * block).sum(1)
            # The others' sum is the total less the target's own gradient, where it took part.
            rest_r = r @ s - part * with_r[:games]
            rest_s = s @ s - part * (2 * with_s[:games] - squares[:games])
            cross = torch.zeros(games, len(block), dtype=torch.float64, device=block.device)
            there = part > 0
            if bool(there.any()):
                cross[there] = mine[there] @ block.T
            pairs_s = with_s[None] - cross  # ⟨others' sum, candidate⟩
            columns = torch.cat([torch.arange(games)[:, None], _pool(games, len(block))], 1)
            columns = columns.to(block.device)
            inner.append(rest_r[:, None] + with_r[columns])
            squared.append(
                rest_s[:, None] + 2 * torch.gather(pairs_s, 1, columns) + squares[columns]
            )
            base_inner.append(rest_r[:, None])
            base_squared.append(rest_s[:, None].clamp(min=0.0))
            own.append(r @ r)
            start += size
        mechanism, length = self._mechanism, torch.stack(own)
        with_candidate = mechanism.log_likelihood_of_products(
            torch.stack(inner, -1), torch.stack(squared, -1).clamp(min=0.0), length
        )
        without = mechanism.log_likelihood_of_products(
            torch.stack(base_inner, -1), torch.stack(base_squared, -1), length
        )
        out: Array = (with_candidate - without).cpu().numpy()
        return out


def _pool(games: int, rows: int) -> Tensor:
    return torch.arange(games, rows).expand(games, rows - games)


def _log_mixture(ratio: Array, rate: float) -> Array:
    """ln(1 - q + q·e^ℓ), without overflow."""
    if rate == 1.0:
        return ratio
    out: Array = np.logaddexp(np.log1p(-rate), np.log(rate) + ratio)
    return out
