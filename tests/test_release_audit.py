"""Audit of the release itself: what is drawn must cost what is claimed, no more and no less.

For each mechanism: releases are drawn with ``perturb`` under a worst-case pair of inputs, scored
with the exact log-likelihood ratio of the whole run, and turned into a lower bound on ε at 99.9%
confidence. The bound must stay below the claim, reach 80% of it, and exceed it when the noise that
is really drawn is half of what is claimed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import recondite as rc
from recondite.accounting.auditing import epsilon_lower_bound

DRAWS = 200_000
CONFIDENCE = 0.999


@dataclass(frozen=True)
class Case:
    """A claim (mechanism, schedule) and how its worst-case pair of inputs is fed to it.

    ``present`` and ``absent`` are the averages that reach the mechanism when the record takes part
    and when it does not (or when it was replaced). With ``shared_coin`` it is no secret whether it
    did: the coin is the same under both inputs.
    """

    mechanism: rc.Mechanism
    schedule: rc.Schedule
    present: np.ndarray
    absent: np.ndarray
    releases: int
    rate: float = 1.0
    shared_coin: bool = False
    delta: float = 0.02

    def halved(self):
        strength = self.mechanism.strength
        less = strength * (0.5 if self.mechanism.weaker == "smaller" else 2.0)
        return self.mechanism.with_strength(less)

    def scores(self, released, generator):
        """Log-likelihood ratios of whole runs with the record, and without it."""
        out = []
        for taking_part in (True, False):
            total = np.zeros(DRAWS)
            for _ in range(self.releases):
                coin = generator.random(DRAWS) < self.rate
                use = coin & taking_part
                shape = (DRAWS,) + (1,) * self.present.ndim
                centre = np.where(use.reshape(shape), self.present, self.absent)
                release = released.perturb(centre, generator)
                ratio = released.log_likelihood(release, self.present)
                ratio = ratio - released.log_likelihood(release, self.absent)
                if self.shared_coin:
                    total += np.where(coin, ratio, 0.0)
                else:
                    total += np.log1p(self.rate * np.expm1(ratio))
            out.append(total)
        return out

    def lower_bound(self, released, seed):
        scores = self.scores(released, np.random.default_rng(seed))
        return epsilon_lower_bound(*scores, self.delta, CONFIDENCE).epsilon

    def claim(self):
        return rc.epsilon(self.mechanism, self.schedule, self.delta)


def direction(dim):
    return np.linspace(1.0, 2.0, dim)


def clipped(norm, dim):
    return norm * direction(dim) / np.linalg.norm(direction(dim))


U5 = direction(5)
CASES = {
    # With the record the sum moves by C, and by C/L once divided by L.
    "gaussian": Case(
        rc.Gaussian(2.0, clip_norm=3.0, batch_size=4),
        rc.Poisson(rate=1.0, steps=2),
        clipped(3.0 / 4, 4),
        np.zeros(4),
        releases=2,
    ),
    "gaussian-poisson": Case(
        rc.Gaussian(0.8, clip_norm=3.0, batch_size=4),
        rc.Poisson(rate=0.3, steps=3),
        clipped(3.0 / 4, 4),
        np.zeros(4),
        releases=3,
        rate=0.3,
    ),
    "gaussian-layers": Case(
        rc.Gaussian(3.0, clip_norm=1.0, batch_size=4, layers=(2, 2, 2)),
        rc.Poisson(rate=1.0, steps=2),
        np.concatenate([clipped(1.0 / 4, 2)] * 3),
        np.zeros(6),
        releases=2,
    ),
    "gaussian-shuffled": Case(  # replace-one: +C against -C
        rc.Gaussian(4.0, clip_norm=1.0, batch_size=2),
        rc.Shuffled(epochs=3, batch_size=2, records=10),
        clipped(0.5, 3),
        -clipped(0.5, 3),
        releases=3,
    ),
    "vmf": Case(rc.VonMisesFisher(1.0, dim=5), rc.Poisson(rate=1.0, steps=2), U5, -U5, releases=2),
    "vmf-plane": Case(
        rc.VonMisesFisher(0.6, dim=2),
        rc.Poisson(rate=1.0, steps=2),
        direction(2),
        -direction(2),
        releases=2,
    ),
    "vmf-poisson": Case(
        rc.VonMisesFisher(2.0, dim=5),
        rc.Poisson(rate=0.3, steps=3),
        U5,
        -U5,
        releases=3,
        rate=0.3,
    ),
    "vmf-fixed-size": Case(  # the other records point away from this one
        rc.VonMisesFisher(2.0, dim=5),
        rc.FixedSize(batch_size=3, records=10, steps=1),
        U5,
        -U5,
        releases=1,
        rate=0.3,
    ),
    "vmf-shuffled": Case(
        rc.VonMisesFisher(0.8, dim=3),
        rc.Shuffled(epochs=3, batch_size=5, records=20),
        direction(3),
        -direction(3),
        releases=3,
    ),
    "partitioned": Case(
        rc.PartitionedVonMisesFisher((1.0, 0.5), dim=5, blocks=(3, 2)),
        rc.Poisson(rate=1.0, steps=2),
        U5,
        -U5,
        releases=2,
    ),
    "partitioned-poisson": Case(
        rc.PartitionedVonMisesFisher(1.5, dim=6, blocks=2),
        rc.Poisson(rate=0.3, steps=3),
        direction(6),
        -direction(6),
        releases=3,
        rate=0.3,
    ),
    "directional-shuffled": Case(  # alone in its batch: what an attacker knows of the others
        rc.Directional(0.8, dim=4),
        rc.Shuffled(epochs=3, batch_size=1, records=5),
        direction(4)[None, :],
        -direction(4)[None, :],
        releases=3,
    ),
    "directional-blocks": Case(
        rc.Directional(0.5, dim=6, blocks=2),
        rc.Shuffled(epochs=3, batch_size=1, records=5),
        direction(6)[None, :],
        -direction(6)[None, :],
        releases=3,
    ),
    "directional-poisson": Case(
        rc.Directional(1.2, dim=4),
        rc.Poisson(rate=0.5, steps=3),
        direction(4)[None, :],
        -direction(4)[None, :],
        releases=3,
        rate=0.5,
        shared_coin=True,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_release_costs_what_is_claimed(name):
    case = CASES[name]
    claim = case.claim()
    bound = case.lower_bound(case.mechanism, seed=11)
    assert bound <= claim
    assert bound >= 0.8 * claim


@pytest.mark.parametrize("name", CASES)
def test_half_the_noise_is_caught(name):
    case = CASES[name]
    if name == "partitioned":
        released = rc.PartitionedVonMisesFisher((2.0, 1.0), dim=5, blocks=(3, 2))
    else:
        released = case.halved()
    assert case.lower_bound(released, seed=12) > case.claim()
