"""Steps instead of epochs, part of the records, pixel scales, Top-k, weights of a rectangle."""

import json

import numpy as np
import pytest
import torch

import recondite as rc
from recondite.channels.registry import rectangle_weights
from recondite.mechanisms import NoNoise
from recondite.records import ImageSet, load
from recondite.training.on_records import fit_channel
from recondite.training.plan import Plan
from recondite.training.setup import evaluate, load_records, results
from recondite.training.trainer import train


def plan(**changes):
    body = {"data": "digits", "model": "mlp", "mechanism": rc.Gaussian(1.0), "prepare": "none",
            "batch_size": 100, "seed": 0}  # fmt: skip
    return Plan(**{**body, **changes})


@pytest.mark.parametrize("steps", [1, 15, 20])
@pytest.mark.parametrize("sampling", ["poisson", "fixed-size"])
def test_a_run_stops_after_its_steps_and_is_accounted_for_them(steps, sampling):
    seen = []
    record, _ = train(
        plan(steps=steps, sampling=sampling), progress=seen.append, running_epsilon=False
    )
    out = record.to_dict()
    # 1,437 records: 15 batches an epoch.
    assert out["training"]["steps"] == steps == seen[-1].step == seen[-1].steps
    assert out["training"]["epochs"] == (2 if steps == 20 else 1)
    if sampling == "poisson":
        schedule = rc.Poisson(100 / 1437, steps)
        mechanism = rc.Gaussian(1.0)
        expected = rc.epsilon(mechanism, schedule, 1 / 1437)
        assert out["privacy"]["epsilon"]["pld"] == pytest.approx(expected, rel=1e-6)


def test_shuffled_passes_that_are_cut_short_are_accounted_whole():
    record, _ = train(plan(steps=20, sampling="shuffled"))
    schedule = record.to_dict()["privacy"]["schedule"]
    assert schedule["epochs"] == 2


def test_whole_epochs_are_what_they_were():
    ours, model = train(plan(steps=30))
    theirs, other = train(plan(epochs=2))
    assert ours.to_dict()["privacy"] == theirs.to_dict()["privacy"]
    for mine, known in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine, known)


def test_a_channel_counts_only_the_steps_taken():
    options = {"mechanism": NoNoise(), "clipping": "none", "channel": "natural", "capacity": 5.0,
               "channel_noise": "per_step"}  # fmt: skip
    short, _ = train(plan(steps=20, **options))
    out = short.to_dict()
    assert out["training"]["steps"] == 20
    # 15 steps use every record once; five more use some a second time.
    assert out["privacy"]["schedule"]["uses"] == 2
    assert 5.0 < out["privacy"]["mutual_information"]["run"] <= 10.0
    one, _ = train(plan(steps=3, **options))
    assert one.to_dict()["privacy"]["schedule"]["uses"] == 1


def test_part_of_the_records_is_evenly_spaced_and_accounted_for():
    few = plan(records=200, epochs=1)
    records, test = load_records(few, None)
    assert (len(records), len(test)) == (200, 40)
    whole, _ = load_records(plan(), None)
    assert torch.equal(records.images[1], whole.images[1437 // 200])
    # A set that lies sorted by class keeps all classes.
    sorted_ = ImageSet(torch.zeros(100, 1, 2, 2), torch.arange(100) // 10, tuple("abcdefghij"))
    assert sorted_.spread(20).labels.unique().tolist() == list(range(10))
    assert len(sorted_.spread(1000)) == 100
    record, _ = train(few)
    assert record.to_dict()["data"]["records"] == 200
    assert record.to_dict()["privacy"]["schedule"]["rate"] == pytest.approx(0.5)


def test_pixel_scales_are_constants():
    assert plan(data="mnist").pixel_scale() == ((0.1307,), (0.3081,))
    assert plan(data="mnist", pixels="half").pixel_scale() == ((0.5,), (0.5,))
    assert plan(data="mnist", pixels="unit").pixel_scale() == ((0.0,), (1.0,))
    records, _ = load_records(plan(pixels="unit"), None)
    assert float(records.images.max()) == 1.0
    with pytest.raises(ValueError, match="standardise and pixels both set the scale"):
        plan(pixels="half", standardise=True)
    with pytest.raises(ValueError, match="pixels must be one of"):
        plan(pixels="other")


def test_top_k_is_counted_where_there_are_many_classes():
    images = torch.zeros(40, 1, 1, 20)
    for row in range(40):
        images[row, 0, 0] = torch.linspace(1, 0, 20).roll(row % 20)
    # The right class is the best guess of 10 records, the fourth of 20, the eleventh of 10.
    shift = torch.tensor([0] * 10 + [3] * 20 + [10] * 10)
    labels = (torch.arange(40) % 20 + shift) % 20
    data = ImageSet(images, labels, tuple(str(n) for n in range(20)))
    model = torch.nn.Flatten()
    found = evaluate(model, data, top=(5, 10, 11))
    assert found["accuracy"] == 0.25
    assert found["top5_accuracy"] == found["top10_accuracy"] == 0.75
    assert found["top11_accuracy"] == 1.0
    assert results(model, data, data, 0.0)["test_top10_accuracy"] == 0.75
    digits = load("digits", "test")
    plain = results(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10)), digits,
                    digits, 0.0)  # fmt: skip
    assert not any("top" in key for key in plain)


def test_a_personalized_channel_takes_a_rectangle_and_the_papers_bound():
    options = {"mechanism": NoNoise(), "clipping": "none", "channel": "personalized",
               "capacity": 5.0}  # fmt: skip
    options["beta"] = {"rows": [2, 4], "columns": [1, 6], "weight": 50}
    records, _ = load_records(plan(), None)
    exact = fit_channel(plan(**options), records)
    paper = fit_channel(plan(**options, channel_method="paper"), records)
    weights = rectangle_weights((1, 8, 8), rows=[2, 4], columns=[1, 6])
    assert np.array_equal(exact.beta, weights.ravel())
    assert weights.sum() == 64 + 49 * 3 * 6
    assert (exact.solver, paper.solver) == ("exact", "paper")
    # The paper's bound asks for more noise than its capacity does.
    assert paper.noise_variance > exact.noise_variance
    record, _ = train(plan(steps=1, **options, channel_method="paper"))
    parameters = json.loads(json.dumps(record.to_dict()))["defence"]["parameters"]
    assert (parameters["beta"], parameters["method"]) == ("given", "paper")
    with pytest.raises(ValueError, match="beta rows must be"):
        rectangle_weights((1, 8, 8), rows=[2, 8], columns=[0, 1])
    with pytest.raises(ValueError, match="channel_method belongs to the personalized channel"):
        plan(mechanism=NoNoise(), clipping="none", channel="white", capacity=5.0,
             channel_method="paper")  # fmt: skip
    with pytest.raises(ValueError, match="channel_method belongs to a channel"):
        plan(channel_method="paper")
