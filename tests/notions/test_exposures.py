"""ε and ReRo of one update, and of a run whose participation is known: from an account's JSON."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from recondite.accounting import FixedSize, Poisson, RandomAllocation, Shuffled, epsilon
from recondite.accounting.composition import Composition
from recondite.attacks.identification.bounds import of_run
from recondite.mechanisms import Directional, Gaussian, Neighbouring, VonMisesFisher
from recondite.notions.exposures import exposures as exposed
from recondite.notions.pairs import ComposedPair

DELTA = 1e-4


def exposures(privacy):
    return [vars(one) for one in exposed(privacy)]


def account(mechanism, schedule, **more):
    return {
        "mechanism": mechanism.name,
        "parameters": mechanism.parameters(),
        "schedule": schedule.to_dict(),
        "delta": DELTA,
        **more,
    }


def both(*asked, **more):
    return exposures(account(*asked, **more))


def composed(law, count):
    return ComposedPair(Composition.of([(law, count)]))


@pytest.mark.parametrize("mechanism", [Gaussian(1.23), VonMisesFisher(30.0, dim=400)])
def test_one_update_is_one_release_without_sampling(mechanism):
    update, _ = both(mechanism, Poisson(0.03, 580))
    once = Poisson(1.0, 1)
    assert (update["threat"], update["participation"], update["releases"]) == ("update", "known", 1)
    assert update["epsilon"] == pytest.approx(epsilon(mechanism, once, DELTA), rel=1e-6)
    assert update["rero"] == pytest.approx(of_run(mechanism, once).at(10), rel=1e-6)
    assert update["reason"] == ""


def test_known_participation_counts_the_steps_that_are_sure():
    mechanism, schedule = Gaussian(2.0), RandomAllocation(29, 5)
    _, told = both(mechanism, schedule)
    pair = composed(mechanism.loss(schedule.neighbouring(mechanism)), 5)
    assert told["releases"] == 5
    assert told["epsilon"] == pytest.approx(pair.epsilon(DELTA), rel=1e-9)
    assert told["rero"] == pytest.approx(pair.success(0.1), rel=1e-9)


@pytest.mark.parametrize("schedule", [Poisson(0.05, 60), FixedSize(5, 100, 60)])
def test_known_participation_that_is_drawn_is_paid_for_by_the_delta(schedule):
    mechanism = Gaussian(6.0)
    _, told = both(mechanism, schedule)
    law, count = mechanism.loss(schedule.neighbouring(mechanism)), told["releases"]
    spent = binom.sf(count, 60, 0.05)
    assert spent <= DELTA / 2 < binom.sf(count - 1, 60, 0.05)
    # δ of the whole, averaged over the draw, is within what is claimed.
    ways = np.arange(61)
    each = [composed(law, int(k)).delta(told["epsilon"]) if k else 0.0 for k in ways[: count + 1]]
    shares = binom.pmf(ways, 60, 0.05)
    assert float(np.dot(each, shares[: count + 1])) + spent <= DELTA * (1 + 1e-6)
    succeeds = [composed(law, int(k)).success(0.1) if k else 0.1 for k in ways[:20]]
    exact = float(np.dot(succeeds, shares[:20]))
    assert exact <= told["rero"] <= 1.25 * exact


def test_what_gives_a_record_away_at_once_is_not_composed_in_vain():
    update, told = both(Gaussian(0.05), Poisson(0.03, 580))
    assert update["rero"] >= 0.999
    assert told["rero"] == pytest.approx(1.0, abs=1e-7)  # but for who took part in no step
    law = Gaussian(0.05).loss(Neighbouring.ADD_OR_REMOVE)
    assert told["epsilon"] >= composed(law, 20).epsilon(DELTA)


def test_where_nothing_hides_and_where_nothing_is_known():
    for one in exposures(None):
        assert (one["epsilon"], one["rero"], one["reason"]) == (
            math.inf, 1.0, "nothing protects the records",
        )  # fmt: skip
    # Every epoch holds every record: the account is of an intruder who knows that already.
    assert both(Gaussian(1.0), Shuffled(records=100, batch_size=10, epochs=3)) == []
    foreign = exposures({**account(Gaussian(1.0), Poisson(0.1, 5)), "mechanism": "another"})
    assert all(one["epsilon"] is None and "not those" in one["reason"] for one in foreign)
    grouped = both(Gaussian(1.0), Poisson(0.1, 5), group_size=3)
    assert all(one["rero"] is None and "groups" in one["reason"] for one in grouped)
    bare = exposures({**account(Gaussian(1.0), Poisson(0.1, 5)), "delta": None})
    assert all(one["epsilon"] is None and one["rero"] is not None for one in bare)


def test_noise_on_each_record_is_bounded_too():
    update, told = both(Directional(20.0, dim=50), FixedSize(5, 100, 60))
    assert update["relation"] == told["relation"] == "replace-one"
    assert update["epsilon"] <= told["epsilon"]
    # Of an update the record is in, the bound is nearly 1; of a run it may be in no step at all.
    assert update["rero"] > 0.999
    assert told["rero"] == pytest.approx(1.0 - 0.9 * 0.95**60)
