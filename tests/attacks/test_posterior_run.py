"""Posterior attackers of a whole training: its records, its releases, one replay for all."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from recondite.attacks.base import AttackRequest, Available
from recondite.attacks.identification import IdentificationGame
from recondite.attacks.posterior.importance import run_rehearsal
from recondite.attacks.posterior.run import OverRun
from recondite.attacks.registry import build
from recondite.studies.cell import _train, run_cell
from recondite.studies.checks import facts_of
from recondite.studies.grid import cells
from recondite.studies.study import Study
from recondite.testing.attacks import small_victim

RUN = {"threat": "training", "images": 24}
WEIGHTS = {"name": "importance-weights", **RUN}


def task_of(defence, *attacks, **training):
    study = Study(
        data="digits", model="mlp", prepare="none",
        training={"epochs": 6, "batch_size": 64, "records": 300, **training},
        defences=[defence], attacks=list(attacks),
    )  # fmt: skip
    facts = facts_of(study, None)
    (cell,) = cells(study, facts, {})
    return {
        **cell.task(cell.attacks, {}),
        "study": "small",
        "data_facts": {"name": "digits", "public": True},
        "model_facts": {"name": "mlp", "parameters": facts.parameters},
    }


def rows_of(defence, *attacks, **training):
    found = []
    run_cell(
        task_of(defence, *attacks, **training),
        lambda event: found.append(event["row"]) if event["type"] == "row" else None,
    )
    return found


def gaussian(sigma):
    return {"name": "gaussian", "noise_multiplier": sigma}


def test_one_replay_serves_identification_and_the_posterior(monkeypatch):
    replays, replay = [], IdentificationGame.replay

    def counted(self, *given):
        replays.append(self)
        return replay(self, *given)

    monkeypatch.setattr(IdentificationGame, "replay", counted)
    games = {"name": "identification", "threat": "training", "candidates": [10], "games": 20}
    known = {**WEIGHTS, "participation": "known"}
    strongest = {"name": "strongest", **RUN}
    rows = rows_of(gaussian(0.05), games, WEIGHTS, known, strongest)
    assert len(replays) == 1
    assert [row["reason"] for row in rows] == [None] * 4
    assert {row["threat"] for row in rows} == {"training"}
    picked, secret, told, best = rows
    assert picked["identification"][0]["rate"] > 0.9
    assert [row["attack_options"]["participation"] for row in (secret, told)] == ["secret", "known"]
    for row in (secret, told):
        found = row["reconstruction"]
        assert found["images"] == 24
        assert found["images_from"] == "training records"
        assert found["gain"]["ssim"]["low"] > 0
        assert 1.0 <= found["effective_samples"] < 20
        assert row["claims"] == []
        assert row["floors"][0]["proven"]
        assert "the whole training" in row["floors"][0]["sentence"]
        assert any("knows all other records" in note for note in row["notes"])
    assert any(note.startswith("strongest: importance-weights") for note in best["notes"])
    assert best["reconstruction"]["ssim"] == secret["reconstruction"]["ssim"]
    # A row is the same whatever ran before it.
    (alone,) = rows_of(gaussian(0.05), known)
    assert alone["reconstruction"]["mse"] == told["reconstruction"]["mse"]


def test_noise_that_hides_everything_leaves_the_blind_guess():
    (row,) = rows_of(gaussian(30.0), WEIGHTS)
    found = row["reconstruction"]
    assert found["gain"]["mse"]["value"] == pytest.approx(0.0, abs=0.1)
    assert found["effective_samples"] > 0.07 * found["public_records"]  # most of a class of ten
    assert row["floors"][0]["mse"] > 0


@pytest.mark.parametrize("side", ["secret", "known"])
def test_weights_are_those_of_the_identification_game(side, monkeypatch):
    # The answer as it is, not drawn towards the blind guess.
    monkeypatch.setattr("recondite.attacks.posterior.importance.run_rehearsal", lambda seen: None)
    trained = _train(task_of(gaussian(0.3), WEIGHTS), lambda *_: None)
    victim = trained.victim
    asked = AttackRequest(images=3, threat="training", participation=side)
    victim = type(victim)(**{**vars(victim), "asked": asked})
    seen, run = OverRun.of(victim, "importance-weights"), victim.transcript
    game = IdentificationGame(
        victim.initial(), run.mechanism, run.units, run.bound,
        targets=seen.played.places, target_records=(seen.chosen.images, seen.chosen.labels),
        pool=(seen.public.images, seen.public.labels), schedule=run.schedule,
    )  # fmt: skip
    game.replay(run)
    direct = getattr(game, side)
    np.testing.assert_allclose(seen.scores, direct, rtol=1e-4, atol=1e-3)
    likely = torch.as_tensor(direct[:, 1:])
    likely[seen.chosen.labels[:, None] != seen.public.labels[None]] = -torch.inf
    mean = torch.einsum("vn,n...->v...", torch.softmax(likely, 1), seen.public.images.double())
    found = build("importance-weights").evaluate(victim)
    pixels = seen.chosen.pixels(mean.float()).clamp(0, 1)
    mse = (pixels - seen.chosen.pixels()).square().flatten(1).mean(1)
    np.testing.assert_allclose(found.rebuilt.scores.values["mse"], mse, rtol=1e-2)


def test_a_run_is_rehearsed_on_records_that_its_attacker_knows():
    victim = _train(task_of(gaussian(30.0), WEIGHTS), lambda *_: None).victim
    victim = replace(
        victim, asked=AttackRequest(images=3, threat="training", participation="known")
    )
    seen = OverRun.of(victim, "importance-weights")
    others = seen.others(5)
    assert len(others.played.places) == 5
    assert not set(others.played.places) & set(seen.played.places)
    assert others.played.places == tuple(seen.played.game.targets[3:8])
    assert np.array_equal(others.scores, seen.played.game.known[3:8])
    assert np.array_equal(others.played.taken_part, seen.played.game.taken_part[3:8])
    assert others.chosen.images.shape[0] == 5
    # Noise that hides everything: what is left of the posterior is little.
    assert not run_rehearsal(seen).beats
    assert seen.played.after(5, least=10**6) is None


def test_the_strongest_of_a_training_knows_what_is_not_hidden():
    strongest = {"name": "strongest", "threat": "training", "images": 4, "budget": 2.5}
    (bare,) = rows_of({"name": "none"}, strongest)
    found = bare["reconstruction"]
    assert {"gain_importance-weights", "gain_analytic", "gain_inverting-gradients"} <= set(found)
    assert found["mse_mean"] < 0.01
    assert any("subtracts" in note for note in bare["notes"])
    assert found["images_from"] == "training records"  # the people whom a replay attacks
    channel, little = {"name": "natural-channel", "capacity": 2}, {**strongest, "budget": 2.2}
    once, fresh = (
        rows_of({**channel, "noise": noise}, little)[0] for noise in ("once", "per_step")
    )
    assert (once["reconstruction"]["releases"], fresh["reconstruction"]["releases"]) == (1, 6)
    assert fresh["reconstruction"]["mse_mean"] < once["reconstruction"]["mse_mean"]
    assert {once["threat"], fresh["threat"]} == {"training"}


def test_linearised_steps_of_a_run_go_beyond_public_records():
    """Where weights collapse to one public record, Gauss and Newton's steps come nearer."""
    known = {**RUN, "images": 6, "participation": "known"}
    climb = {"name": "gauss-newton", "steps": 2, "rank": 30, **known}
    weighed, climbed = rows_of(gaussian(0.02), {**WEIGHTS, **known}, climb)
    assert climbed["reason"] is None
    assert climbed["reconstruction"]["mse_mean"] < weighed["reconstruction"]["mse_mean"]
    cases = [
        ({"name": "directional", "kappa": 2000}, climb, "no density"),
        (gaussian(1.0), {**climb, "participation": "secret"}, "participation must be known"),
    ]
    for defence, attack, said in cases:
        (row,) = rows_of(defence, attack, epochs=1)
        assert said in row["reason"]
    there = Available("x", 90, 90, (1, 4, 4))
    asked = AttackRequest(images=5, threat="training")
    assert [key for key, _ in build("gauss-newton").misfits(asked, there)] == ["participation"]


def test_the_portfolio_of_a_training_is_planned_by_its_budget():
    victim = small_victim(AttackRequest(images=2, threat="training", participation="known"))
    for budget, names in (
        (60.0, ["importance-weights", "gauss-newton"]),
        (0.1, ["importance-weights"]),
    ):
        members, skipped = build("strongest", budget=budget).planned(victim)
        assert [one.name for one in members] == names
        assert len(skipped) == 2 - len(names)


def test_what_a_run_does_not_offer_is_refused(monkeypatch):
    attack, there = build("importance-weights", releases=2), Available("x", 20, 9, (1, 4, 4))
    asked = AttackRequest(images=30, batch_size=4, threat="training")
    assert {key for key, _ in attack.misfits(asked, there)} == {"releases", "images"}
    assert attack.trains(asked)
    assert not attack.trains(AttackRequest())
    monkeypatch.setattr("recondite.studies.cell.LARGEST", 1000)
    for name in ("importance-weights", "strongest"):
        (row,) = rows_of(gaussian(1.0), {"name": name, **RUN}, epochs=1)
        assert "importance-weights needs what the training released" in row["reason"]
