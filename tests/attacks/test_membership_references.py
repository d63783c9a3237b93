"""Reference models: batched equals one by one, seeds, halves, refusals."""

import numpy as np
import pytest
import torch
from torch import nn

from recondite.attacks.membership import Recipe, train_references
from recondite.attacks.membership import references as module
from recondite.models import build

SHAPE = (1, 8, 8)


def _data(n=40, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(n, *SHAPE, generator=generator), torch.randint(
        0, 3, (n,), generator=generator
    )


def _small():
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(108, 3))


ONE = _small()


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe(3, 8, "adam", 1e-2),
        Recipe(3, 6, "sgd", 0.1, momentum=0.9, weight_decay=1e-3),
        Recipe(2, 64, "adamw", 1e-2, weight_decay=0.1),
    ],
)
def test_batched_training_is_training_one_by_one(recipe):
    images, labels = _data()
    together, apart = (
        train_references(_small, images, labels, 5, recipe, seed=4, batched=way)
        for way in (True, False)
    )
    assert (together.batched, apart.batched) == (True, False)
    np.testing.assert_array_equal(together.inside, apart.inside)
    torch.testing.assert_close(together.logits(images), apart.logits(images), rtol=1e-3, atol=1e-4)


def test_groups_of_models_give_the_same_models(monkeypatch):
    images, labels = _data()
    recipe = Recipe(2, 8)
    whole = train_references(_small, images, labels, 5, recipe, seed=1).logits(images)
    monkeypatch.setattr(module, "_NUMBERS", 2 * module.count_parameters(_small()))
    seen = []
    parts = train_references(_small, images, labels, 5, recipe, seed=1, progress=seen.append)
    torch.testing.assert_close(parts.logits(images), whole, rtol=1e-4, atol=1e-5)
    assert (seen[-1].step, seen[-1].steps) == (18, 18)


def test_a_model_trained_alone_is_one_of_torchs_own_loop():
    images, labels = _data(20)
    recipe = Recipe(4, 20, "sgd", 0.3)
    found = train_references(_small, images, labels, 1, recipe, size=20, seed=2)
    torch.manual_seed(0)
    model = module._built(_small, 2, 0, "cpu")
    optimizer = torch.optim.SGD(model.parameters(), 0.3)
    for _ in range(4):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    torch.testing.assert_close(found.logits(images)[0], model(images), rtol=1e-4, atol=1e-5)


def test_seeds_decide_everything_and_leave_torch_alone():
    def dropping():
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Dropout(0.5), nn.Linear(16, 3))

    images, labels = _data()
    state = torch.get_rng_state()
    first, again, other = (
        train_references(dropping, images, labels, 2, Recipe(2, 8), seed=s).logits(images)
        for s in (3, 3, 4)
    )
    assert torch.equal(state, torch.get_rng_state())
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)
    assert not torch.allclose(first[0], first[1])


def test_batch_norm_is_trained_one_by_one():
    def normed():
        return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(72, 3))

    images, labels = _data()
    found = train_references(normed, images, labels, 2, Recipe(2, 8), seed=0)
    assert not found.batched
    assert found.logits(images).shape == (2, 40, 3)
    assert found.models[0][1].num_batches_tracked == 6


def test_own_trainer_gets_each_half():
    images, labels = _data()
    sizes = []

    def train(model, x, y, seed):
        sizes.append((len(x), len(y), seed))
        with torch.no_grad():
            model[-1].bias.fill_(float(seed))

    found = train_references(_small, images, labels, 3, train, seed=5)
    assert sizes == [(20, 20, 5), (20, 20, 6), (20, 20, 7)]
    assert [float(m[-1].bias[0].detach()) for m in found.models] == [5, 6, 7]


@pytest.mark.parametrize("records", [10, 11])
def test_halves_come_in_opposite_pairs(records):
    positions, inside = module.halves(records, 6, seed=1)
    assert positions.shape == (6, records // 2)
    assert (inside.sum(axis=1) == records // 2).all()
    assert not (inside[::2] & inside[1::2]).any()
    if records % 2 == 0:
        assert (inside.sum(axis=0) == 3).all()
    with pytest.raises(ValueError, match="population must hold more records"):
        module.halves(5, 2, seed=0, size=6)


@pytest.mark.parametrize("coins", [6, 7])
def test_coins_put_records_into_one_model_of_each_pair_whatever_the_size(coins):
    positions, inside = module.halves(30, 4, seed=1, size=20, coins=coins)
    assert positions.shape == (4, 20)
    assert (inside.sum(axis=1) == 20).all()
    assert (inside[::2, :coins] ^ inside[1::2, :coins]).all()
    assert inside[:, coins:].mean() > 0.6, "others fill up"
    with pytest.raises(ValueError, match="size must leave room for half of 10 records"):
        module.halves(12, 2, seed=0, size=11, coins=10)


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: 1 / 0, "make_model could not build a reference model: division by zero"),
        (lambda: "net", "make_model must return a torch module, got str"),
        (nn.Flatten, "a model with parameters"),
        (lambda: ONE, "a new model each time"),
        (iter([_small(), build("mlp", SHAPE, 3)]).__next__, "one architecture each time"),
    ],
)
def test_models_that_cannot_be_built_get_one_line(make, line):
    with pytest.raises(ValueError, match=line):
        train_references(make, *_data(), 2, Recipe(1))


@pytest.mark.parametrize("change", [{"epochs": 0}, {"optimizer": "lion"}, {"learning_rate": 0}])
def test_recipes_are_checked(change):
    with pytest.raises(ValueError, match=next(iter(change))):
        Recipe(**change)


def test_interrupt_gets_through():
    def stop(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_references(_small, *_data(), 2, Recipe(9, 4), progress=stop)
