"""Identification in studies: every defence, both threats, each rate beside its bound."""

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from recondite.accounting import Composition, Poisson
from recondite.attacks.base import AttackRequest, Available
from recondite.attacks.identification import Identify
from recondite.attacks.identification.bounds import of_copies, of_run, told_of_run, told_when
from recondite.attacks.registry import build
from recondite.channels import NaturalChannel
from recondite.leakage.rero import rero
from recondite.mechanisms import Gaussian, Neighbouring, NoNoise, VonMisesFisher
from recondite.notions.exposures import known_success
from recondite.report.answer import Answers
from recondite.report.rows import StoredRun
from recondite.studies.cell import run_cell
from recondite.studies.checks import facts_of
from recondite.studies.grid import cells
from recondite.studies.study import Study

DEFENCES = [
    {"name": "none"},
    {"name": "clip"},
    {"name": "gaussian", "noise_multiplier": 1.0},
    {"name": "vmf", "kappa": 50},
    {"name": "partitioned", "kappa": 20, "blocks": "layers"},
    {"name": "directional", "kappa": 2000},
    {"name": "natural-channel", "capacity": 3},
    {"name": "natural-channel", "capacity": 3, "noise": "per_step"},
]
ADD = Neighbouring.ADD_OR_REMOVE
SECRET = {"gaussian", "vmf", "partitioned"}


def rows_of(defence, *attacks, **training):
    study = Study(
        data="digits", model="mlp", prepare="none",
        training={"epochs": 2, "batch_size": 64, "records": 300, **training},
        defences=[defence], attacks=list(attacks),
    )  # fmt: skip
    facts = facts_of(study, None)
    (cell,) = cells(study, facts, {})
    task = {
        **cell.task(cell.attacks, {}),
        "study": "small",
        "data_facts": {"name": "digits", "public": True},
        "model_facts": {"name": "mlp", "parameters": facts.parameters},
    }
    found = []
    run_cell(task, lambda event: found.append(event["row"]) if event["type"] == "row" else None)
    return found


@pytest.mark.parametrize("defence", DEFENCES, ids=lambda d: "-".join(map(str, d.values())))
def test_every_defence_has_rates_beside_bounds(defence):
    asked = {"name": "identification", "candidates": [10, 1000], "games": 12}
    training, update = rows_of(
        defence, {**asked, "threat": "training"}, {**asked, "threat": "update"}
    )
    assert [row["reason"] for row in (training, update)] == [None, None]
    assert [row["threat"] for row in (training, update)] == ["training", "update"]
    # Batches of one size, usual for noise on each record: who knows the others' knows this one's.
    sides = ["known"] if defence["name"] == "directional" else ["secret", "known"]
    assert [one["participation"] for one in training["identification"]] == sides
    assert [one["participation"] for one in update["identification"]] == ["known"]
    for row in (training, update):
        assert any("too few for 1000 candidates" in note for note in row["notes"])
        for one in row["identification"]:
            assert one["candidates"] == 10
            assert one["among"] in ("alike", "one of each label")
            assert one["games"] == 12
            assert one["low"] <= one["rate"] <= one["high"]
            # Twelve games: the least that is certain enough to be no accident.
            assert one["low"] <= one["bound"] + 1e-9
            secret = defence["name"] in SECRET
            plain = defence["name"] in ("none", "clip") and row["threat"] == "update"
            added = secret or plain
            assert one["relation"] == ("add-or-remove-one" if added else "replace-one")
    if defence["name"] in ("none", "clip"):
        for one in (*training["identification"], *update["identification"]):
            assert one["rate"] == one["bound"] == 1.0
    if defence["name"] == "directional":
        assert any("stands in" in note for note in training["notes"])
    secret, known = training["identification"][0], training["identification"][-1]
    assert (secret["bound"] < known["bound"]) == (defence["name"] in SECRET)


