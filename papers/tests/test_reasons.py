"""Reasons for cells that are off: what they rest on, checked from outside."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from recondite.mechanisms import VonMisesFisher
from recondite.models import build, resolve
from recondite.models.weights import seeded
from recondite_papers.jobs import compare as job
from recondite_papers.jobs.compare_network import FIRST, mlp, network
from recondite_papers.jobs.compare_signal import share
from recondite_papers.jobs.dirdp_networks import CHOSEN, usual
from recondite_papers.printed import compare
from recondite_papers.stacked import Stack, StackRelease
from recondite_papers.stacked.release import Releaser
from recondite_papers.stacked.sampling import Sampler
from recondite_papers.tables import accounting, reasons
from recondite_papers.tables.channel_verdicts import verdicts as channel_verdicts
from recondite_papers.tables.compare import attainable, table_5
from recondite_papers.tables.compare_verdicts import equal_signal, trade_off
from recondite_papers.tables.compare_verdicts import matched as verdict_at_equal_accuracy
from recondite_papers.tables.dirdp import dirdp_accuracy, dirdp_images

SHAPE = (1, 16, 16)
SOME = [("vmf", 75.0, 16), ("gaussian", 1.23, 16)]


def weights(net):
    return [w.detach() for w in net.parameters()]


def test_first_weights_have_glorots_deviation():
    found = [weights(network(SHAPE, 10, seed)) for seed in range(40)]
    for layer, (fan_in, fan_out) in enumerate(((256, 50), (50, 15), (15, 10))):
        drawn = torch.stack([each[layer] for each in found])
        assert float(drawn.std()) == pytest.approx(math.sqrt(2 / (fan_in + fan_out)), rel=0.02)
        assert float(drawn.abs().max()) <= math.sqrt(6 / (fan_in + fan_out))


def test_a_seed_gives_the_weights_of_the_study_file():
    """The jobs draw by seed, the comparison builds within one."""
    with seeded(3):
        other = mlp(SHAPE, 10)
    for one, two in zip(weights(network(SHAPE, 10, 3)), weights(other), strict=True):
        assert torch.equal(one, two)
    named = resolve("recondite_papers.jobs.compare_network:mlp", SHAPE, 10, seed=3)
    assert torch.equal(weights(named)[0], weights(other)[0])


def test_torchs_own_law_is_the_librarys_network():
    for one, two in zip(
        weights(network(SHAPE, 10, 0, "torch")),
        weights(build("mlp", SHAPE, 10, seed=0)),
        strict=True,
    ):
        assert torch.equal(one, two)
    drawn = {first: weights(network(SHAPE, 10, 0, first))[0] for first in FIRST}
    rows = drawn["orthogonal"] @ drawn["orthogonal"].T
    assert torch.allclose(rows, torch.eye(50), atol=1e-5)
    assert drawn["kaiming"].std() > drawn["xavier"].std() > drawn["torch"].std()


def test_glorots_law_of_the_other_networks():
    plain = usual("lenet")
    other = replace(plain, first="xavier")
    assert other.name == f"{plain.name}/xavier"
    one, two = (n.build((3, 32, 32), 10, 0) for n in (plain, other))
    for before, after in zip(one.parameters(), two.parameters(), strict=True):
        # Biases stay as they were.
        assert torch.equal(before, after) == (before.ndim == 1)
    third = CHOSEN["mlp2"].build((3, 32, 32), 10, 0)
    for weight in weights(third):
        assert float(weight.abs().max()) <= 0.5
    assert float(weights(third)[0].std()) == pytest.approx(1 / math.sqrt(12), rel=0.01)


def test_every_reading_differs_from_the_chosen_one():
    readings = [job.CHOSEN, *job._READINGS.values()]
    plans = {(r.first, r.plan(1, 128), r.clipping, r.pixels) for r in readings}
    assert len(plans) == len(readings)
    assert job.CHOSEN.plan(1, 128).decay == 0.1


@pytest.mark.parametrize("kappa", [200.0, 2000.0, 20_000.0])
def test_signal_over_noise_is_that_of_the_mechanism(kappa):
    dim = 2000
    x = np.zeros(dim)
    x[0] = 1.0
    drawn = VonMisesFisher(kappa, dim).release(np.tile(x, (400, 1)), np.random.default_rng(1))
    middle = drawn.mean(0)
    noise = np.sqrt(((drawn - middle) ** 2).sum(1).mean())
    assert share(StackRelease("vmf", kappa), 0.3, dim) == pytest.approx(middle[0] / noise, rel=0.05)


def test_signal_over_gaussian_noise_falls_with_the_gradient():
    dim, batch = 13_700, 128
    one = share(StackRelease("gaussian", 0.5), 0.2, dim)
    assert one == pytest.approx(0.2 / (0.5 / batch * math.sqrt(dim)))
    assert share(StackRelease("gaussian", 0.5), 0.05, dim) == pytest.approx(one / 4)
    assert share(StackRelease("gaussian", 1.0), 0.2, dim) == pytest.approx(one / 2)


def test_equal_signal_meets_where_errors_follow_it():
    """Errors that depend on signal over noise alone are equal at equal signal over noise."""
    dim, length = accounting.DIM, 0.215
    points = []
    for kind, values in (("gaussian", (0.2, 0.4, 0.8)), ("vmf", np.geomspace(50, 50_000, 60))):
        for value in values:
            ratio = share(StackRelease(kind, float(value)), length, dim)
            points.append({"defence": kind, "value": float(value), "mse": 4.0 - math.log(ratio)})
    found = equal_signal(points, length)
    assert len(found) == 3
    for _, noisy, turned in found:
        assert turned == pytest.approx(noisy, abs=0.01)
    # Twice the length that was attacked: the Gaussian error is no longer matched.
    assert all(turned < noisy - 0.5 for _, noisy, turned in equal_signal(points, 2 * length))


def matched(gap, guess=(9.0, 0.3)):
    """The verdict where VMF's error is the Gaussian one and a gap that depends on accuracy.

    ``guess`` is the mean image's MSE and SSIM; the attack's are 4 and 0.2.
    """
    accuracy, attacks = [], []
    for data, (kind, values) in product(
        ("mnist", "fashion-mnist"), (("gaussian", (0.2, 0.6, 1.2)), ("vmf", (100.0, 500.0, 900.0)))
    ):
        for place, value in enumerate(values):
            level = (90.0, 60.0, 40.0)[place if kind == "gaussian" else 2 - place]
            key = {"defence": kind, "value": value}
            accuracy.append({"block": f"main/{data}", "accuracy": [level / 100], **key})
            error = 4.0 + (gap(level) if kind == "vmf" else 0.0)
            errors = dict.fromkeys(("mse_scaled_placed", "mse_scaled"), error)
            attacks.append({"block": f"iga-128/{data}", "ssim_placed": 0.2, **errors, **key})
    points = {d: trade_off(accuracy, attacks, d) for d in ("mnist", "fashion-mnist")}
    blind = [
        {"study": "compare", "data": d, "guess": "mean image",
         "mse_scaled_placed": guess[0], "ssim_placed": guess[1]}
        for d in points
    ]  # fmt: skip
    return verdict_at_equal_accuracy(points, blind)[0]


def test_errors_at_equal_accuracy_count_where_the_attack_beats_the_mean_image():
    alike, safer, worse = matched(lambda _: 0.01), matched(lambda _: 1.0), matched(lambda _: -1.0)
    # Without the intruder's gains the paper's attack decides nothing.
    assert [v.stands for v in (alike, safer, worse)] == ["undecided"] * 3
    assert "beats the mean image at 202 of 202 accuracies" in alike.evidence
    assert "VMF's MSE is -1.00 to -1.00 from Gaussian's" in worse.evidence
    top = matched(lambda level: 0.4 if level > 80 else 0.0)
    assert "+0.40 from Gaussian's (MNIST at 90%)" in top.evidence
    # An attack that errs more than a guess shows no protection.
    dead = matched(lambda _: 1.0, guess=(1.0, 0.3))
    assert "beats the mean image at 0 of 202 accuracies" in dead.evidence
    assert "At all 202 VMF's MSE is +1.00 to +1.00" in dead.evidence


def test_deaths_are_counted_and_not_taken_for_a_trend():
    def told(*rights):
        row = {"model": "vgg16", "data": "cifar10", "defence": "natural"}
        rows = [{**row, "value": 50.0 * k, "accuracy": [a]} for k, a in enumerate(rights)]
        return next(v for v in channel_verdicts([], [], [], [], rows) if "Figure 9" in v.claim)

    assert told(0.3, 0.4, 0.5).stands == "stands"
    assert told(0.3, 0.6, 0.5).stands == "in part"
    assert told(0.5, 0.4, 0.3).stands == "falls"
    dead = told(0.1, 0.1, 0.6)
    assert dead.stands == "falls"
    assert "(2 of 3 died)" in dead.evidence


def rows_of(scores):
    return [
        {"block": f"batch-16/{data}", "defence": d, "value": v, "accuracy": scores}
        for data in ("mnist", "fashion-mnist")
        for d, v, _ in SOME
    ]


def test_what_can_be_expected_of_single_runs():
    assert attainable(rows_of([0.5] * 10), "vmf") == (2.0, 2)
    assert attainable(rows_of([0.5, 0.6] * 5), "vmf") == (0.0, 2)
    # Nine alike and one far off: nine of ten repetitions are within 3 points of the others.
    near, cells = attainable(rows_of([0.5] * 9 + [0.6]), "gaussian")
    assert (near / cells, cells) == (pytest.approx(0.9), 2)
    assert attainable(rows_of([0.5]), "vmf") == (0.0, 0)


def test_a_cell_that_is_off_says_what_was_tried():
    known = compare.TABLE_5["mnist", "vmf", 75.0, 16]
    rows = rows_of([known + 0.2] * 2)
    rows.append({"block": "open-16/mnist/undecayed", "defence": "vmf", "value": 75.0,
                 "accuracy": [0.485]})  # fmt: skip
    cell = next(c for c in table_5(rows) if c.name == "MNIST, batch 16, κ = 75")
    assert cell.difference == pytest.approx(20)
    assert "48.5 without decay" in cell.why


def test_table_2_says_what_torchs_own_first_weights_give():
    row = {"model": "lenet", "data": "cifar10", "defence": "gaussian", "epsilon": 0.8}
    usual = [{**row, "accuracy": [0.455]}]
    cells = {c.name: c for c in dirdp_accuracy([{**row, "accuracy": [0.4]}], usual)}
    found = cells["lenet, cifar10, gaussian 0.8"]
    assert found.ours == pytest.approx(40)
    assert found.why == "45.5 from torch's own initial weights"
    assert all(c.ours is None for c in dirdp_accuracy([], usual))


def test_table_4_says_what_relu_gives_under_the_same_noise():
    row = {"model": "lenet", "data": "cifar10", "defence": "vmf", "value": 5.0}
    single = {**row, "blocks": "elements", "weights": "clipped"}
    flat = {**row, "blocks": "flat", "weights": "public"}
    mine = [{**single, "mse_scaled_median": 0.4}, {**flat, "mse_scaled_median": 0.75}]
    theirs = [{**flat, "mse_scaled_median": 0.93}, {**single, "mse_scaled_median": 0.19}]
    cells = {c.name: c for c in dirdp_images(mine, theirs)}
    found = cells["lenet, cifar10, vmf 5 (elements, clipped)"]
    assert (found.paper, found.ours) == (1.48, 0.4)
    assert found.why == "0.19 with ReLU and torch's own initial weights"
    assert "0.93" in cells["lenet, cifar10, vmf 5 (flat, public)"].why


def test_cells_that_are_off_are_tried_again():
    row = {"model": "mlp2", "data": "lfw", "network": "mlp2/tanh/64/half/as-is/dlg", "seed": 1,
           "defence": "none", "epsilon": None, "accuracy": [0.2]}  # fmt: skip
    face = {"model": "lenet", "data": "lfw", "network": "lenet/tanh/average/half/as-is/dlg",
            "moved": 2, "defence": "gaussian", "epsilon": 8.0, "accuracy": [0.13]}  # fmt: skip
    one, two, *missing = reasons.again([row], [face])
    assert (one.name, one.paper) == ("mlp2, lfw, none, hidden layers 64", 15.6)
    assert (two.name, two.paper) == ("lenet, lfw, gaussian 8, faces moved by up to 2 pixels", 13.2)
    # What takes hours is listed where it was not run.
    assert [(c.paper, c.ours) for c in missing] == [(36.7, None), (37.4, None)]


def test_tables_of_reasons():
    row = {"model": "lenet", "data": "cifar10", "epsilon": 3.0, "clipping": "per-layer",
           "norm": 1.0, "accuracy": [0.48]}  # fmt: skip
    (cell,) = reasons.norms([row])
    assert cell.name == "lenet, cifar10, gaussian 3, by layer, C = 1"
    assert (cell.paper, cell.ours) == (43.2, pytest.approx(48))
    seen = {"data": "mnist", "defence": "vmf", "value": 2000.0, "steps": 1407, "length": 0.056,
            "signal_to_noise": 0.14, "accuracy": 0.894}  # fmt: skip
    (cell,) = reasons.signal([seen])
    assert cell.name == "mnist, κ = 2000, after 1,407 steps"
    assert cell.why == "average gradient 0.056 long; accuracy 89.4 %"


def test_a_larger_clipping_norm_is_more_noise():
    """Where nothing is clipped, C multiplies the noise and leaves the signal as it is."""
    stack = Stack([build("mlp", (1, 8, 8), seed=0) for _ in range(2)])
    releases = [
        StackRelease("gaussian", 0.5, norm=100.0),
        StackRelease("gaussian", 0.5, norm=200.0),
    ]
    images = torch.rand(2, 4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    taps, _ = stack.taps(images[:1].expand(2, -1, -1, -1, -1), torch.zeros(2, 4).long(),
                         torch.ones(2, 4))  # fmt: skip
    clear = Releaser(stack, [StackRelease("clip", norm=100.0)] * 2, 4, 1, torch.Generator())
    truth = clear(taps, torch.ones(2, 4))
    noisy = Releaser(stack, releases, 4, 1, torch.Generator().manual_seed(1))
    off = (noisy(taps, torch.ones(2, 4)) - truth).std(dim=1)
    assert off.tolist() == pytest.approx([0.5 * 100 / 4, 0.5 * 200 / 4], rel=0.1)


def test_a_batch_larger_than_the_data_is_one_line():
    with pytest.raises(ValueError, match="batch must be at most the number of records 5, got 8"):
        Sampler("poisson", 1, 5, 8, torch.Generator())
