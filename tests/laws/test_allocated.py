"""Random allocation: values known from elsewhere, brackets, laws, and a simulation of the pair."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recondite.accounting import RandomAllocation, epsilon
from recondite.accounting.composition import Composition
from recondite.accounting.pld import pld_bracket, pld_delta, pld_epsilon
from recondite.laws import AllocatedLoss, GaussianLoss, InfiniteLoss, SphereLoss, allocated
from recondite.mechanisms import Directional, Gaussian, Neighbouring, NoNoise, VonMisesFisher

DELTA = 1 / 60_000


def once(law, batches, epochs=1):
    return Composition.of([(AllocatedLoss(law, batches), epochs)])


# Values that were computed for planning, with another program (a Fourier transform on a linear
# grid), printed to four digits and rounded up by its own discretisation.
@pytest.mark.parametrize(
    ("mechanism", "epochs", "value"),
    [
        (Gaussian(1.23), 3, 0.2512),
        (Gaussian(1.23), 1, 0.1393),
        (VonMisesFisher(75.0, dim=13_700), 3, 0.7439),
        (VonMisesFisher(75.0, dim=13_700), 1, 0.5108),
        (VonMisesFisher(47.58, dim=13_700), 3, 0.2512),
    ],
)
def test_values_of_another_program(mechanism, epochs, value):
    found = epsilon(mechanism, RandomAllocation(469, epochs), DELTA)
    assert found == pytest.approx(value, rel=2.5e-3)


@pytest.mark.parametrize(
    "law",
    [GaussianLoss(1 / 1.23), GaussianLoss(1 / 0.42), SphereLoss(13_700, 75.0), GaussianLoss(0.05)],
)
def test_tight_from_both_sides(law):
    low, high = pld_bracket(once(law, 469, 3), DELTA)
    assert low <= high
    assert high - low <= 0.005 * high


def test_strong_losses_stay_finite_and_bracketed():
    low, high = pld_bracket(once(SphereLoss(13_700, 500.0), 469, 3), DELTA)
    assert 0.99 * high <= low <= high
    assert high < pld_epsilon(Composition.of([(SphereLoss(13_700, 500.0), 3)]), DELTA)


@pytest.mark.parametrize("law", [GaussianLoss(0.8), SphereLoss(50, 3.0)])
def test_one_batch_is_no_sampling(law):
    alone = pld_epsilon(Composition.of([(law, 2)]), 1e-5)
    assert pld_epsilon(once(law, 1, 2), 1e-5) == pytest.approx(alone, rel=3e-3)


@pytest.mark.parametrize("epsilon_value", [0.2, 0.6])
@pytest.mark.parametrize("batches", [2, 7])
def test_a_simulation_of_the_pair_agrees(batches, epsilon_value):
    mu, draws = 1.0, 2_000_000
    rng = np.random.default_rng(7)
    total = np.zeros(draws)
    for _ in range(batches):
        total += np.exp(mu * rng.standard_normal(draws) - mu * mu / 2)
    ratio = total / batches
    remove = np.maximum(ratio - math.exp(epsilon_value), 0.0)
    add = np.maximum(1.0 - math.exp(epsilon_value) * ratio, 0.0)
    simulated = max(remove.mean(), add.mean())
    spread = max(remove.std(), add.std()) / math.sqrt(draws)
    claimed = pld_delta(once(GaussianLoss(mu), batches), epsilon_value)
    assert claimed >= simulated - 5 * spread
    assert claimed <= (simulated + 5 * spread) * 1.01


@pytest.mark.parametrize("law", [GaussianLoss(0.7), SphereLoss(20, 2.0)])
@pytest.mark.parametrize("order", [2, 3, 5])
def test_renyi_at_integers_is_the_moment_of_the_sum(law, order):
    """Against the multinomial sum for three batches, term by term."""
    moments = [1.0, 1.0] + [
        math.exp((k - 1) * float(law.renyi([k])[0])) for k in range(2, order + 1)
    ]
    exact = sum(
        math.factorial(order)
        / (math.factorial(i) * math.factorial(j) * math.factorial(order - i - j))
        * moments[i]
        * moments[j]
        * moments[order - i - j]
        for i in range(order + 1)
        for j in range(order + 1 - i)
    )
    expected = (math.log(exact) - order * math.log(3)) / (order - 1)
    assert AllocatedLoss(law, 3)._removing(float(order)) == pytest.approx(expected, rel=1e-12)


@settings(max_examples=12, deadline=None)
@given(
    mu=st.floats(0.05, 4.0),
    batches=st.integers(1, 300),
    epochs=st.integers(1, 4),
    log_delta=st.floats(-12.0, -2.0),
)
def test_laws(mu, batches, epochs, log_delta):
    """Never above the unsampled run, never below fewer epochs, never below a larger δ."""
    law, delta = GaussianLoss(mu), 10.0**log_delta
    here = pld_epsilon(once(law, batches, epochs), delta)
    whole = pld_epsilon(Composition.of([(law, epochs)]), delta)
    assert 0.0 <= here <= whole * 1.004
    assert pld_epsilon(once(law, batches, epochs + 1), delta) >= here * (1 - 1e-3)
    assert pld_epsilon(once(law, batches, epochs), min(0.5, 2 * delta)) <= here * (1 + 1e-3)


def test_more_batches_hide_better():
    values = [pld_epsilon(once(GaussianLoss(1.0), n), 1e-5) for n in (1, 4, 16, 64, 256)]
    assert all(a > b for a, b in itertools.pairwise(values))


def test_rdp_is_an_upper_bound():
    from recondite.accounting.composition import rdp_epsilon

    composition = once(GaussianLoss(1.0), 100, 3)
    assert rdp_epsilon(composition, 1e-5)[0] >= pld_epsilon(composition, 1e-5)


def test_without_noise_nothing_is_hidden():
    assert epsilon(NoNoise(), RandomAllocation(10, 2), 1e-5) == math.inf
    pair = AllocatedLoss(InfiniteLoss(), 10).discretise(0.1)
    assert pair.p_infinite == 1.0


def test_noise_on_each_record_is_conditioned_on_the_batch():
    mechanism, schedule = Directional(1.0, dim=100), RandomAllocation(10, 3)
    assert schedule.neighbouring(mechanism) is Neighbouring.REPLACE
    law = mechanism.loss(Neighbouring.REPLACE)
    assert schedule.composition(mechanism).parts == ((law, 3),)


def test_groups_are_refused():
    with pytest.raises(ValueError, match="group_size above 1 has no proved bound"):
        RandomAllocation(10, 1).composition(Gaussian(1.0), 2)


def test_bad_input():
    with pytest.raises(ValueError, match="batches"):
        RandomAllocation(0, 1)
    with pytest.raises(ValueError, match="epochs"):
        RandomAllocation(10, 0)


def test_to_dict():
    body = RandomAllocation(10, 3).to_dict()
    assert body == {"sampling": "allocation", "rate": None, "steps": 30, "epochs": 3, "batches": 10}


@pytest.mark.parametrize("pessimistic", [True, False])
@pytest.mark.parametrize("pairs", [1 << 8, 1 << 21])
def test_a_sum_with_itself_is_that_with_a_copy(monkeypatch, pairs, pessimistic):
    """Each pair is formed once there, and whole rows of pairs at a time: nothing is lost."""
    one = allocated._one(GaussianLoss(0.8), 1e-20, pessimistic)
    monkeypatch.setattr(allocated, "_PAIRS", pairs)
    own = allocated._plus(one, one, pessimistic)
    monkeypatch.setattr(allocated, "_PAIRS", 1 << 16)
    copied = allocated._plus(one, replace(one), pessimistic)
    assert np.allclose(own.x, copied.x, rtol=1e-9)
    assert np.allclose(own.q, copied.q, rtol=1e-9, atol=1e-30)
    assert own.q.sum() == pytest.approx(one.q.sum() ** 2, rel=1e-12)
    assert own.x @ own.q == pytest.approx(2 * (one.x @ one.q) * one.q.sum(), rel=1e-9)