def test_a_game_that_knows_batches_of_one_size_is_one_of_known_participation():
    """Its rate may exceed the account's bound, which asks that nobody knows any batch.

    It stood on the ladder beside that bound: 46% of games won where nobody was to exceed 43.7%.
    """
    game = {"name": "identification", "candidates": [10], "games": 40, "threat": "training"}
    rebuilt = {"name": "strongest", "threat": "training", "images": 8}
    sampled = {"sampling": "fixed-size", "epochs": 8}
    picked, images = rows_of(
        {"name": "gaussian", "noise_multiplier": 1.0}, game, rebuilt, **sampled
    )
    assert [row["reason"] for row in (picked, images)] == [None, None]
    account = picked["notions"]["rero_bound"]
    assert [one["participation"] for one in picked["identification"]] == ["known"]
    assert picked["identification"][0]["bound"] > account
    assert any("of known participation" in note for note in picked["notes"])
    assert any("participation known" in note for note in images["notes"])
    assert all("participation known" in one["sentence"] for one in images["floors"])
    answers = Answers.of([StoredRun(0, "small", ".", (picked, images))])
    secret, known = (answers.standings["training", side][0] for side in ("secret", "known"))
    assert secret.rero == pytest.approx(account)
    assert (secret.findings, secret.identification) == ((), None)
    assert known.identification is not None
    assert known.rero > account
    assert {one.participation for one in known.findings} == {"known"}
    # Rows of before say it of both sides: one game, and not one of a secret.
    old = {**picked, "identification": [
        {**picked["identification"][0], "participation": side} for side in ("secret", "known")
    ]}  # fmt: skip
    again = Answers.of([StoredRun(0, "small", ".", (old,))])
    assert again.standings["training", "secret"][0].identification is None
    assert again.standings["training", "known"][0].identification.games == 40
    assert "identification" not in again.points[0].values


def test_more_looks_tell_more():
    games = {"name": "identification", "candidates": [10], "games": 60, "threat": "training"}
    once, fresh = (
        rows_of({"name": "natural-channel", "capacity": 2, "noise": noise}, games, epochs=8)[0]
        for noise in ("once", "per_step")
    )
    assert once["identification"][0]["high"] < fresh["identification"][0]["low"]


def test_an_update_without_training_is_the_same_every_time():
    games = {"name": "identification", "candidates": [5], "games": 10, "victim": "untrained"}
    first, again = (rows_of(DEFENCES[2], games)[0] for _ in range(2))
    assert first["threat"] == "update"
    assert first["identification"] == again["identification"]


def test_bounds_are_those_of_the_run_and_of_the_participations():
    mechanism, schedule = Gaussian(1.0, dim=5), Poisson(0.1, 40)
    assert of_run(mechanism, schedule).at(10) == rero(schedule.composition(mechanism), 0.1)
    counts = np.array([0, 1, 1, 4, 9])
    law = mechanism.loss(Neighbouring.ADD_OR_REMOVE)
    exact = [0.1, *(rero(Composition.of([(law, int(k))]), 0.1) for k in counts[1:])]
    assert told_when(mechanism, schedule, counts).at(10) == pytest.approx(np.mean(exact))
    many = np.arange(1, 40)
    told = told_when(mechanism, schedule, many)
    closed = np.mean([norm.cdf(norm.ppf(0.01) + math.sqrt(k)) for k in many])
    assert closed <= told.at(100) <= closed + 0.1
    assert of_run(NoNoise(dim=5), schedule).at(10) == 1.0


def test_a_bound_is_of_any_record_and_not_of_the_few_that_were_played():
    """Records that by chance hardly took part have a bound that others may exceed."""
    mechanism, schedule = Gaussian(1.23), Poisson(0.01, 10)
    lucky, unlucky = np.zeros(20, dtype=np.int64), np.full(20, 3)
    expected = known_success(mechanism, schedule, 0.1)
    assert told_when(mechanism, schedule, lucky).at(10) == pytest.approx(0.1)
    assert told_of_run(mechanism, schedule, lucky).at(10) == expected > 0.11
    own = told_when(mechanism, schedule, unlucky).at(10)
    assert told_of_run(mechanism, schedule, unlucky).at(10) == own > expected
    # One release that gives the record away says nothing of a record that took part in none.
    sure = VonMisesFisher(5000.0, dim=400)
    taken = binom.pmf(np.arange(11), 10, 0.01)
    assert known_success(sure, schedule, 0.1) == pytest.approx(1.0 - 0.9 * taken[0], abs=1e-3)
    exact = sum(
        part * (0.1 if k == 0 else rero(Composition.of([(mechanism.loss(ADD), k)]), 0.1))
        for k, part in enumerate(taken)
    )
    assert exact <= expected <= 1.05 * exact


