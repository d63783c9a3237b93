"""Gains over a blind guess: by hand, by their laws, and where they must say nothing."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recondite.metrics import Metric, VictimScores, beats_guessing, gain, gains

ERROR = Metric("mse", "MSE", "lower", perfect=0.0, gain="share")
LIKENESS = Metric("ssim", "SSIM", "higher")
FAULTS = Metric("faults", "faults", "lower", perfect=0.0)
LOGARITHM = Metric("psnr", "PSNR", "higher", unit="dB", perfect=math.inf, gain="none")

errors = st.lists(st.tuples(st.floats(0, 10), st.floats(1e-3, 10)), min_size=6, max_size=20).map(
    np.array
)


def test_by_hand():
    found = gain(ERROR, [0.1, 0.3], [0.4, 0.4])
    assert found.value == pytest.approx(1 - 0.4 / 0.8)
    assert found.most == pytest.approx(1 - 0.1 / 0.4)
    assert (found.victims, found.clusters) == (2, 2)
    assert gain(LIKENESS, [0.9, 0.5], [0.4, 0.6]).value == pytest.approx(0.2)
    assert gain(LIKENESS, [0.9, 0.5], [0.4, 0.6]).most == pytest.approx(0.5)
    assert gain(FAULTS, [1, 2], [3, 4]).value == 2


def test_the_interval_is_that_of_all_resamples():
    """Six victims have 6**6 equally likely resamples: few enough to see them all."""
    ours, floor = np.array([0.1, 0.2, 0.2, 0.5, 0.7, 0.9]), np.array([0.5, 0.4, 0.9, 0.5, 0.6, 0.8])
    drawn = np.stack(np.meshgrid(*[np.arange(6)] * 6), axis=-1).reshape(-1, 6)
    exact = np.quantile(1 - ours[drawn].sum(1) / floor[drawn].sum(1), [0.025, 0.975])
    found = gain(ERROR, ours, floor, resamples=200_000)
    whole = 1 - ours.sum() / floor.sum()
    without = 1 - (ours.sum() - ours) / (floor.sum() - floor)
    reach = 2.5706 * np.sqrt(5 / 6 * np.square(without - without.mean()).sum())  # t of five
    singly = 1 - ours / floor
    low = min(exact[0], max(singly.min(), whole - reach))
    high = max(exact[1], min(singly.max(), whole + reach))
    assert low < exact[0]
    assert found.interval == pytest.approx((low, high), abs=0.01)


@pytest.mark.parametrize("count", [8, 24])
def test_no_gain_is_hardly_ever_called_one(count):
    """One in forty is meant; the bootstrap alone said it of one in twelve with eight victims."""
    rng = np.random.default_rng(4)
    wrong = 0
    for _ in range(600):
        floor = 0.1 * np.exp(0.5 * rng.standard_normal(count))
        ours = floor * np.exp(0.3 * rng.standard_normal(count) - 0.045)  # as good on average
        wrong += bool(gain(ERROR, ours, floor, resamples=200).beats_guessing)
    assert wrong < 0.065 * 600


def test_victims_of_one_run_are_drawn_together():
    """Copies of a victim in its own run are no new evidence."""
    rng = np.random.default_rng(0)
    ours, floor = rng.random(8), rng.random(8)
    runs = np.repeat(np.arange(8), 5)
    alone = gain(ERROR, ours, floor)
    together = gain(ERROR, np.repeat(ours, 5), np.repeat(floor, 5), clusters=runs.tolist())
    naive = gain(ERROR, np.repeat(ours, 5), np.repeat(floor, 5))
    assert together.interval == pytest.approx(alone.interval)
    assert (together.victims, together.clusters) == (40, 8)
    width = np.ptp(together.interval)
    assert np.ptp(naive.interval) < 0.7 * width
    assert gain(ERROR, ours, floor, clusters=["run"] * 8).interval is None


@pytest.mark.parametrize("count", [1, 2, 5])
def test_few_victims_tell_nothing(count):
    found = gain(ERROR, [0.0] * count, [1.0] * count)
    assert found.value == 1
    assert found.interval is None
    assert found.beats_guessing is None
    assert beats_guessing({"mse": found}) is None


def test_what_beats_guessing():
    better, same = [0.1] * 8, [0.4] * 8
    assert gain(ERROR, better, same).beats_guessing is True
    assert gain(ERROR, same, same).beats_guessing is False
    assert gain(ERROR, same, better).beats_guessing is False
    found = {"a": gain(ERROR, same, same), "b": gain(ERROR, better, same)}
    assert beats_guessing(found) is True, "one metric is enough"
    few = gain(ERROR, [0.4], [0.4])
    assert beats_guessing({"a": found["a"], "b": few}) is None, "not shown to hold"
    assert beats_guessing({}) is None


def test_one_victim_laid_bare_is_seen_beside_a_mean_that_hides_it():
    found = gain(ERROR, [0.0, *[0.9] * 9], [0.4] * 10)
    assert found.value < 0
    assert found.beats_guessing is False
    assert found.most == 1


def test_a_guess_without_error_leaves_nothing_to_gain():
    assert gain(ERROR, [0.0] * 6, [0.0] * 6).value == 0
    worse = gain(ERROR, [0.1] * 6, [0.0] * 6)
    assert worse.value == -math.inf
    assert worse.interval == (-math.inf, -math.inf)
    mixed = gain(ERROR, [0.0, *[0.1] * 6], [1.0, *[0.0] * 6])
    assert not math.isnan(mixed.interval[0])
    assert mixed.beats_guessing is False


@given(errors)
@settings(max_examples=50, deadline=None)
def test_blind_against_itself_gains_nothing_and_a_copy_everything(pairs):
    floor = pairs[:, 1]
    for metric in (ERROR, LIKENESS, FAULTS):
        nothing = gain(metric, floor, floor, resamples=100)
        assert (nothing.value, nothing.interval, nothing.most) == (0, (0, 0), 0)
    copy = gain(ERROR, np.zeros_like(floor), floor, resamples=100)
    assert (copy.value, copy.interval, copy.most) == (1, (1, 1), 1)


@given(errors, st.floats(1e-3, 1e3))
@settings(max_examples=50, deadline=None)
def test_another_unit_changes_no_share(pairs, factor):
    one = gain(ERROR, *pairs.T, resamples=100)
    other = gain(ERROR, *(factor * pairs).T, resamples=100)
    assert other.value == pytest.approx(one.value, rel=1e-9, abs=1e-9)
    difference = gain(FAULTS, *(factor * pairs).T, resamples=100).value
    expected = factor * gain(FAULTS, *pairs.T, resamples=100).value
    assert difference == pytest.approx(expected, rel=1e-9, abs=1e-9 * factor)


@given(errors, st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_the_order_of_the_victims_does_not_matter(pairs, random):
    runs = [index // 2 for index in range(len(pairs))]
    order = list(range(len(pairs)))
    random.shuffle(order)
    for clusters in (None, runs):
        turned = None if clusters is None else [clusters[index] for index in order]
        one = gain(ERROR, *pairs.T, clusters=clusters, resamples=100)
        other = gain(ERROR, *pairs[order].T, clusters=turned, resamples=100)
        assert other == one


@given(errors)
@settings(max_examples=50, deadline=None)
def test_the_value_lies_between_the_victims(pairs):
    found = gain(ERROR, *pairs.T, resamples=100)
    shares = 1 - pairs[:, 0] / pairs[:, 1]
    assert shares.min() - 1e-9 <= found.interval[0] <= found.interval[1] <= shares.max() + 1e-9
    assert found.most == shares.max()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gain(ERROR, [0.1], [0.1, 0.2]), "one number for each of the same victims"),
        (lambda: gain(ERROR, [], []), "one number for each"),
        (lambda: gain(ERROR, [0.1, math.nan], [0.1, 0.2]), r"victim 1 has no score \(NaN\)"),
        (lambda: gain(ERROR, [0.1], [math.inf]), "must have finite scores"),
        (lambda: gain(ERROR, [-0.1], [0.1]), "an error must be 0 or more"),
        (lambda: gain(LOGARITHM, [1.0], [1.0]), "psnr has no gain"),
        (lambda: gain(ERROR, [0.1], [0.1], level=1), "level"),
        (lambda: gain(ERROR, [0.1], [0.1], clusters=[1, 2]), "one for each of 1 victims"),
        (lambda: Metric("a", "a", "higher", gain="share"), "needs direction lower"),
        (lambda: VictimScores((ERROR,), {}, np.arange(2)), "values must be given for mse"),
        (
            lambda: VictimScores((ERROR,), {"mse": np.zeros(3)}, np.arange(2)),
            "one number for each of 2",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def scores(*values):
    return VictimScores(
        (ERROR, LOGARITHM),
        {"mse": np.array(values), "psnr": np.ones(len(values))},
        np.arange(len(values)),
    )


def test_gains_of_all_metrics_that_have_one():
    assert list(gains(scores(0.1, 0.2), scores(0.4, 0.4))) == ["mse"]
    other = VictimScores((LIKENESS,), {"ssim": np.zeros(2)}, np.arange(2))
    with pytest.raises(ValueError, match="the same metrics"):
        gains(scores(0.1, 0.2), other)


def test_a_broken_reconstruction_counts_as_the_blind_guess():
    found, blind = scores(0.1, math.nan, 0.3), scores(0.4, 0.5, 0.6)
    filled = found.filled(blind)
    assert filled.values["mse"].tolist() == [0.1, 0.5, 0.3]
    assert gains(filled, blind)["mse"].value == pytest.approx(1 - 0.9 / 1.5)
    assert found.most_exposed("mse") == [0, 2, 1]
    with pytest.raises(ValueError, match="the same metrics and victims"):
        found.filled(scores(0.1))


def test_the_most_exposed_come_first():
    found = scores(0.4, 0.1, 0.3, 0.1)
    assert found.most_exposed("mse", 3) == [1, 3, 2]
    assert found.mean("mse") == pytest.approx(0.225)
    with pytest.raises(ValueError, match="metric must be one of mse, psnr"):
        found.most_exposed("ssim")
