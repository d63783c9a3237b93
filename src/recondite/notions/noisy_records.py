"""Noisy copies of records, as notions see them: a channel as a local Gaussian release."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from recondite.channels.base import Channel
from recondite.mechanisms import MetricPrivacy, Neighbouring, UndefinedNotionError
from recondite.notions.base import Release, Scope, Unsampled
from recondite.notions.pairs import GaussianPair, log_bayes_capacity, shift

__all__ = ["NoisyRecords"]

_GAP = "speaks of two records that differ in their features only, in any way that"
_UNIT = "pixels in [0, 1] allow (replace-one)"
_OPEN = "their numbers do, which have no known range (replace-one), and is infinite"
_FOREIGN = "uses of another channel are counted too: no finite epsilon, capacity or rero is known"


@dataclass(frozen=True)
class NoisyRecords(Release):
    """What a channel released of its records.

    Guarantee: information is that of the channel's ledger. The pair and Bayes' capacity take a
    noisy copy of a record for a local Gaussian release of features in a box, labels and the fitted
    covariance for public; k fresh copies count as one with 1/k of the noise variance.

    Attributes:
      mechanism: The channel as fitted.
      sides: The range of each feature; infinite where none is known.
      uses: Noisy copies of one record with fresh noise.
      nats: What they tell of one record, by the ledger.
      delta: δ, for ε.
      prior_success: Success of a blind guess.
      schedule: How batches were drawn, ready for JSON.
      name: What the account calls the defence.
      given: Its parameters, ready for JSON.
      further: Further keys of the account.
      also: What the bounds rest on besides, before everything else.
      foreign: Whether uses of another channel, whose noise is not known here, are counted too:
        then only information is bounded.
    """

    mechanism: Channel
    sides: ArrayLike
    uses: int
    nats: float
    delta: float
    prior_success: float = 0.1
    schedule: Mapping[str, object] = field(default_factory=dict)
    name: str = "channel"
    given: Mapping[str, object] = field(default_factory=dict)
    further: Mapping[str, object] = field(default_factory=dict)
    also: tuple[str, ...] = ()
    foreign: bool = False
    group_size: int = 1
    subject: str = "one record's features"

    @property
    def neighbouring(self) -> Neighbouring:
        """Two records in each other's place."""
        return Neighbouring.REPLACE

    @property
    def releases(self) -> int:
        """Noisy copies of one record."""
        return self.uses

    @cached_property
    def pair(self) -> GaussianPair:
        """Of the worst two records; the noise of all copies taken together."""
        return GaussianPair(
            math.inf if self.foreign else shift(self.mechanism, self.sides, self.uses)
        )

    def log_bayes_capacity(self, scope: Scope) -> float:
        """Of one copy, or of all."""
        if scope == "release":
            return log_bayes_capacity(self.mechanism, self.sides)
        return (
            math.inf if self.foreign else log_bayes_capacity(self.mechanism, self.sides, self.uses)
        )

    def mutual_information(self, scope: Scope) -> float:
        """Of one copy as the channel says, of all as its ledger does."""
        return self.mechanism.capacity_nats if scope == "release" else self.nats

    def metric_privacy(self) -> MetricPrivacy:
        """Not defined."""
        raise UndefinedNotionError(
            "Gaussian noise has no metric guarantee: far outputs tell any pair"
        )

    def unsampled(self) -> Unsampled:
        """Not defined: nothing is sampled for a noisy copy."""
        raise UndefinedNotionError("only for mechanisms that noise gradients")

    def described(self) -> Mapping[str, object]:
        """Names and numbers, and what is further told."""
        return {
            "mechanism": self.name,
            "parameters": self.given,
            "schedule": self.schedule,
            "subject": self.subject,
            **self.further,
        }

    def assumptions(self) -> tuple[str, ...]:
        """Of the records, of the fit, and of the channel itself."""
        return (
            *self.also,
            f"epsilon, capacity and rero: {_GAP} {self._range}; labels are taken for public",
            "the covariance the channel was fitted to is public",
            *self.mechanism.limits,
            *((_FOREIGN,) if self.foreign else ()),
        )

    @property
    def _range(self) -> str:
        return _UNIT if np.isfinite(np.asarray(self.sides)).all() else _OPEN

    def __str__(self) -> str:
        return f"{self.name}, {self.uses} noisy copies of a record ({self.neighbouring.value})"
