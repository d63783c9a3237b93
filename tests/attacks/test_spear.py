"""Whole batches, exactly: SPEAR on random networks, and its row spaces."""

import pytest
import torch
from torch import nn

from recondite.attacks.base import AttackRequest
from recondite.attacks.gradient.spans import Spans, row_space
from recondite.attacks.gradient.spear import Spear
from recondite.attacks.gradient.victims import Victims
from recondite.gradients.leaked import leaked_gradients
from recondite.mechanisms import Gaussian
from recondite.testing.attacks import small_table_victim


def problem(batch, seed=0, hidden=150, inputs=40):
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, 4))
    records = torch.randn(2, batch, inputs, generator=generator)
    labels = torch.randint(4, (2, batch), generator=generator)
    return model, records, labels


def rebuilt(model, leak, batch, records, **more):
    return Spear(**more).reconstruct_many(
        model,
        nn.functional.cross_entropy,
        leak,
        shape=records.shape[2:],
        batch_size=batch,
        seed=0,
    )


@pytest.mark.parametrize("batch", [1, 2, 5, 10])
def test_batches_come_back_exactly_with_their_labels(batch):
    model, records, labels = problem(batch)
    found = rebuilt(model, leaked_gradients(model, records, labels), batch, records)
    assert found.notes[0].startswith("exact")
    for mine, true, theirs, own in zip(found.images, records, found.labels, labels, strict=True):
        apart, place = torch.cdist(true, mine).min(1)
        assert float(apart.max()) < 1e-3
        assert sorted(place.tolist()) == list(range(batch))
        assert torch.equal(theirs[place], own)
    assert float(found.loss.max()) < 1e-4


def test_bounding_each_record_hides_nothing():
    model, records, labels = problem(5)
    leak = leaked_gradients(
        model, records, labels, Gaussian(1e-12), clipping="flat", max_grad_norm=0.01
    )
    found = rebuilt(model, leak, 5, records)
    assert float(torch.cdist(records[0], found.images[0]).min(1).values.max()) < 1e-2


def test_noise_makes_it_an_estimate_and_says_so():
    model, records, labels = problem(3)
    leak = leaked_gradients(model, records, labels, Gaussian(1.0), clipping="flat")
    found = rebuilt(model, leak, 3, records)
    assert found.notes == (
        "an estimate: noise hides the low rank, so rows are divided by the bias's",
    )
    assert found.figures["exact"] == 0


def test_guesses_that_run_out_are_said():
    model, records, labels = problem(16)
    found = rebuilt(model, leaked_gradients(model, records, labels), 16, records, guesses=1)
    assert "columns found" in found.notes[0]
    assert "raise guesses" in found.notes[0]


def test_a_record_that_is_twice_in_the_batch_is_found():
    model, records, labels = problem(4)
    records[:, 3], labels[:, 3] = records[:, 0], labels[:, 0]
    found = rebuilt(model, leaked_gradients(model, records, labels), 4, records)
    assert "3 of 4 records are independent" in found.notes[0]
    assert float(torch.cdist(records[0, 1:3], found.images[0]).min(1).values.max()) < 1e-3


def test_rows_of_a_table_come_back_whole():
    from dataclasses import replace

    from recondite.attacks.victim import Defended

    asked = AttackRequest(images=3, batch_size=3)
    made = Spear().evaluate(replace(small_table_victim(asked), defence=Defended()))
    found = made.to_dict()["reconstruction"]
    assert found["exact"] > 0.5
    assert found["row_mean"] > 0.5 > found["blind"]["row_mean"]


def test_batches_as_large_as_the_layer_are_refused():
    model, records, labels = problem(12, inputs=10)
    with pytest.raises(ValueError, match="batches smaller than the first layer"):
        rebuilt(model, leaked_gradients(model, records, labels), 12, records)


def test_inputs_lie_in_the_row_spaces_of_their_layers_and_others_do_not():
    model, records, labels = problem(6)
    leak = leaked_gradients(model, records, labels)
    basis, sizes = row_space(leak["0.weight"], leak["0.bias"], 6)
    assert basis.shape == (2, 6, 41)
    assert float((sizes[:, 6] / sizes[:, 0]).max()) < 1e-5
    victims = Victims.of(
        model,
        nn.functional.cross_entropy,
        leak,
        shape=(40,),
        batch_size=6,
        labels=labels,
        bounds=None,
        classes=4,
        weights=None,
        seed=0,
    )
    spans = Spans(victims)
    assert float(spans.outside(records).max()) < 1e-4
    mixed = 0.5 * (records + records[:, [1, 2, 3, 4, 5, 0]])
    first = Spans(victims)
    first.layers = {"0": spans.layers["0"]}
    assert float(first.outside(mixed).max()) < 1e-4
    assert float(spans.outside(records + 1.0).min()) > 1.0
    noisy = leaked_gradients(model, records, labels, Gaussian(1.0), clipping="flat")
    from dataclasses import replace

    assert not Spans(replace(victims, gradients=noisy)).layers
