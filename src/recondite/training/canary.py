"""A canary audit: does training cost what the engine claims?

A model whose per-sample gradients are its inputs is trained by the engine itself, many times, on
two data sets that differ in one record, the canary. What the engine released is scored with the
exact log-likelihood ratio, and the scores give a lower bound on ε that holds whatever the code
does. A claim below it is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import binom
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from recondite import _validate
from recondite.accounting import epsilon
from recondite.accounting.auditing import AuditResult, epsilon_lower_bound
from recondite.mechanisms import Mechanism, Neighbouring
from recondite.training.engine import PrivacyEngine

__all__ = ["CanaryResult", "audit_run", "audit_training"]

FloatArray = NDArray[np.float64]
# Gradients before clipping, in units of the bound: the canary's is clipped; the others' together
# are far below it, yet give the batch without it the opposite direction.
_CANARY, _OTHER = 10.0, 1e-3
_LARGEST = 1 << 14  # parameters of a run that an audit imitates: a thousand releases fit in memory


@dataclass(frozen=True)
class CanaryResult:
    """What was claimed, and what was shown.

    Attributes:
      claim: ε at the audit's δ that the engine claims for a run.
      lower: Lower bound on the true one, at the audit's confidence.
      result: The test that shows it.
      dim: Parameters of the model that was trained for it.
      steps: Steps of a run.
    """

    claim: float
    lower: float
    result: AuditResult
    dim: int
    steps: int

    @property
    def refuted(self) -> bool:
        """Whether the claim is wrong, at the audit's confidence."""
        return self.lower > self.claim

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "claim": self.claim,
            "lower": self.lower,
            "refuted": self.refuted,
            "dim": self.dim,
            "steps": self.steps,
            "result": self.result.to_dict(),
        }


@dataclass(frozen=True)
class _World:
    """One of the two data sets: the canary's gradient is ``sign`` times a known direction."""

    sign: float
    mechanism: Mechanism
    sampling: str
    records: int
    batch_size: int
    dim: int
    norm: float

    @property
    def direction(self) -> FloatArray:
        """A unit vector without a zero, so that every block has a direction."""
        vector = np.linspace(1.0, 2.0, self.dim)
        return vector / float(np.linalg.norm(vector))

    def engine(self, seed: int | None) -> tuple[PrivacyEngine, nn.Module, Any, Any]:
        """The engine, with the model, optimizer and loader it made private."""
        sizes = np.full(self.records, -_OTHER)
        sizes[0] = self.sign * _CANARY
        gradients = np.outer(sizes * self.norm, self.direction)
        engine = PrivacyEngine(seed=seed)
        model = nn.Linear(self.dim, 1, bias=False)
        made = engine.make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
            data_loader=DataLoader(
                TensorDataset(torch.from_numpy(gradients).float()), batch_size=self.batch_size
            ),
            mechanism=self.mechanism,
            max_grad_norm=self.norm,
            sampling=self.sampling,
            loss_reduction="sum",
        )
        return (engine, *made)

    def releases(self, count: int, seed: int | None) -> FloatArray:
        """So many gradients that the engine released, as rows in the mechanism's units."""
        engine, model, optimizer, loader = self.engine(seed)
        weight = next(model.parameters())
        out = torch.empty(count, self.dim)
        done = 0
        while done < count:
            for (inputs,) in loader:
                optimizer.zero_grad()
                model(inputs).sum().backward()
                optimizer.step()
                assert weight.grad is not None
                out[done] = weight.grad[0]
                done += 1
                if done == count:
                    break
        seen: FloatArray = engine.units.observed(out.double().numpy(), engine.mechanism)
        return seen

    def _batches(self) -> list[tuple[float, bool, int]]:
        """Probability, whether the canary is in, and how many others are, for every batch."""
        rate, others = self.batch_size / self.records, self.records - 1
        if self.sampling == "fixed-size":
            found = [(rate, True, self.batch_size - 1), (1.0 - rate, False, self.batch_size)]
        else:
            sizes = range(others + 1)
            chance = binom.pmf(sizes, others, rate)
            found = [(rate * chance[k], True, k) for k in sizes]
            found += [((1.0 - rate) * chance[k], False, k) for k in sizes]
        return [(float(p), canary, k) for p, canary, k in found if p > 0.0]

    def log_density(self, sized: Mechanism, releases: FloatArray) -> FloatArray:
        """Exact log-density of every release, over all batches that could be behind it.

        Args:
          sized: The engine's mechanism.
          releases: In its units.
        """
        terms, weights = [], []
        for probability, canary, others in self._batches():
            centre = (self.sign * canary - others * _OTHER) * self.direction
            if sized.stage == "record":
                centre = centre[None, :]
            centres = np.broadcast_to(centre, (len(releases), *centre.shape))
            terms.append(sized.log_likelihood(releases, centres))
            weights.append(probability)
        total: FloatArray = logsumexp(np.stack(terms), axis=0, b=np.array(weights)[:, None])
        return total


