"""One client with all records, the same seed: federated training is central training."""

import pytest

import recondite as rc
from recondite.federated.flower.app import ready_client
from recondite.federated.flower.server import federate
from recondite.federated.flower.simulation import HereGrid
from recondite.federated.settings import Settings
from recondite.training.plan import Plan
from recondite.training.trainer import train

BATCH, RATE, SEED = 128, 0.5, 3
STEPS = 12  # batches of one epoch of 1,437 digits


def central(mechanism, sampling):
    plan = Plan(
        data="digits",
        model="mlp",
        prepare="none",
        mechanism=mechanism,
        epochs=2,
        batch_size=BATCH,
        learning_rate=RATE,
        optimizer="sgd",
        clipping="flat" if mechanism.parameter else "none",
        sampling=sampling,
        seed=SEED,
    )
    return train(plan)[1]


def federated(defence, strength, sampling, local_steps):
    settings = Settings(
        data="digits",
        model="mlp",
        prepare="none",
        clients=1,
        rounds=2 * STEPS // local_steps,
        local_steps=local_steps,
        batch_size=BATCH,
        learning_rate=RATE,
        defence=defence,
        strength=strength,
        level="record",
        sampling=sampling,
        seed=SEED,
    )
    return federate(HereGrid(ready_client(settings.policy()), 1), settings)[0]


@pytest.mark.parametrize("sampling", ["shuffled", "poisson", "allocation"])
@pytest.mark.parametrize(
    ("defence", "mechanism"),
    [
        ("none", rc.NoNoise()),
        ("gaussian", rc.Gaussian(1.0)),
        ("vmf", rc.VonMisesFisher(500.0)),
    ],
)
def test_federated_training_with_one_client_is_central_training(defence, mechanism, sampling):
    wanted = central(mechanism, sampling).state_dict()
    strength = mechanism.strength if mechanism.parameter else 0.0
    for local_steps in (STEPS, 8):  # whole epochs, and across their ends
        found = federated(defence, strength, sampling, local_steps).state_dict()
        worst = max(float((found[k] - wanted[k]).abs().max()) for k in wanted)
        assert worst < 1e-5
        moved = max(float(value.abs().max()) for value in wanted.values())
        assert moved > 0.1
