"""The engine's releases cost what it claims: no more, not much less, and half the noise shows."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import recondite as rc
from recondite.mechanisms.none import NoNoise
from recondite.training.canary import _World, audit_training

torch.set_num_threads(1)
# Wrong with probability 1e-3 at a fresh seed; these are fixed. Runs and floors were chosen from
# simulated scores, so that 40 of 40 seeds reach the floor (and the claim, with half the noise).
AUDIT = {"delta": 0.05, "seed": 5}
CASES = {
    "gaussian": (rc.Gaussian(1.0), {"max_grad_norm": 3.0}, 2000, 0.4),
    "gaussian-poisson": (rc.Gaussian(0.5), {"records": 4, "batch_size": 2}, 1000, 0.15),
    "vmf": (rc.VonMisesFisher(1.5), {}, 1000, 0.4),
    "vmf-fixed-size": (
        rc.VonMisesFisher(3.0),
        {"records": 8, "batch_size": 4, "sampling": "fixed-size"},
        1000,
        0.3,
    ),
    "vmf-long": (rc.VonMisesFisher(15.0), {"dim": 300}, 1000, 0.3),
    "partitioned": (rc.PartitionedVonMisesFisher(1.0, blocks=2), {}, 1000, 0.4),
    "directional": (rc.Directional(1.5), {}, 1000, 0.4),
}


@pytest.mark.parametrize("name", CASES)
def test_the_bound_stays_below_the_claim_and_near_it(name):
    mechanism, options, runs, floor = CASES[name]
    audit = audit_training(mechanism, runs=runs, **AUDIT, **options)
    assert floor * audit.claim < audit.lower <= audit.claim
    assert not audit.refuted
    assert audit.result.samples == (runs, runs)
    assert json.loads(json.dumps(audit.to_dict()))["lower"] == audit.lower


@pytest.mark.parametrize("name", ["gaussian", "vmf", "partitioned", "directional"])
def test_half_the_noise_in_the_release_is_caught(name, monkeypatch):
    mechanism, options, _, _ = CASES[name]
    kind = type(mechanism)
    release, factor = kind.release, 0.5 if kind.weaker == "smaller" else 2.0

    def careless(self, gradient, generator=None):
        return release(self.with_strength(factor * self.strength), gradient, generator)

    monkeypatch.setattr(kind, "release", careless)
    assert audit_training(mechanism, runs=1000, **AUDIT, **options).refuted


def test_several_steps_are_one_run():
    options = {"delta": 0.05, "runs": 300, "seed": 5}
    audit = audit_training(rc.Gaussian(1.5), steps=4, **options)
    assert audit.claim == rc.epsilon(rc.Gaussian(1.5), rc.Poisson(1.0, 4), 0.05)
    assert audit_training(rc.Gaussian(1.5), **options).lower < audit.lower <= audit.claim


def test_the_density_is_that_of_the_releases():
    # E[P(y)/Q(y)] over releases of Q is 1 if both densities are right, mixture and all.
    mechanism, setting = rc.Gaussian(2.0), ("poisson", 3, 2, 4, 1.0)
    present, absent = _World(1.0, mechanism, *setting), _World(0.0, mechanism, *setting)
    sized = present.engine(None)[0].mechanism
    drawn = absent.releases(1500, 3)
    ratio = np.exp(present.log_density(sized, drawn) - absent.log_density(sized, drawn))
    assert abs(ratio.mean() - 1) < 5 * ratio.std() / np.sqrt(len(ratio))
    assert ratio.std() > 0.1


def test_the_two_data_sets_have_independent_noise_and_a_seed_repeats_both():
    first, again = (
        audit_training(rc.Gaussian(1.0), delta=0.05, runs=50, seed=1).to_dict() for _ in range(2)
    )
    assert first == again
    assert audit_training(rc.Gaussian(1.0), delta=0.05, runs=50).result.samples == (50, 50)


@pytest.mark.parametrize(
    ("mechanism", "options", "message"),
    [
        (rc.Directional(1.0), {"records": 3, "batch_size": 2}, "batch_size must be 1"),
        (rc.Directional(1.0), {"sampling": "poisson"}, "sampling fixed-size"),
        (rc.Gaussian(1.0), {"sampling": "shuffled"}, "sampling"),
        (rc.Gaussian(1.0), {"runs": 1}, "runs"),
        (NoNoise(), {"runs": 10}, "without noise"),
    ],
)
def test_what_cannot_be_audited_is_refused(mechanism, options, message):
    with pytest.raises(ValueError, match=message):
        audit_training(mechanism, **options)
