"""Opacus' engine and ours are consistent with what they claim; batch norm leaks."""

from __future__ import annotations

from functools import partial

import planted_torch as planted
import pytest
import torch

import recondite as rc
from recondite.checking import PrivacyClaim, check, torch_trainer
from recondite.checking.check import CHECKS

torch.set_num_threads(1)
SCHEDULE = rc.Poisson(planted.BATCH / planted.RECORDS, 50)
# Noise follows the seed of the check, also that of our engine: the answers are always the same.
OPTIONS = {"seed": 5, "runs": 100}


def claim(mechanism, schedule=SCHEDULE):
    sized = mechanism.with_dim(planted.DIM)
    return PrivacyClaim(rc.epsilon(sized, schedule, 1e-5), 1e-5, schedule, sized)


def violations(result):
    return {f.check for f in result.findings if f.verdict == "violates"}


def test_opacus_is_consistent_with_its_claim():
    pytest.importorskip("opacus")
    result = check(planted.opacus, claim(rc.Gaussian(1.0)), **OPTIONS)
    assert result.verdict == "consistent", result
    shuffled = partial(planted.opacus, poisson_sampling=False)
    result = check(shuffled, claim(rc.Gaussian(1.0)), skip=CHECKS[:-1], **OPTIONS)
    assert violations(result) == {"sampling"}


@pytest.mark.parametrize(
    ("mechanism", "options"),
    [(rc.Gaussian(1.0), {"physical_batch_size": 9}), (rc.VonMisesFisher(3.0), {})],
    ids=["gaussian", "vmf"],
)
def test_our_engine_is_consistent_with_its_claim(mechanism, options):
    result = check(partial(planted.ours, mechanism, **options), claim(mechanism), **OPTIONS)
    assert result.verdict == "consistent", result


def test_too_concentrated_a_direction_is_found():
    weak = partial(planted.ours, rc.VonMisesFisher(9.0))
    result = check(weak, claim(rc.VonMisesFisher(3.0)), skip=["game", "sampling"], **OPTIONS)
    assert violations(result) == {"noise"}


def test_statistics_of_a_batch_norm_leave():
    result = check(planted.normalised, claim(rc.Gaussian(1.0)), skip=["sampling"], **OPTIONS)
    assert violations(result) == {"what-leaves"}
    assert "0.running_mean" in result.evidence[0]


def test_only_updates_that_are_linear_in_the_gradient_are_read():
    parts = planted.parts()
    model = parts["module"]
    adam = torch.optim.Adam(model.parameters())
    with pytest.raises(ValueError, match="must be torch.optim.SGD for a check, got Adam"):
        torch_trainer(model, adam, parts["data_loader"], planted.LOSS)


def test_our_engine_takes_foreign_batches_in_simulations_only():
    engine = rc.PrivacyEngine()
    _, _, loader = engine.make_private(**planted.parts(), mechanism=rc.Gaussian(1.0))
    with pytest.raises(ValueError, match="simulations only: give the engine a seed"):
        loader.present([planted.DATA[0]])


def test_every_step_starts_from_the_same_weights_and_an_empty_batch_has_noise():
    trainer = planted.ours(rc.Gaussian(1e-2))
    batch = [planted.DATA[0], planted.DATA[1]]
    first, again, empty = trainer.step(batch), trainer.step(batch), trainer.step([])
    for name, value in first.items():
        assert torch.allclose(value, again[name], atol=1e-3)
        assert value.abs().max() > 2e-4 > empty[name].abs().max() > 0
    assert [len(batch) for batch in trainer.batches()] != [planted.BATCH] * 4


@pytest.mark.parametrize(
    "loss", [planted.contrastive, planted.distance_to_the_mean], ids=["contrastive", "distance"]
)
def test_losses_that_compare_records_are_found(loss):
    """One record moves the gradients of all others, which no engine sees."""
    trained = partial(planted.ours, rc.Gaussian(1.0), loss=loss)
    skip = ["sampling", "game"]
    result = check(trained, claim(rc.Gaussian(1.0)), skip=skip, **OPTIONS)
    assert violations(result) == {"noise"}
    assert result.evidence[0].startswith("one record among others")