def test_records_that_took_part_seldom_do_not_lower_the_bound_of_who_is_told():
    # Four records that happened to take part in no step were a "proof" of 10%, a guess's success.
    mechanism, schedule = Gaussian(0.5, dim=5), Poisson(0.05, 10)
    law = mechanism.loss(Neighbouring.ADD_OR_REMOVE)
    shares = binom.pmf(np.arange(11), 10, 0.05)
    exact = [0.1, *(rero(Composition.of([(law, k)]), 0.1) for k in range(1, 11))]
    none, often = np.zeros(4, dtype=np.int64), np.full(4, 6)
    assert told_when(mechanism, schedule, none).at(10) == pytest.approx(0.1)
    truth = float(shares @ exact)
    assert truth <= told_of_run(mechanism, schedule, none).at(10) <= 1.1 * truth
    assert told_of_run(mechanism, schedule, often).at(10) == pytest.approx(exact[6])
    # Without noise whoever is told knows it of all but those that took no part.
    bare = told_of_run(NoNoise(dim=5), schedule, none).at(10)
    assert bare == pytest.approx(1.0 - 0.9 * 0.95**10, abs=1e-3)


def test_games_with_one_of_each_label_have_a_bound_of_their_own_weights():
    mechanism, schedule = Gaussian(1.0, dim=5), Poisson(0.1, 40)
    counts, weights = np.array([1, 1, 1, 9]), np.array([2 / 3, 2 / 3, 2 / 3, 2.0])
    one, nine = (told_when(mechanism, schedule, np.array([k])).at(2) for k in (1, 9))
    bound = told_when(mechanism, schedule, counts)
    assert bound.at(2) == pytest.approx((3 * one + nine) / 4)
    assert bound.at(2, weights) == pytest.approx((one + nine) / 2)


def test_the_bound_of_copies_is_the_local_gaussian_one():
    channel = NaturalChannel.fit(np.random.default_rng(0).standard_normal((50, 4)), capacity=2.0)
    mu = 3.0 * 2.0 / channel.noise_std_range[0]  # nine copies, a box of diagonal 2
    found = of_copies(channel, np.ones(4), 9)
    assert found.at(10) == pytest.approx(norm.cdf(norm.ppf(0.1) + mu))
    assert found.relation == "replace-one"


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"candidates": 1}, "candidates"),
        ({"candidates": ()}, "one number or more"),
        ({"games": 1}, "games"),
        ({"gmaes": 9}, "did you mean games"),
    ],
)
def test_bad_settings_are_refused(options, match):
    with pytest.raises(ValueError, match=match):
        build("identification", **options)


def test_what_a_study_lacks_is_said_before_it_trains():
    attack, there = Identify(candidates=50, games=30), Available("made up", 20, 40, (1, 4, 4))
    assert {key for key, _ in attack.misfits(AttackRequest(), there)} == {"candidates", "games"}
    assert attack.trains(AttackRequest(threat="training"))
    assert attack.replays(AttackRequest(threat="training"))
    assert not attack.trains(AttackRequest())
    with pytest.raises(ValueError, match="says nothing of threat model"):
        attack.check_threat(AttackRequest(threat="model"))


def test_a_transcript_that_memory_does_not_hold_fails_its_row_alone(monkeypatch):
    monkeypatch.setattr("recondite.studies.cell.LARGEST", 1000)
    games = {"name": "identification", "games": 5, "candidates": [5]}
    training, update = rows_of(
        DEFENCES[2], {**games, "threat": "training"}, {**games, "threat": "update"}
    )
    assert "takes too much memory" in training["reason"]
    assert update["reason"] is None
