"""Laws against independent quadrature, dp-accounting and the identities they must satisfy."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as google
from dp_accounting.rdp import rdp_privacy_accountant as google_rdp
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special

from recondite.accounting.composition import Composition
from recondite.accounting.pld import compose_pairs, pld_epsilon
from recondite.laws import (
    FoldedLoss,
    GaussianLoss,
    InfiniteLoss,
    ProductLoss,
    RevealedLoss,
    SphereLoss,
    without_replacement,
)
from recondite.laws.product import SampledProduct, subsampled_integer_renyi

RATE = 128 / 60_000
WEIGHTS = (1 - RATE, RATE)


def sphere_delta(dim, kappa, rate, epsilon, swap=False):
    """δ(ε) of the sampled antipodal pair straight from the density of the angle."""
    log_norm = math.log(
        integrate.quad(
            lambda a: math.sin(a) ** (dim - 2) * math.exp(kappa * (math.cos(a) - 1)),
            0,
            math.pi,
            epsabs=0,
            epsrel=1e-12,
            limit=400,
        )[0]
    )

    def density(angle, sign):
        base = (dim - 2) * math.log(math.sin(angle))
        return math.exp(base + kappa * (sign * math.cos(angle) - 1) - log_norm)

    def integrand(angle):
        q = density(angle, -1)
        p = (1 - rate) * q + rate * density(angle, 1)
        first, second = (q, p) if swap else (p, q)
        return max(0.0, first - math.exp(epsilon) * second)

    points = np.linspace(1e-9, math.pi - 1e-9, 60)
    return sum(
        integrate.quad(integrand, a, b, epsabs=0, epsrel=1e-10, limit=200)[0]
        for a, b in itertools.pairwise(points)
    )


@pytest.mark.parametrize(("dim", "kappa"), [(2, 1.0), (3, 4.0), (10, 3.0), (200, 20.0)])
@pytest.mark.parametrize("rate", [1.0, 0.1])
def test_sphere_hockey_stick_matches_the_density_of_the_angle(dim, kappa, rate):
    law = SphereLoss(dim, kappa).mixture((1 - rate, rate))
    for pessimistic in (True, False):
        pair = law.discretise(1e-3, pessimistic=pessimistic)
        forward, backward = compose_pairs([(pair, 1)]), compose_pairs([(pair.reverse(), 1)])
        for epsilon in (0.0, 0.05, 0.5, 1.5):
            for curve, swap in ((forward, False), (backward, True)):
                exact = sphere_delta(dim, kappa, rate, epsilon, swap)
                got = float(curve.delta(epsilon)[0])
                slack = 1e-9 + 1e-5 * exact
                if pessimistic:
                    assert got >= exact - slack
                else:
                    assert got <= exact + slack
                assert got == pytest.approx(exact, rel=2e-3, abs=3e-6)


@given(
    mu=st.floats(0.05, 5.0),
    epsilon=st.floats(0.0, 6.0),
    interval=st.floats(1e-3, 5e-2),
)
def test_gaussian_pair_brackets_the_closed_form(mu, epsilon, interval):
    exact = special.ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * special.ndtr(
        -mu / 2 - epsilon / mu
    )
    law = GaussianLoss(mu)
    upper = compose_pairs([(law.discretise(interval), 1)]).delta(epsilon)[0]
    lower = compose_pairs([(law.discretise(interval, pessimistic=False), 1)]).delta(epsilon)[0]
    assert lower - 1e-10 <= exact <= upper + 1e-12


@given(
    dim=st.integers(2, 10**6),
    kappa=st.floats(0.01, 300.0),
    rate=st.floats(1e-4, 1.0),
)
def test_masses_are_probabilities_and_ratio_is_the_loss(dim, kappa, rate):
    pair = SphereLoss(dim, kappa).mixture((1 - rate, rate)).discretise(0.01)
    assert pair.p.sum() == pytest.approx(1.0, abs=1e-12)
    assert pair.q.sum() == pytest.approx(1.0, abs=1e-12)
    kept = (pair.p > 1e-200) & (pair.q > 1e-200)
    assert np.allclose(np.log(pair.p[kept] / pair.q[kept]), pair.losses[kept], atol=1e-6)


@pytest.mark.parametrize("order", [2, 3, 8, 32])
@pytest.mark.parametrize(("dim", "kappa"), [(2, 0.5), (50, 5.0), (13_700, 75.0), (10**9, 1e4)])
def test_sampled_renyi_equals_the_binomial_sum_at_integers(order, dim, kappa):
    base = SphereLoss(dim, kappa)
    k = np.arange(2, order + 1, dtype=float)
    exact = subsampled_integer_renyi(order, RATE, (k - 1) * base.renyi(k))
    assert base.mixture(WEIGHTS).renyi([order])[0] == pytest.approx(exact, rel=1e-7)


@pytest.mark.parametrize("order", [1.5, 2.0, 2.75, 5.5, 32.0])
def test_sampled_gaussian_renyi_is_exact_at_real_orders(order):
    rate, sigma = 0.02, 1.23
    ours = GaussianLoss(1 / sigma).mixture((1 - rate, rate)).renyi([order])[0]
    with mpmath.workdps(30):
        exact = mpmath.quad(
            lambda x: (
                mpmath.npdf(x)
                * (1 - rate + rate * mpmath.exp(x / sigma - 1 / (2 * sigma**2))) ** order
            ),
            [-40, -8, -4, 0, 2, 4, 8, 16, 32, 60],
        )
        exact = mpmath.log(exact) / (order - 1)
    assert ours == pytest.approx(float(exact), rel=1e-9)
    # dp-accounting is exact at integers and, as released, up to some per cent above between them.
    theirs = google_rdp._compute_rdp_poisson_subsampled_gaussian(rate, sigma, np.array([order]))
    assert ours <= float(np.ravel(theirs)[0]) * (1 + 1e-7)
    if order == int(order):
        assert ours == pytest.approx(float(np.ravel(theirs)[0]), rel=1e-7)


@given(kappa=st.floats(0.01, 1e3), dim=st.integers(2, 10**7), order=st.floats(1.01, 50))
def test_renyi_is_monotone_in_order_and_kappa_and_below_the_supremum(kappa, dim, order):
    law = SphereLoss(dim, kappa)
    low, high = law.renyi([order, 1.1 * order])
    assert 0 <= low <= high * (1 + 1e-10)
    assert high <= law.supremum * (1 + 1e-12)
    assert low <= SphereLoss(dim, 1.1 * kappa).renyi([order])[0] * (1 + 1e-10)
    assert SphereLoss(dim + 5, kappa).renyi([order])[0] <= low * (1 + 1e-10)


def test_renyi_tends_to_the_kullback_leibler_divergence():
    mean = special.ive(5.0, 3.0) / special.ive(4.0, 3.0)
    assert SphereLoss(10, 3.0).renyi([1 + 1e-10])[0] == pytest.approx(2 * 3.0 * mean, rel=1e-8)


@given(
    sizes=st.lists(st.integers(2, 2000), min_size=2, max_size=4),
    kappa=st.floats(0.5, 20.0),
    order=st.floats(1.1, 20.0),
)
def test_one_flat_vector_is_best_at_equal_kappa(sizes, kappa, order):
    blocks = ProductLoss(tuple((SphereLoss(size, kappa), 1) for size in sizes))
    flat = SphereLoss(sum(sizes), kappa)
    assert flat.renyi([order])[0] <= blocks.renyi([order])[0] * (1 + 1e-12)


def test_a_product_of_one_factor_agrees_with_its_factor():
    base = SphereLoss(13_700, 75.0)
    product = SampledProduct(ProductLoss(((base, 1),)), RATE)
    direct = base.mixture(WEIGHTS).discretise(1e-3)
    joined = product.discretise(1e-3)
    for epsilon in (0.0, 0.1, 0.5, 1.0):
        a = compose_pairs([(direct, 50)]).delta(epsilon)[0]
        b = compose_pairs([(joined, 50)]).delta(epsilon)[0]
        assert b == pytest.approx(a, rel=2e-3)
    orders = [1.5, 2.0, 3.0, 7.5]
    exact = base.mixture(WEIGHTS).renyi(orders)
    assert np.all(product.renyi(orders) >= exact * (1 - 1e-9))
    assert product.renyi([2.0, 3.0]) == pytest.approx(base.mixture(WEIGHTS).renyi([2.0, 3.0]))


def test_sampling_the_product_differs_from_sampling_each_block():
    block = SphereLoss(50, 5.0)
    whole = ProductLoss(((block, 3),)).mixture((0.9, 0.1))
    apart = block.mixture((0.9, 0.1))
    together = compose_pairs([(whole.discretise(1e-3), 1)]).delta(1.0)[0]
    each = compose_pairs([(apart.discretise(1e-3), 3)]).delta(1.0)[0]
    assert together > 1.5 * each


@pytest.mark.parametrize("law", [SphereLoss(40, 6.0), GaussianLoss(1.3)])
def test_folding_keeps_the_curve_above_zero_and_is_symmetric(law):
    sampled = law.mixture((0.8, 0.2))
    open_pair, folded = sampled.discretise(1e-3), sampled.discretise(1e-3).fold()
    assert folded.p.sum() + folded.p_infinite == pytest.approx(1.0, abs=1e-9)
    forward = compose_pairs([(folded, 1)])
    backward = compose_pairs([(folded.reverse(), 1)])
    for epsilon in (0.0, 0.01, 0.2, 1.0):
        expected = compose_pairs([(open_pair, 1)]).delta(epsilon)[0]
        assert forward.delta(epsilon)[0] == pytest.approx(expected, rel=1e-6, abs=1e-12)
        assert backward.delta(epsilon)[0] == pytest.approx(expected, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("order", [1.25, 2.0, 3.5, 12.0])
@pytest.mark.parametrize("law", [SphereLoss(40, 6.0), GaussianLoss(0.8)])
def test_folded_renyi_matches_its_pair_on_a_fine_grid(law, order):
    folded = FoldedLoss(law.mixture((0.95, 0.05)))
    pair = folded.discretise(2e-4, tail=1e-80)
    finite = type(pair)(pair.interval, pair.start, pair.p, pair.q, 0.0, 0.0)
    assert folded.renyi([order])[0] == pytest.approx(finite.renyi([order])[0], rel=2e-3)


def test_folded_product_renyi_is_an_upper_bound():
    block = SphereLoss(30, 2.0)
    folded = FoldedLoss(ProductLoss(((block, 2),)).mixture((0.9, 0.1)))
    pair = folded.discretise(1e-3, tail=1e-30)
    finite = type(pair)(pair.interval, pair.start, pair.p, pair.q, 0.0, 0.0)
    for order in (1.5, 2.0, 3.0):
        assert folded.renyi([order])[0] == pytest.approx(finite.renyi([order])[0], rel=1e-4)
    # Beyond the reach of the atoms: a bound, and no worse than sampling and folding apart.
    exact, bound = finite.renyi([4.5])[0], folded.renyi([4.5])[0]
    apart = math.exp(3.5 * folded.sampled.renyi([4.5])[0]) + 1 - 0.9**4.5
    assert exact <= bound <= math.log(apart) / 3.5 * (1 + 1e-9)


def test_revealed_participation_is_the_binomial_mixture():
    law, rate, steps, epsilon = SphereLoss(30, 3.0), 0.3, 6, 1.0
    base = law.discretise(1e-3)
    mixture = sum(
        math.comb(steps, k)
        * rate**k
        * (1 - rate) ** (steps - k)
        * (float(compose_pairs([(base, k)]).delta(epsilon)[0]) if k else 0.0)
        for k in range(steps + 1)
    )
    revealed = RevealedLoss(law, rate).discretise(1e-3)
    assert compose_pairs([(revealed, steps)]).delta(epsilon)[0] == pytest.approx(mixture, rel=1e-6)
    order, alpha = RevealedLoss(law, rate).renyi([4.0])[0], 4.0
    exact = math.log(1 - rate + rate * math.exp((alpha - 1) * law.renyi([alpha])[0]))
    assert order == pytest.approx(exact / (alpha - 1))
    far, alpha = SphereLoss(30, 60.0), 20.0
    power = (alpha - 1) * far.renyi([alpha])[0]
    assert power > 800, "where e^power has no double"
    exact = np.logaddexp(math.log(1 - rate), math.log(rate) + power) / (alpha - 1)
    assert RevealedLoss(far, rate).renyi([alpha])[0] == pytest.approx(exact)


def test_group_of_gaussian_records_matches_googles_mixture():
    rate, sigma, group = 0.05, 1.5, 3
    weights = [math.comb(group, j) * rate**j * (1 - rate) ** (group - j) for j in range(group + 1)]
    ours = GaussianLoss(1 / sigma).mixture(weights).discretise(1e-3)
    theirs = google.from_mixture_gaussian_mechanism(
        standard_deviation=sigma,
        sensitivities=[float(j) for j in range(group + 1)],
        sampling_probs=weights,
        value_discretization_interval=1e-3,
    )
    for epsilon in (0.0, 0.3, 1.0):
        got = max(compose_pairs([(pair, 20)]).delta(epsilon)[0] for pair in (ours, ours.reverse()))
        expected = theirs.self_compose(20).get_delta_for_epsilon(epsilon)
        assert got == pytest.approx(expected, rel=5e-3)


def test_several_records_cannot_turn_a_direction_further():
    law = SphereLoss(100, 5.0)
    assert law.together(7) == law
    mixed = law.mixture((0.81, 0.18, 0.01))
    assert mixed.renyi([3.0])[0] == pytest.approx(law.mixture((0.81, 0.19)).renyi([3.0])[0])


@pytest.mark.parametrize("blocks", [1, 5, 6, 10, 40])
@pytest.mark.parametrize("rate", [0.032, 1.0])
def test_products_lose_no_mass_however_large_their_losses(blocks, rate):
    """Losses far beyond 745 underflow e^-loss; the mass of P must not go with them."""
    law = ProductLoss(((SphereLoss(15, 75.0), blocks),)).mixture((1 - rate, rate))
    pair = law.discretise(0.5)
    assert pair.p.sum() + pair.p_infinite == pytest.approx(1.0, abs=1e-9)
    above = pair.p[pair.losses > 1.0].sum() + pair.p_infinite
    assert above == pytest.approx(rate, rel=1e-3)
    assert compose_pairs([(pair, 1)]).delta(5.0)[0] == pytest.approx(rate, rel=1e-2)


def test_lost_mass_becomes_infinite_loss():
    pair = SphereLoss(10, 2.0).discretise(0.1)
    cut = type(pair)(pair.interval, pair.start, 0.5 * pair.p, pair.q, 0.0, 0.0).complete()
    assert cut.p_infinite == pytest.approx(0.5)
    assert cut.q.sum() == pytest.approx(1.0)


def test_folding_keeps_infinite_losses():
    folded = FoldedLoss(InfiniteLoss().mixture((0.9, 0.1))).discretise(0.1)
    for pair in (folded, folded.reverse()):
        assert compose_pairs([(pair, 1)]).delta(5.0)[0] == pytest.approx(0.1)
        assert compose_pairs([(pair, 5)]).delta(5.0)[0] == pytest.approx(1 - 0.9**5)


@pytest.mark.parametrize("law", [SphereLoss(10, 2.0), ProductLoss(((SphereLoss(10, 2.0), 2),))])
def test_batches_without_replacement_are_folded(law):
    assert without_replacement(law, 1.0) == law
    folded, sampled = without_replacement(law, 0.25), law.mixture((0.75, 0.25))
    assert isinstance(folded, FoldedLoss)
    assert folded.rate == 0.25
    assert folded.renyi([3.0])[0] == FoldedLoss(sampled).renyi([3.0])[0]
    assert without_replacement(InfiniteLoss(), 0.25) == FoldedLoss(InfiniteLoss(0.25))


def test_a_law_without_atoms_cannot_be_folded():
    class Revealing(SphereLoss):
        def mixture(self, weights):
            return RevealedLoss(SphereLoss(self.dim, self.kappa), weights[1])

    with pytest.raises(ValueError, match="use Poisson or shuffled batches"):
        without_replacement(Revealing(10, 2.0), 0.25)


def test_no_noise_has_infinite_loss():
    law = InfiniteLoss().mixture((0.9, 0.1))
    assert math.isinf(law.supremum)
    assert math.isinf(law.renyi([2.0])[0])
    pair = law.discretise(0.1)
    assert compose_pairs([(pair, 1)]).delta(5.0)[0] == pytest.approx(0.1)


@pytest.mark.parametrize(
    "law",
    [
        SphereLoss(10, 2.0).mixture((0.5, 0.5)),
        RevealedLoss(SphereLoss(10, 2.0), 0.5),
        FoldedLoss(SphereLoss(10, 2.0).mixture((0.5, 0.5))),
        ProductLoss(((SphereLoss(10, 2.0), 2),)).mixture((0.5, 0.5)),
    ],
)
def test_sampling_twice_is_refused(law):
    with pytest.raises(ValueError, match="sampled already"):
        law.mixture((0.5, 0.5))
    with pytest.raises(ValueError, match="sampled already"):
        law.together(2)


@given(
    rate=st.floats(1e-4, 0.9),
    kappa=st.floats(0.1, 200.0),
    steps=st.integers(1, 40),
    kind=st.sampled_from(["poisson", "folded", "revealed", "group"]),
)
def test_nothing_tells_apart_what_nobody_took_part_in(rate, kappa, steps, kind):
    law = {
        "poisson": lambda: SphereLoss(20, kappa).mixture((1 - rate, rate)),
        "folded": lambda: without_replacement(GaussianLoss(kappa / 50), rate),
        "revealed": lambda: RevealedLoss(GaussianLoss(kappa / 50), rate),
        "group": lambda: GaussianLoss(kappa / 50).mixture(
            ((1 - rate) ** 2, 2 * rate * (1 - rate), rate**2)
        ),
    }[kind]()
    run = Composition.of([(law, steps)])
    pair = law.discretise(1e-2, tail=1e-12, pessimistic=False)
    lost = max(
        float(np.maximum(pair.p - pair.q, 0).sum()), float(np.maximum(pair.q - pair.p, 0).sum())
    )
    assert lost <= law.variation + 1e-9
    assert law.variation <= run.variation <= min(1.0, steps * law.variation) + 1e-12
    if run.variation < 0.99:
        assert pld_epsilon(run, run.variation * 1.001) == 0.0
