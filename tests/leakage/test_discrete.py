"""Discrete channels: the lemmas of the capacity, and every measure against `qif`."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recondite.leakage import refinement
from recondite.leakage.discrete import DiscreteChannel
from recondite.leakage.refinement import compare_channels, refined_by

# A busy machine is no failure: nothing here is timed.
untimed = settings(deadline=None)
seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 6)


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def channel(generator: np.random.Generator, secrets: int, observations: int) -> DiscreteChannel:
    # Small concentrations give sparse, nearly deterministic rows; zeros are put in outright too.
    rows = generator.dirichlet(np.full(observations, generator.choice([0.1, 1.0, 10.0])), secrets)
    rows[rows < generator.choice([0.0, 0.05])] = 0
    rows[rows.sum(axis=1) == 0, 0] = 1
    return DiscreteChannel(rows / rows.sum(axis=1, keepdims=True))


def deterministic(generator: np.random.Generator, secrets: int, outputs: int) -> DiscreteChannel:
    """A deterministic channel onto all its outputs (no zero column): secrets >= outputs."""
    image = np.concatenate([np.arange(outputs), generator.integers(0, outputs, secrets - outputs)])
    return DiscreteChannel(np.eye(outputs)[generator.permutation(image)])


def prior_of(generator: np.random.Generator, secrets: int) -> np.ndarray:
    return generator.dirichlet(np.full(secrets, generator.choice([0.2, 1.0])))


# --- the lemmas of Palamidessi et al., Section V ---------------------------------------------


@untimed
@given(seeds, sizes, sizes, st.integers(0, 4))
def test_lemma_1_deterministic_preprocessing_keeps_the_capacity(seed, middle, last, extra):
    generator = rng(seed)
    before = deterministic(generator, middle + extra, middle)
    noise = channel(generator, middle, last)
    assert (before @ noise).bayes_capacity() == pytest.approx(noise.bayes_capacity(), abs=1e-12)


def test_lemma_1_needs_a_range_that_fills_the_domain():
    # Erratum to Theorem 4: with a zero column in C the capacity of the noise is only a bound.
    constant = DiscreteChannel([[1.0, 0.0], [1.0, 0.0]])
    noise = DiscreteChannel(np.eye(2))
    assert (constant @ noise).bayes_capacity() == 1
    assert noise.bayes_capacity() == 2


@untimed
@given(seeds, sizes, sizes)
def test_lemma_2_extremes(seed, secrets, observations):
    law = prior_of(rng(seed), observations)
    assert DiscreteChannel(np.tile(law, (secrets, 1))).bayes_capacity() == pytest.approx(1)
    assert DiscreteChannel(np.eye(secrets)).bayes_capacity() == secrets


@untimed
@given(seeds, sizes, sizes)
def test_capacity_lies_between_the_extremes(seed, secrets, observations):
    capacity = channel(rng(seed), secrets, observations).bayes_capacity()
    assert 1 <= capacity <= min(secrets, observations) + 1e-12


@untimed
@given(seeds, st.integers(2, 7), sizes, st.data())
def test_corollary_1_fewer_secrets_have_a_smaller_capacity(seed, secrets, observations, data):
    whole = channel(rng(seed), secrets, observations)
    larger = data.draw(st.lists(st.integers(0, secrets - 1), min_size=1, unique=True))
    smaller = data.draw(st.lists(st.sampled_from(larger), min_size=1, unique=True))
    inner, outer = whole.restrict(smaller), whole.restrict(larger)
    assert inner.bayes_capacity() <= outer.bayes_capacity() + 1e-12
    assert outer.bayes_capacity() <= whole.bayes_capacity() + 1e-12
    np.testing.assert_array_equal(inner.matrix, whole.matrix[smaller])


@untimed
@given(seeds, sizes, sizes, sizes)
def test_lemma_3_and_its_stronger_form(seed, secrets, middle, last):
    generator = rng(seed)
    first, second = channel(generator, secrets, middle), channel(generator, middle, last)
    both = first.cascade(second)
    assert both == first @ second
    assert both.bayes_capacity() <= first.bayes_capacity() + 1e-12
    assert both.bayes_capacity() <= second.bayes_capacity() + 1e-12


@untimed
@given(seeds, sizes, sizes, st.integers(1, 5))
def test_miracle_theorem(seed, secrets, observations, actions):
    generator = rng(seed)
    subject = channel(generator, secrets, observations)
    gain = generator.exponential(size=(actions, secrets)) ** 3
    leakage = subject.multiplicative_leakage(prior_of(generator, secrets), gain)
    assert 1 - 1e-9 <= leakage <= subject.bayes_capacity() * (1 + 1e-12)
    # Attained by exact guessing under a uniform prior.
    assert subject.multiplicative_leakage() == pytest.approx(subject.bayes_capacity(), rel=1e-12)


# --- data processing, composition, information ------------------------------------------------


@untimed
@given(seeds, sizes, sizes, sizes, st.integers(1, 5))
def test_data_processing_for_every_prior_and_gain(seed, secrets, middle, last, actions):
    generator = rng(seed)
    first, second = channel(generator, secrets, middle), channel(generator, middle, last)
    prior, gain = prior_of(generator, secrets), generator.normal(size=(actions, secrets))
    after, before = first @ second, first
    assert after.additive_leakage(prior, gain) <= before.additive_leakage(prior, gain) + 1e-12
    assert after.shannon_mutual_information(prior) <= (
        before.shannon_mutual_information(prior) + 1e-12
    )
    assert after.additive_leakage(prior, gain) >= -1e-12


@untimed
@given(seeds, sizes, sizes, sizes)
def test_parallel_releases(seed, secrets, one, two):
    generator = rng(seed)
    a, b = channel(generator, secrets, one), channel(generator, secrets, two)
    both = a.parallel(b)
    bound = a.log_bayes_capacity() + b.log_bayes_capacity()
    assert both.log_bayes_capacity() <= bound + 1e-12
    assert both.bayes_capacity() >= max(a.bayes_capacity(), b.bayes_capacity()) - 1e-12
    # Forgetting one of the two observations gives the other channel back.
    grid = both.matrix.reshape(secrets, one, two)
    np.testing.assert_allclose(grid.sum(axis=2), a.matrix, atol=1e-14)
    np.testing.assert_allclose(grid.sum(axis=1), b.matrix, atol=1e-14)


@untimed
@given(seeds, sizes, sizes)
def test_information_lies_below_the_log_capacity_and_the_entropy(seed, secrets, observations):
    generator = rng(seed)
    subject, prior = channel(generator, secrets, observations), prior_of(generator, secrets)
    nats = subject.shannon_mutual_information(prior)
    entropy = -math.fsum(p * math.log(p) for p in prior if p > 0)
    assert 0 <= nats <= min(entropy, subject.log_bayes_capacity()) + 1e-12


def test_information_of_the_identity_is_the_entropy():
    assert DiscreteChannel(np.eye(4)).shannon_mutual_information() == pytest.approx(math.log(4))


def test_information_survives_underflow():
    subject = DiscreteChannel([[1.0, 0.0], [1 - 1e-200, 1e-200]])
    nats = subject.shannon_mutual_information([1.0, 5e-324])
    assert nats == pytest.approx(0, abs=1e-300)


# --- outside reference -------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(2, 6), st.integers(2, 6), st.integers(1, 5))
def test_measures_equal_qif(seed, secrets, observations, actions):
    qif = pytest.importorskip("qif")
    generator = rng(seed)
    subject, prior = channel(generator, secrets, observations), prior_of(generator, secrets)
    gain = generator.exponential(size=(actions, secrets))
    matrix, bayes, g = subject.matrix.copy(), qif.measure.bayes_vuln, qif.measure.g_vuln
    close = pytest.approx
    assert subject.bayes_capacity() == close(bayes.mult_capacity(matrix), rel=1e-12)
    assert subject.prior_vulnerability(prior) == close(bayes.prior(prior), rel=1e-12)
    assert subject.posterior_vulnerability(prior) == close(
        bayes.posterior(prior, matrix), rel=1e-12
    )
    assert subject.multiplicative_leakage(prior) == close(
        bayes.mult_leakage(prior, matrix), rel=1e-12
    )
    assert subject.prior_vulnerability(prior, gain) == close(g.prior(gain, prior), rel=1e-12)
    assert subject.posterior_vulnerability(prior, gain) == close(
        g.posterior(gain, prior, matrix), rel=1e-12
    )
    assert subject.multiplicative_leakage(prior, gain) == close(
        g.mult_leakage(gain, prior, matrix), rel=1e-12
    )
    assert subject.additive_leakage(prior, gain) == close(
        g.add_leakage(gain, prior, matrix), abs=1e-12
    )
    bits = qif.measure.shannon.add_leakage(prior, matrix)
    assert subject.shannon_mutual_information(prior) == close(bits * math.log(2), abs=1e-12)


# --- refinement and comparison -----------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(seeds, st.integers(1, 5), st.integers(1, 5), st.integers(1, 5))
def test_a_postprocessing_is_found_and_orders_all_leakage(seed, secrets, middle, last):
    generator = rng(seed)
    a = channel(generator, secrets, middle)
    b = a @ channel(generator, middle, last)
    found = refined_by(a, b)
    assert found.holds
    assert found.witness is not None
    np.testing.assert_allclose(a.matrix @ found.witness, b.matrix, atol=1e-9)
    np.testing.assert_allclose(found.witness.sum(axis=1), 1, atol=1e-12)
    assert found.witness.min() >= 0
    prior, gain = prior_of(generator, secrets), generator.exponential(size=(4, secrets))
    assert b.posterior_vulnerability(prior, gain) <= (a.posterior_vulnerability(prior, gain) + 1e-8)
    assert b.bayes_capacity() <= a.bayes_capacity() + 1e-8


@settings(max_examples=50, deadline=None)
@given(seeds, st.integers(2, 4), st.integers(2, 4), st.integers(2, 4))
def test_refinement_equals_qif_and_shows_its_evidence(seed, secrets, one, two):
    qif = pytest.importorskip("qif")
    generator = rng(seed)
    a, b = channel(generator, secrets, one), channel(generator, secrets, two)
    found = refined_by(a, b)
    # qif's solver takes small differences for rounding (1e-4 was seen); ours shows them.
    if found.holds or found.advantage > 1e-2:
        assert found.holds == qif.refinement.refined_by(a.matrix.copy(), b.matrix.copy())
    assert (found.witness is not None) == found.holds
    if not found.holds:
        assert found.gain is not None
        assert found.gain.min() >= 0
        assert found.gain.max() <= 1
        gap = b.posterior_vulnerability(gain=found.gain) - a.posterior_vulnerability(
            gain=found.gain
        )
        assert gap == found.advantage > 0


def test_the_name_of_the_last_version_warns():
    with pytest.warns(DeprecationWarning, match="is now compare_channels"):
        assert refinement.compare is compare_channels
    with pytest.raises(AttributeError, match="nonsense"):
        _ = refinement.nonsense


def test_capacity_orders_what_refinement_does_not():
    # Three secrets: a tells the first from the rest, b gives a faint hint about all three.
    a = DiscreteChannel([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    b = DiscreteChannel([[0.4, 0.3, 0.3], [0.3, 0.4, 0.3], [0.3, 0.3, 0.4]])
    result = compare_channels(a, b)
    assert (result.capacity_a, result.capacity_b) == (2, pytest.approx(1.2))
    assert result.safer == "b"
    assert result.safer_for_all is None
    evidence = result.a_refined_by_b
    assert evidence.gain is not None
    assert b.multiplicative_leakage(gain=evidence.gain) > a.multiplicative_leakage(
        gain=evidence.gain
    )
    assert result.to_dict() == {
        "bayes_capacity": {"a": result.capacity_a, "b": result.capacity_b},
        "log_bayes_capacity": {"a": math.log(2), "b": pytest.approx(math.log(1.2))},
        "safer": "b",
        "safer_for_all": None,
        "a_refined_by_b": False,
        "b_refined_by_a": False,
    }


def test_comparison_of_equals_and_of_ordered_channels():
    coin = DiscreteChannel([[0.75, 0.25], [0.25, 0.75]])
    swapped = DiscreteChannel(coin.matrix[:, ::-1])
    same = compare_channels(coin, swapped)
    assert (same.safer, same.safer_for_all) == ("equal", "equal")
    worse = compare_channels(coin @ coin, coin)
    assert (worse.safer, worse.safer_for_all) == ("a", "a")


# --- the object and bad input ------------------------------------------------------------------


def test_the_matrix_is_an_immutable_copy():
    source = np.eye(2)
    subject = DiscreteChannel(source)
    source[0, 0] = 7
    assert subject.matrix[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        subject.matrix[0, 0] = 0.5
    assert subject == DiscreteChannel([[1, 0], [0, 1]])
    assert hash(subject) == hash(DiscreteChannel([[1, -0.0], [0, 1]]))
    assert subject != "channel"
    assert repr(subject) == "DiscreteChannel(2 secrets, 2 observations)"


def test_rounded_rows_are_rescaled_so_that_cascades_stay_valid():
    subject = DiscreteChannel([[0.5, 0.5 + 9e-10], [0.25, 0.75]])
    assert subject.matrix.sum(axis=1) == pytest.approx([1, 1], abs=1e-15)
    for _ in range(20):
        subject = subject @ subject


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0.5, 0.5], [0.5, 0.4]], "row 2 of the channel sums to 0.9, not 1; divide it by its sum"),
        ([[0.5, 0.5], [1.5, -0.5]], "row 2 of the channel has the negative entry -0.5"),
        ([[0.5, 0.5], [math.nan, 1]], "channel must be finite: row 2, column 1 is nan"),
        ([[0.5, 0.5], [math.inf, 1]], "row 2, column 1 is inf"),
        ([[1.0], [0.5, 0.5]], "equal rows"),
        ([0.5, 0.5], "got shape"),
        ([[]], "got shape"),
        ([["a"]], "table of numbers"),
    ],
)
def test_bad_channels(matrix, message):
    with pytest.raises(ValueError, match=message) as caught:
        DiscreteChannel(matrix)
    assert "\n" not in str(caught.value)


def test_bad_arguments():
    subject, wide = DiscreteChannel(np.eye(2)), DiscreteChannel(np.eye(3))
    cases = [
        (lambda: subject.prior_vulnerability([0.5, 0.4]), "the prior sums to 0.9"),
        (lambda: subject.prior_vulnerability([1.5, -0.5]), "the prior has the negative entry"),
        (lambda: subject.prior_vulnerability([math.nan, 1]), "entry 1 is nan"),
        (lambda: subject.prior_vulnerability([1.0]), "prior must have 2 entries"),
        (lambda: subject.prior_vulnerability(gain=[[1.0, 0, 0]]), "gain must have 2 columns"),
        (lambda: subject.multiplicative_leakage(gain=[[-1.0, 1]]), "gain must be 0 or more"),
        (lambda: subject.multiplicative_leakage([1, 0], [[0.0, 1]]), "not defined"),
        (lambda: subject @ wide, "cascade needs 2 rows"),
        (lambda: subject.parallel(wide), "same secrets, got 2 and 3 rows"),
        (lambda: refined_by(subject, wide), "same secrets"),
        (lambda: subject.restrict([]), "distinct indices from 0 to 1"),
        (lambda: subject.restrict([0, 0]), "distinct indices"),
        (lambda: subject.restrict([2]), "distinct indices"),
        (lambda: subject.restrict([-1]), "0 or more"),
    ]
    for call, message in cases:
        with pytest.raises(ValueError, match=message) as caught:
            call()
        assert "\n" not in str(caught.value)
