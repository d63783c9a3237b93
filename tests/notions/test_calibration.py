"""Calibration: the weakest noise that meets a target, never one that misses."""

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import recondite as rc

RUN = rc.Poisson(rate=0.01, steps=200)
STARTS = {
    "vmf": rc.VonMisesFisher(1.0, 2_000),
    "gaussian": rc.Gaussian(1.0, 2_000, max_batch_size=50),
    "partitioned": rc.PartitionedVonMisesFisher(1.0, 2_000, blocks=2),
    "directional": rc.Directional(1.0, 2_000),
}


@pytest.mark.parametrize("name", list(STARTS))
@pytest.mark.parametrize(
    ("notion", "target", "scope"),
    [
        ("epsilon", 3.0, "release"),
        ("bayes-capacity", 40.0, "release"),
        ("bayes-capacity", 900.0, "run"),
        ("mutual-information", 0.3, "release"),
        ("mutual-information", 5.0, "run"),
        ("rero", 0.3, "release"),
    ],
)
def test_target_is_met_and_a_little_less_noise_misses_it(name, notion, target, scope):
    found = rc.calibrate(STARTS[name], target, notion, RUN, delta=1e-5, scope=scope)
    assert found.achieved <= target
    assert found.achieved == rc.measure(found.mechanism, notion, RUN, delta=1e-5, scope=scope)
    weaker = 1.002 if found.mechanism.weaker == "larger" else 1 / 1.002
    less = found.mechanism.with_strength(found.value * weaker)
    assert rc.measure(less, notion, RUN, delta=1e-5, scope=scope) > target * (1 - 1e-4)
    assert found.to_dict()["parameter"] == found.parameter == STARTS[name].parameter
    assert found.to_dict()["value"] == found.value


@given(epsilon=st.floats(0.05, 40.0), start=st.floats(1e-4, 1e4))
@hypothesis_settings(max_examples=6)
def test_the_start_does_not_matter(epsilon, start):
    found = rc.calibrate(rc.VonMisesFisher(start, 2_000), epsilon, "epsilon", RUN, delta=1e-5)
    again = rc.calibrate(rc.VonMisesFisher(1.0, 2_000), epsilon, "epsilon", RUN, delta=1e-5)
    assert found.achieved <= epsilon
    assert found.value == pytest.approx(again.value, rel=1e-3)


@pytest.mark.parametrize("notion", ["epsilon", "bayes-capacity", "mutual-information", "rero"])
def test_matching_there_and_back_again(notion):
    source = rc.Gaussian(2.0, 2_000, max_batch_size=4)
    there = rc.match(source, rc.VonMisesFisher(1.0, 2_000), notion, RUN, delta=1e-5)
    back = rc.match(there.mechanism, source, notion, RUN, delta=1e-5)
    assert back.value == pytest.approx(2.0, rel=5e-3)


def test_matching_what_is_infinite_is_refused():
    with pytest.raises(ValueError, match="infinite"):
        rc.match(rc.NoNoise(), rc.VonMisesFisher(1.0, 10), "bayes-capacity")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: rc.calibrate(STARTS["vmf"], 1.0, "epsilon"), "schedule"),
        (lambda: rc.calibrate(STARTS["vmf"], 1.0, "epsilon", RUN), "delta"),
        (lambda: rc.calibrate(STARTS["vmf"], -1.0, "epsilon", RUN, delta=1e-5), "epsilon"),
        (lambda: rc.calibrate(STARTS["vmf"], 0.05, "rero", RUN), "prior_success"),
        (lambda: rc.calibrate(STARTS["vmf"], 1.5, "rero", RUN), "rero"),
        (lambda: rc.calibrate(STARTS["vmf"], 1.0, "magic", RUN), "notion"),
        (lambda: rc.calibrate(STARTS["vmf"], 1.0, "bayes-capacity", scope="day"), "scope"),
        (lambda: rc.calibrate(rc.NoNoise(), 1.0, "epsilon", RUN, delta=1e-5), "no noise"),
        (lambda: rc.calibrate(rc.Gaussian(1.0, 10), 1.0, "bayes-capacity"), "max_batch_size"),
        (
            lambda: rc.calibrate(
                rc.PartitionedVonMisesFisher((1.0, 2.0), 10), 1.0, "bayes-capacity"
            ),
            "kappa",
        ),
    ],
)
def test_bad_requests_say_what_is_missing_in_one_line(make, words):
    with pytest.raises(ValueError, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("epsilon", [0.37, 1.0, 2.9, 8.0])
@pytest.mark.parametrize("start", [rc.Gaussian(1.0), rc.VonMisesFisher(1.0, 500)])
def test_the_value_as_it_is_printed_meets_the_target(start, epsilon):
    run = rc.Poisson(0.01, 100)
    found = rc.calibrate(start, epsilon, "epsilon", run, delta=1e-5)
    printed = float(f"{found.value:.6g}")
    assert printed == found.value == found.mechanism.strength
    assert rc.epsilon(start.with_strength(printed), run, delta=1e-5) == found.achieved <= epsilon


@pytest.mark.parametrize("start", [rc.Gaussian(1.0), rc.VonMisesFisher(1.0, 500)])
@pytest.mark.parametrize("run", [RUN, rc.RandomAllocation(50, 2)])
def test_the_value_of_plain_bisection_in_half_as_many_accounts(start, run):
    accounts = []
    found = rc.calibrate(
        start, 3.0, "epsilon", run, delta=1e-5, progress=lambda: accounts.append(1)
    )
    assert len(accounts) <= 15  # bisection alone takes more than twenty

    def met(strength):
        return rc.epsilon(start.with_strength(strength), run, delta=1e-5) <= 3.0

    step = 1e-5 if start.weaker == "larger" else -1e-5
    assert met(found.value)
    assert not met(found.value * (1 + 4 * step))
