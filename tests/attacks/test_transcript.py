"""Transcripts: what a simulated training released, whole, and refused where it is not."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from recondite.accounting import Poisson
from recondite.attacks import transcript as transcripts
from recondite.attacks.identification import IdentificationGame
from recondite.attacks.transcript import Recorder, memory
from recondite.configuration import TrainingConfig
from recondite.mechanisms import Directional, Gaussian
from recondite.records import ImageSet
from recondite.training.setup import build_model
from recondite.training.trainer import train


def images(count, seed):
    draws = np.random.default_rng(seed)
    pixels = torch.tensor(draws.random((count, 1, 4, 4)), dtype=torch.float32)
    return ImageSet(pixels, torch.tensor(draws.integers(0, 2, count)), ("a", "b"), "made up")


def recorded(mechanism, seed=0, **options):
    config = TrainingConfig(
        data="made up", model="mlp", defence=mechanism, epochs=2, batch_size=5, seed=seed, **options
    )
    sets, recorder = (images(20, 1), images(9, 2)), Recorder()
    _, model = train(config, sets=sets, recorder=recorder, running_epsilon=False, accounted=False)
    return config, sets, recorder, model


def test_every_step_is_there_and_leads_to_the_next():
    config, sets, recorder, model = recorded(Gaussian(1.0), optimizer="sgd", momentum=0.0)
    found = recorder.transcript()
    assert (len(found.steps), found.taken, found.records) == (8, 8, 20)
    assert found.schedule == Poisson(0.25, 8)
    again = build_model(config, sets[0])
    first = torch.cat([p.detach().reshape(-1) for p in again.parameters()])
    torch.testing.assert_close(found.steps[0].weights, first)
    last = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
    weights = [step.weights for step in found.steps] + [last]
    for step, after in zip(found.steps, weights[1:], strict=True):
        release = found.units.released(step.turn.release, found.mechanism)
        torch.testing.assert_close(after, step.weights - config.learning_rate * release)


@pytest.mark.parametrize("mechanism", [Gaussian(0.7), Directional(300.0)])
def test_a_replay_scores_as_one_who_watched(mechanism):
    """The same run watched live and replayed; the record itself scores well over eight steps."""
    config, (training, held), recorder, _ = recorded(mechanism)
    found, targets = recorder.transcript(), [0, 3, 11]
    given = {
        "targets": targets,
        "target_records": (training.images[targets], training.labels[targets]),
        "pool": (held.images, held.labels),
        "schedule": found.schedule,
    }
    model = build_model(config, training)
    parts = (found.mechanism, found.units, found.bound)
    replayed, live = (IdentificationGame(model, *parts, **given) for _ in range(2))
    replayed.replay(found)
    for step in found.steps:
        found.load(model, step)
        live.watch(step.turn)
    np.testing.assert_allclose(replayed.secret, live.secret)
    np.testing.assert_allclose(replayed.known, live.known)
    assert replayed.taken_part.sum() == sum(
        target in step.turn.records for step in found.steps for target in targets
    )


def test_noise_on_records_leaves_no_transcript():
    from recondite.defences import defences

    defence = defences()["natural-channel"].build(5.0)
    recorder = recorded(defence, clipping="none")[2]
    assert recorder.transcript() is None


def test_what_is_not_whole_is_refused():
    found = recorded(Gaussian(1.0))[2].transcript()
    with pytest.raises(ValueError, match="has 7 steps where the run took 8: record the whole run"):
        replace(found, steps=found.steps[1:])
    step = found.steps[2]
    short = replace(step, weights=step.weights[1:])
    with pytest.raises(ValueError, match="step 1 has .* numbers where the model has"):
        replace(found, steps=(found.steps[0], short, *found.steps[2:]))


def test_only_simulations_are_recorded():
    with pytest.raises(ValueError, match="simulations only"):
        recorded(Gaussian(1.0), seed=None)


def test_what_memory_does_not_hold_is_refused(monkeypatch):
    monkeypatch.setattr(transcripts, "LARGEST", 1000)
    with pytest.raises(ValueError, match="8 steps would take .* GB of memory") as caught:
        recorded(Gaussian(1.0))
    assert "\n" not in str(caught.value)
    model = build_model(TrainingConfig(model="mlp", defence=Gaussian(1.0)), images(2, 0))
    count = sum(p.numel() for p in copy.deepcopy(model).parameters())
    assert memory(8, model) == 8 * 3 * 4 * count
