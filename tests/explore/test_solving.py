"""The coarse answer holds, the tight one is the account's, and a locked target is met."""

import pytest

from recondite.attacks.identification.bounds import of_run, told_when
from recondite.explore.intruders import seen_by
from recondite.explore.question import Query, Refused
from recondite.explore.solving import coarse, tight
from recondite.notions import account
from recondite.notions.pairs import ComposedPair

SETTINGS = [
    {},
    {"defence": "vmf", "value": "50"},
    {"defence": "directional", "value": "20"},
    {"defence": "partitioned", "value": "20", "blocks": "3"},
    {"sampling": "shuffled", "value": "3"},
    {"sampling": "fixed-size", "value": "2"},
    {"sampling": "allocation", "epochs": "2"},
    {"participation": "known", "value": "4"},
    {"threat": "update", "value": "2"},
]


@pytest.mark.parametrize("changes", SETTINGS)
def test_the_coarse_answer_is_an_upper_bound_on_the_tight_one(form, changes):
    asked = Query.read(form(**changes))
    rough, fine = coarse(asked), tight(asked)
    for name in ("epsilon", "rero", "identification"):
        assert getattr(rough, name) >= getattr(fine, name) * (1 - 1e-9)
    exact = account(asked.mechanism, asked.schedule, asked.delta, prior_success=asked.prior)
    assert fine.epsilon == exact.epsilon["pld"]
    assert fine.rero == exact.rero["bound"]


@pytest.mark.parametrize(
    "changes",
    [
        {"lock": "epsilon", "target": "4"},
        {"lock": "rero", "target": "0.3"},
        {"lock": "identification", "target": "0.3", "participation": "known"},
        {"lock": "identification", "target": "0.4", "threat": "update", "candidates": "4"},
        {"lock": "epsilon", "target": "4", "defence": "vmf"},
    ],
)
def test_a_locked_target_is_met_with_more_noise_by_the_coarse_route(form, changes):
    asked = Query.read(form(**changes))
    rough = coarse(asked)
    fine = tight(asked, rough.question.mechanism.strength)
    for answer in (rough, fine):
        assert getattr(answer, asked.lock) <= asked.target
    ratio = rough.question.mechanism.strength / fine.question.mechanism.strength
    assert ratio < 1 if asked.mechanism.weaker == "larger" else ratio > 1
    # Less noise than the tight answer's would miss the target.
    less = 1.01 if asked.mechanism.weaker == "larger" else 0.99
    weaker = fine.question.at(strength=fine.question.mechanism.strength * less)
    assert getattr(tight(_unlocked(weaker)), asked.lock) > asked.target


def _unlocked(asked):
    from dataclasses import replace

    return replace(asked, lock="")


def test_the_most_epochs_that_meet_a_target(form):
    asked = Query.read(form(lock="epsilon", target="4", solve="epochs"))
    rough, fine = coarse(asked), tight(asked)
    assert 1 <= rough.question.epochs <= fine.question.epochs
    assert fine.epsilon <= 4 < tight(_unlocked(asked.at(epochs=fine.question.epochs + 1))).epsilon
    with pytest.raises(Refused, match="even one epoch"):
        tight(Query.read(form(lock="epsilon", target="0.01", solve="epochs")))


def test_a_target_that_nothing_meets_is_refused_in_one_line(form):
    with pytest.raises(Refused) as refused:
        coarse(Query.read(form(lock="rero", target="0.1000000001", value="1")))
    assert refused.value.field == "target"


def test_who_is_told_more_succeeds_more_often(form):
    base = {"value": "2", "sampling": "poisson"}
    secret = tight(Query.read(form(**base))).identification
    known = tight(Query.read(form(**base, participation="known"))).identification
    assert secret < known


def test_the_bound_for_known_participation_covers_the_game(form):
    import numpy as np

    asked = Query.read(form(value="3", epochs="3"))
    schedule, mechanism = asked.schedule, asked.mechanism
    pair = ComposedPair(seen_by(schedule, "training", "known").composition(mechanism))
    chances, rate = schedule.participations()
    taken = np.random.default_rng(0).binomial(chances, rate, 2_000)
    # The game averages over records; what it cannot exceed is below the bound of the pair.
    assert told_when(mechanism, schedule, taken).at(10) <= 1.02 * pair.success(0.1)
    secret = ComposedPair(seen_by(schedule, "model", "secret").composition(mechanism))
    assert secret.success(0.1) == of_run(mechanism, schedule).at(10)


def test_shuffled_batches_hide_nothing_that_could_be_told(form):
    hidden = tight(Query.read(form(sampling="shuffled", value="4")))
    told = tight(Query.read(form(sampling="shuffled", value="4", participation="known")))
    assert hidden.identification == told.identification


def test_people_read_bounds_rounded_up_and_no_promise_without_one(form):
    said = tight(Query.read(form())).to_dict()
    assert said["text"]["sentence"].startswith(
        "Nobody who sees the whole training without being told in which steps it took part can pick"
    )
    assert float(said["text"]["epsilon"]) >= said["epsilon"]
    weak = tight(Query.read(form(value="0.05"))).to_dict()
    assert "Nothing is proven" in weak["text"]["sentence"]


def test_an_answer_that_nobody_waits_for_is_given_up(form):
    class Left(Exception):  # noqa: N818
        pass

    def tick():
        raise Left

    with pytest.raises(Left):
        tight(Query.read(form()), progress=tick)
