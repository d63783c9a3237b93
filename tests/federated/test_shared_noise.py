"""Noise in shares: the proof's steps against direct sums with mpmath, the sampler, the grid."""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

import recondite as rc
from recondite.accounting.composition import rdp_epsilon
from recondite.accounting.run import compose
from recondite.federated.cost import spent
from recondite.federated.shared_noise import (
    LEVELS,
    SharedNoise,
    discrete_gaussian,
    in_shares,
    slack,
    with_slack,
)
from recondite.federated.update import one_release

REACH = 60


def law(variance):
    """The discrete Gaussian, by its definition, over integers that hold all but 1e-40 of it."""
    weights = [mp.exp(-(mp.mpf(x) ** 2) / (2 * variance)) for x in range(-REACH, REACH + 1)]
    total = mp.fsum(weights)
    return [weight / total for weight in weights]


def summed(one, other):
    """The law of a sum, over the same integers."""
    return [
        mp.fsum(
            one[REACH + y] * other[REACH + x - y]
            for y in range(max(-REACH, x - REACH), min(REACH, x + REACH) + 1)
        )
        for x in range(-REACH, REACH + 1)
    ]


@pytest.mark.parametrize("scale", [0.5, 0.7, 1.0])
@pytest.mark.parametrize("honest", [2, 3])
def test_the_sum_of_shares_is_the_ideal_law_up_to_tau(scale, honest):
    """Scales far below what is allowed, where the difference is large enough to see."""
    with mp.workdps(50):
        variance = mp.mpf(scale) ** 2
        made = law(variance)
        for _ in range(honest - 1):
            made = summed(made, law(variance))
        ideal = law(honest * variance)
        inner = range(REACH - 6, REACH + 7)
        worst = max(abs(mp.log(made[x] / ideal[x])) for x in inner)
    tau, _ = slack([{"honest": honest, "scale": scale, "dim": 1}])
    assert 0 < worst <= tau
    assert tau < 30 * worst, "and the bound is not far off"


@pytest.mark.parametrize("shift", [1, 2, 5])
@pytest.mark.parametrize("order", [1.5, 2, 7.3])
@pytest.mark.parametrize("scale", [0.6, 1.0, 3.0])
def test_the_renyi_curve_is_at_most_the_gaussians(scale, order, shift):
    with mp.workdps(50):
        variance = mp.mpf(scale) ** 2
        base = law(variance)
        # One law at x and at x - shift, over all integers that matter.
        total = mp.fsum(
            base[REACH + x - shift] ** order * base[REACH + x] ** (1 - order)
            for x in range(shift - REACH, REACH + 1)
        )
        found = mp.log(total) / (order - 1)
    claimed = order * shift**2 / (2 * scale**2)
    assert found <= claimed * (1 + 1e-12)
    if scale == 3.0:
        assert found > 0.99 * claimed


@pytest.mark.parametrize("delta", [1e-2, 1e-4])
def test_no_event_of_a_small_sum_is_likelier_than_claimed(delta):
    """ε of two coordinates moved by a replaced update, by the hockey stick itself."""
    scale, honest = 1.0, 3
    with mp.workdps(30):
        made = law(mp.mpf(scale) ** 2)
        for _ in range(honest - 1):
            made = summed(made, law(mp.mpf(scale) ** 2))
        made = [float(p) for p in made]
    sigma = math.sqrt(honest) * scale  # a bound of one step
    share = {"honest": honest, "scale": scale, "dim": 2}
    composition, _ = compose([(rc.Gaussian(sigma), rc.Shuffled(1, 1, 1))])
    claimed = with_slack(lambda d: rdp_epsilon(composition, d)[0], delta, [share])
    # Two steps in one coordinate: a norm of two bounds.
    grid = np.arange(-REACH + 2, REACH + 1)
    p = np.array([made[REACH + x - 2] for x in grid])
    q = np.array([made[REACH + x] for x in grid])
    assert np.maximum(p - math.exp(claimed) * q, 0).sum() <= delta
    assert np.maximum(p - math.exp(0.5 * claimed) * q, 0).sum() > delta, "it is not vacuous"


