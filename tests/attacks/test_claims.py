"""Lower bounds from identification: exact where they can be, and claims beside them."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

import recondite as rc
from recondite.attacks.claims import (
    capacity_lower,
    identification_claims,
    information_lower,
    success_lower,
)
from recondite.attacks.victim import Defended, RecordSets, Victim
from recondite.leakage.discrete import DiscreteChannel
from recondite.records import ImageSet


def test_identification_bounds_are_below_what_is_true():
    # All of N right: capacity and information approach ln N from below.
    success = success_lower(100, 100)
    assert 0.9 < success < 1
    assert math.log(90) < capacity_lower(success, 100) < math.log(100)
    assert 0 < information_lower(success, 100) < math.log(100)
    assert information_lower(1.0, 100) == pytest.approx(math.log(100))
    assert capacity_lower(success_lower(0, 100), 100) == 0
    assert information_lower(0.01, 100) == 0


@pytest.mark.parametrize(("success", "candidates"), [(0.93, 100), (0.4, 10), (0.6, 2)])
def test_identification_bounds_are_attained_by_a_symmetric_channel(success, candidates):
    # Wrong guesses are equally likely: nothing was told beyond the guess, and the bounds are it.
    rows = np.full((candidates, candidates), (1 - success) / (candidates - 1))
    np.fill_diagonal(rows, success)
    channel, blind = DiscreteChannel(rows), np.full(candidates, 1 / candidates)
    told = channel.shannon_mutual_information(blind)
    assert information_lower(success, candidates) == pytest.approx(told)
    assert capacity_lower(success, candidates) == pytest.approx(channel.log_bayes_capacity())


@given(right=st.integers(0, 50), trials=st.integers(50, 60))
def test_a_success_bound_is_that_of_clopper_and_pearson(right, trials):
    interval = binomtest(right, trials, alternative="greater").proportion_ci(0.999, "exact")
    assert success_lower(right, trials) == pytest.approx(interval.low, rel=1e-6, abs=1e-12)


PEOPLE = ImageSet(
    torch.rand(64, 1, 2, 2, generator=torch.Generator().manual_seed(0)),
    torch.arange(64) % 4,
    ("a", "b", "c", "d"),
)


def claims(right=32, *, told=False, size=1, kappa=5.0, **plan):
    """What is claimed of a run after 32 victims of whom so many were rebuilt."""
    settings = {"clipping": "flat", "max_grad_norm": 1.0, **plan}
    defence = Defended(mechanism=rc.VonMisesFisher(kappa), **settings)
    model = torch.nn.Linear(4, 3)
    victim = Victim(model, lambda: model, lambda: model, RecordSets(PEOPLE, PEOPLE), defence)
    victims = PEOPLE.subset(range(32))
    rebuilt = victims.images.clone()
    rebuilt[right:] = PEOPLE.images[32 : 64 - right]
    made = identification_claims(victim, model, rebuilt[:, None], victims, size, told=told)
    found = [claim.to_dict() for claim in made]
    return {claim["notion"].removesuffix("_release"): claim for claim in found}


@pytest.mark.parametrize("right", [32, 20])
def test_claims_stand_beside_what_identification_showed(right):
    found = claims(right)
    success, release = success_lower(right, 32), rc.VonMisesFisher(5.0, 15)
    capacity, information = found["log_bayes_capacity"], found["mutual_information"]
    assert capacity["claim"] == pytest.approx(release.log_bayes_capacity())
    assert information["claim"] == pytest.approx(release.mutual_information())
    assert capacity["lower"] == pytest.approx(math.log(64 * success))
    assert information["lower"] == pytest.approx(information_lower(success, 64))
    assert f"{right} of 32 right among 64" in capacity["about"]


def test_labels_that_were_told_explain_some_of_it():
    for notion, claim in claims(told=True).items():
        assert claim["lower"] == pytest.approx(claims()[notion]["lower"] - math.log(4))
    assert [claim["lower"] for claim in claims(3, told=True).values()] == [0.0, 0.0]


def test_noise_that_cannot_explain_it_is_violated():
    assert [claim["violated"] for claim in claims(kappa=5.0).values()] == [False, True]
    assert [claim["violated"] for claim in claims(kappa=50.0).values()] == [False, False]
    assert [claim["violated"] for claim in claims(kappa=0.5).values()] == [True, True]


def test_no_claim_is_made_where_there_is_no_single_answer():
    assert claims(size=2) == {}
    assert claims(clipping="per-layer") == {}
