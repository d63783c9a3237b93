"""Model inversion: each class as if alone, nearer to its centre than the start, interrupts kept."""

import pytest
import torch
from torch import nn

from recondite.attacks.inversion import ModelInversion, class_centres
from recondite.attacks.membership import Recipe, train_references
from recondite.models import build
from recondite.records import load


@pytest.fixture(scope="module")
def victim():
    data = load("digits")

    def make():
        return build("mlp2", data.shape, 10, hidden=32)

    train = data.subset(slice(0, 1000))
    recipe = Recipe(15, 32, "sgd", 0.1, weight_decay=1e-2)
    models = train_references(make, *train.tensors, 1, recipe, size=1000, seed=0).models
    return models[0], train, data.subset(slice(1000, None))


def test_paper_setting_is_the_default():
    attack = ModelInversion()
    assert (attack.iterations, attack.learning_rate) == (600, 1e-2)


def test_batch_equals_one_class_after_another(victim):
    model, _, auxiliary = victim
    attack = ModelInversion(iterations=30)
    together = attack.invert(model, auxiliary)
    assert together.images.shape == (10, 1, 8, 8)
    assert together.labels.tolist() == list(range(10))
    for label in (0, 7):
        alone = attack.invert(model, auxiliary, labels=[label])
        torch.testing.assert_close(alone.images[0], together.images[label], rtol=1e-4, atol=1e-5)


def test_model_becomes_sure_of_every_class_and_the_start_is_the_mean(victim):
    model, train, auxiliary = victim
    found = ModelInversion(iterations=200).invert(model, auxiliary, bounds=(0, 1))
    torch.testing.assert_close(found.start, auxiliary.images.mean(0))
    assert model(found.images).argmax(1).tolist() == list(range(10))
    assert float(found.images.min()) >= 0
    assert float(found.images.max()) <= 1
    again = ModelInversion(iterations=200).invert(model, auxiliary, bounds=(0, 1))
    assert torch.equal(found.images, again.images)
    scores = found.score(train)
    errors = [
        float((found.images[c] - train.images[train.labels == c].mean(0)).square().mean())
        for c in range(10)
    ]
    torch.testing.assert_close(scores.mse, torch.tensor(errors))
    ordered = sorted(errors)
    assert scores.median == pytest.approx((ordered[4] + ordered[5]) / 2, rel=1e-5)
    assert scores.to_dict()["scale"] == "pixels in [0, 1]"


def test_regularised_model_gives_images_nearer_to_its_classes_than_the_start(victim):
    model, train, auxiliary = victim
    scores = ModelInversion(iterations=20).invert(model, auxiliary, bounds=(0, 1)).score(train)
    assert scores.median < scores.start


def test_normalised_sets_are_scored_in_pixels(victim):
    _, train, _ = victim
    model = build("mlp2", train.shape, 10, hidden=8, seed=0)
    scaled = train.normalised((0.5,), (0.25,))
    found = ModelInversion(iterations=3).invert(model, scaled)
    pixels = found.score(scaled)
    raw = found.score(scaled.tensors)
    torch.testing.assert_close(pixels.mse, raw.mse * 0.25**2)
    assert raw.scale == "as given"


def test_interrupt_keeps_the_images(victim):
    model, _, auxiliary = victim

    def stop(progress):
        if progress.step == 5:
            raise KeyboardInterrupt

    found = ModelInversion(iterations=50).invert(model, auxiliary, progress=stop)
    assert found.interrupted
    assert found.iterations == 5
    whole = ModelInversion(iterations=5).invert(model, auxiliary)
    assert torch.equal(found.images, whole.images)


def test_refusals_are_one_line(victim):
    model, train, auxiliary = victim
    attack = ModelInversion(iterations=2)
    with pytest.raises(ValueError, match="labels must have labels from 0 to 9"):
        attack.invert(model, auxiliary, labels=[10])
    with pytest.raises(ValueError, match="labels must name one or more"):
        attack.invert(model, auxiliary, labels=[])
    with pytest.raises(ValueError, match="bounds must be"):
        attack.invert(model, auxiliary, bounds=(1, 0))
    with pytest.raises(ValueError, match="model cannot take images of 1×9×9"):
        attack.invert(model, (torch.zeros(2, 1, 9, 9), torch.zeros(2, dtype=torch.long)))
    with pytest.raises(ValueError, match="class 3, which has none"):
        class_centres(train.subset(train.labels != 3), [3])
    broken = nn.Sequential(nn.Flatten(), nn.Linear(64, 2))
    nn.init.constant_(broken[1].weight, torch.nan)
    with pytest.raises(ValueError, match="not finite"):
        attack.invert(broken, auxiliary)
    with pytest.raises(ValueError, match="iterations must be 1 or more"):
        ModelInversion(iterations=0)