@pytest.mark.parametrize("source", [None, "secure", "seed"])
def test_the_samplers_law(source):
    from recondite.numerics.secure import SecureGenerator

    generator = {"secure": SecureGenerator(), "seed": np.random.default_rng(1)}.get(source)
    scale, count = 1.7, 200_000
    drawn = discrete_gaussian(scale, count, generator)
    assert len(drawn) == count
    assert (drawn == np.round(drawn)).all()
    edges = np.arange(-6, 7)
    weights = np.exp(-(np.arange(-40, 41) ** 2) / (2 * scale**2))
    weights /= weights.sum()
    expected = [weights[40 + x] for x in edges]
    counts = [(drawn == x).sum() for x in edges]
    rest = [1 - sum(expected), count - sum(counts)]
    p = stats.chisquare([*counts, rest[1]], count * np.array([*expected, rest[0]])).pvalue
    assert p > 1e-7


@pytest.mark.parametrize("max_norm", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("sigma", [0.0, 0.5, 4.0])
def test_releases_lie_on_a_grid_that_passes_the_protocols_rounding(max_norm, sigma):
    quantize = pytest.importorskip("flwr.common.secure_aggregation.quantization").quantize
    share = SharedNoise(sigma, max_norm, 5)
    update = np.random.default_rng(0).standard_normal(2_000) * max_norm
    released = share.release(update, np.random.default_rng(1))
    places = released / share.step
    assert (places == np.round(places)).all()
    (sent,) = quantize([released], share.clipping_range, LEVELS)
    assert (sent - LEVELS // 2 == places).all(), "nothing is left for it to round or to clip"
    plain = SharedNoise(0.0, max_norm, 5).release(update, None)
    assert np.linalg.norm(plain) <= max_norm
    assert np.linalg.norm(plain) > 0.99 * max_norm
    if sigma:
        noise = np.std(released - plain)
        assert noise == pytest.approx(sigma * max_norm / math.sqrt(5), rel=0.1)


def test_the_sum_has_the_noise_that_is_accounted():
    shares = [SharedNoise(2.0, 1.0, 4)] * 4
    total = sum(share.release(np.zeros(20_000), None) for share in shares)
    # Sixty deviations of the estimate either way.
    assert np.std(total) == pytest.approx(2.0, rel=0.03)


def test_what_cannot_be_shared_is_refused():
    with pytest.raises(ValueError, match="vmf noise cannot be added in shares"):
        in_shares(rc.VonMisesFisher(5.0), 1.0, 3)
    with pytest.raises(ValueError, match="steps of the grid"):
        SharedNoise(1e-7, 1.0, 3)
    with pytest.raises(ValueError, match="honest"):
        SharedNoise(1.0, 1.0, 1)


def line(sigma, **extra):
    made = rc.Gaussian(sigma, dim=100, max_batch_size=1)
    return {"key": "k", "level": "client", **one_release(made), **extra}


def test_the_cost_is_the_renyi_one_and_says_against_whom():
    share = SharedNoise(3.0, 1.0, 4).to_dict(100)
    shared = line(3.0, noise_at="sum", share=share)
    cost = spent([shared] * 5, 1e-5)
    tight = spent([line(3.0)] * 5, 1e-5)
    assert tight.epsilon < cost.epsilon < 1.15 * tight.epsilon
    assert "4 honest clients" in cost.against
    assert (cost.information, cost.capacity) == (None, None)
    assert "in shares" in cost.reasons["information"]
    assert "sees every message" in tight.against
    both = spent([line(3.0, noise_at="server"), shared], 1e-5)
    assert "not the server" in both.against


def test_a_delta_that_cannot_pay_for_the_clipping_range_gives_no_bound():
    share = SharedNoise(3.0, 1.0, 4).to_dict(100)
    assert with_slack(lambda d: 1.0, 1e-300, [share]) == math.inf
    assert with_slack(lambda d: 600.0, 1e-5, [share]) == math.inf