def audit_training(
    mechanism: Mechanism,
    *,
    delta: float = 0.02,
    runs: int = 2000,
    steps: int = 1,
    dim: int = 6,
    records: int | None = None,
    batch_size: int | None = None,
    sampling: str | None = None,
    max_grad_norm: float = 1.0,
    confidence: float = 0.999,
    seed: int | None = None,
) -> CanaryResult:
    """Audits a mechanism as the engine releases it, against the worst case.

    The canary's gradient is far above the clipping norm, the others' point the other way and are
    tiny. In the second data set the canary has a zero gradient (which to the engine is a record
    that is not there) where the claim is about adding or removing a record, and the opposite
    gradient where it is about replacing one.

    Guarantee: with probability at least ``confidence``, ``lower`` is at most the true ε(δ) of
    ``steps`` steps of the engine for this pair of data sets, whatever the engine really does. A
    ``lower`` below the claim proves nothing: the audit sees this pair, at this dimension, through
    so many runs. A step takes about a millisecond.

    Args:
      mechanism: What is audited; its ``dim`` and norms are set by the engine.
      delta: δ of the claim and of the bound. Below about 0.01 a few thousand runs show little.
      runs: Independent runs on each of the two data sets.
      steps: Steps of a run.
      dim: Parameters of the model.
      records: Records, the canary with them.
      batch_size: Expected batch size; that of ``records`` when not given.
      sampling: "poisson" or "fixed-size"; the engine's default for the mechanism.
      max_grad_norm: Clipping norm.
      confidence: Probability with which the bound must hold.
      seed: For a repeatable audit.

    Returns:
      The claim and the bound.
    """
    alone = mechanism.stage == "record"
    sampling = sampling or ("fixed-size" if alone else "poisson")
    _validate.choice("sampling", sampling, ("poisson", "fixed-size"))
    records = _validate.at_least("records", records or (1 if alone else 2), 1)
    batch_size = batch_size or (1 if alone else records)
    if alone and (batch_size > 1 or sampling != "fixed-size"):
        raise ValueError(
            "batch_size must be 1 and sampling fixed-size where every record has noise of its own: "
            "an average of several has no exact likelihood"
        )
    runs, steps = _validate.at_least("runs", runs, 10), _validate.at_least("steps", steps, 1)
    delta = _validate.probability("delta", delta)
    setting = (mechanism, sampling, records, batch_size, dim, float(max_grad_norm))
    present = _World(1.0, *setting)
    engine = present.engine(None)[0]
    sized, schedule = engine.mechanism, engine.schedule(steps)
    replaced = schedule.neighbouring(sized) is Neighbouring.REPLACE
    absent = _World(-1.0 if replaced else 0.0, *setting)
    scores = []
    for world, own in zip((present, absent), _seeds(seed), strict=True):
        drawn = world.releases(runs * steps, own)
        ratio = present.log_density(sized, drawn) - absent.log_density(sized, drawn)
        scores.append(ratio.reshape(runs, steps).sum(1))
    result = epsilon_lower_bound(scores[0], scores[1], delta, confidence)
    return CanaryResult(epsilon(sized, schedule, delta), result.epsilon, result, dim, steps)


def audit_run(
    mechanism: Mechanism, configured: Mechanism, *, runs: int = 1000, seed: int | None = None
) -> CanaryResult:
    """Audits the noise of a run: its mechanism and strength, one step, the canary in the batch.

    The claim is for that one step at the audit's own δ, not for the run: with more steps or
    sampling both numbers move together, and one step is what the engine repeats. The model has
    as many parameters as the run's, up to 16,384 (blocks given by their sizes need all of them).

    Args:
      mechanism: What the run was given.
      configured: What the engine made of it: its strength is the one in use, its ``dim`` the
        model's.
      runs: As in :func:`audit_training`.
      seed: As in :func:`audit_training`.
    """
    own = configured.required_dim()
    sized = isinstance(getattr(mechanism, "blocks", None), tuple)
    strength = getattr(configured, configured.parameter)
    return audit_training(
        mechanism.with_strength(strength),
        runs=runs,
        dim=own if sized else min(own, _LARGEST),
        seed=seed,
    )


def _seeds(seed: int | None) -> tuple[int | None, int | None]:
    """A seed for each data set: equal ones would make the two sets of releases dependent."""
    if seed is None:
        return None, None
    first, second = np.random.SeedSequence(seed).generate_state(2).tolist()
    return first, second
