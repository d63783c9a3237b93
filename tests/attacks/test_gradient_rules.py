"""Every gradient attack: repeatable, interruptible, and one clear line for every mistake."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from recondite import models
from recondite.attacks import (
    DLG,
    IDLG,
    Analytic,
    InvertingGradients,
    MeanImage,
    MultiStep,
    SeeThroughGradients,
)
from recondite.attacks.gradient.starts import STARTS, starts
from recondite.attacks.gradient.victims import Victims
from recondite.gradients.leaked import leaked_gradients
from recondite.records import load

LOSS = functional.cross_entropy
SHAPE = (1, 8, 8)
QUICK = {
    "dlg": DLG(steps=40, restarts=2),
    "idlg": IDLG(steps=40, restarts=1),
    "inverting-gradients": InvertingGradients(steps=60, restarts=2),
    "see-through-gradients": SeeThroughGradients(steps=60, restarts=2),
    "mean-image": MeanImage(steps=60),
    "multi-step": MultiStep(steps=60, local_steps=2),
}


@pytest.fixture(scope="module")
def digits():
    return load("digits")


@pytest.fixture
def model():
    return models.build("mlp2", SHAPE, seed=0, hidden=16)


@pytest.fixture
def leak(model, digits):
    found = leaked_gradients(model, digits.images[None, :1], digits.labels[None, :1])
    return {name: g[0] for name, g in found.items()}


def run(attack, model, leak, **options):
    return attack.reconstruct(
        model, LOSS, leak, **{"shape": SHAPE, "bounds": (0.0, 1.0), "seed": 3, **options}
    )


@pytest.mark.parametrize("name", QUICK)
def test_a_seed_repeats_an_attack_and_leaves_the_model_alone(name, model, leak):
    before = {n: p.clone() for n, p in model.state_dict().items()}
    model.fc1.bias.grad = torch.ones(16)
    one, again, other = (run(QUICK[name], model, leak, seed=s) for s in (3, 3, 4))
    assert torch.equal(one.images, again.images)
    assert torch.equal(one.loss, again.loss)
    assert not torch.equal(one.images, other.images)
    assert one.images.shape == (1, *SHAPE)
    assert float(one.images.min()) >= 0.0
    assert float(one.images.max()) <= 1.0
    assert not one.interrupted
    assert not one.by_user
    assert all(torch.equal(before[n], p) for n, p in model.state_dict().items())
    assert model.training
    assert all(p.requires_grad for p in model.parameters())
    assert torch.equal(model.fc1.bias.grad, torch.ones(16))


@pytest.mark.parametrize("name", QUICK)
def test_an_interrupt_keeps_the_best_so_far(name, model, leak):
    seen = []

    def stop(progress):
        seen.append(progress)
        if progress.step >= 25:
            raise KeyboardInterrupt

    result = run(QUICK[name], model, leak, progress=stop)
    assert seen
    assert all(0 <= p.step <= p.steps for p in seen)
    if seen[-1].step >= 25:
        assert result.interrupted
        assert result.by_user
        assert result.steps < 60
        assert "the best so far" in result.notes[-1] or "the best so far" in " ".join(result.notes)
    assert torch.isfinite(result.images).all()
    assert all(p.requires_grad for p in model.parameters())


@pytest.mark.parametrize("name", QUICK)
def test_a_time_limit_ends_an_attack(name, model, leak):
    result = run(QUICK[name], model, leak, time_limit=1e-6)
    assert result.interrupted
    assert not result.by_user
    assert result.steps <= 1
    with pytest.raises(ValueError, match="time_limit must be above 0"):
        run(QUICK[name], model, leak, time_limit=0.0)


def test_victims_do_not_influence_each_other(model, digits):
    """Alone or beside others, from the same starts."""
    x, y = digits.images[:3].unsqueeze(1), digits.labels[:3].unsqueeze(1)
    many = leaked_gradients(model, x, y)
    alone = {n: g[:1] for n, g in many.items()}
    attack = InvertingGradients(steps=40, start="grey")
    options = {"shape": SHAPE, "bounds": (0.0, 1.0), "seed": 0}
    together = attack.reconstruct_many(model, LOSS, many, **options)
    single = attack.reconstruct_many(model, LOSS, alone, **options)
    assert together.victim(0).images.shape == (1, *SHAPE)
    assert torch.allclose(single.images[0], together.images[0], atol=0.05)


def test_sequences_in_parameter_order_are_the_same_as_names(model, leak):
    one = run(QUICK["idlg"], model, leak)
    other = run(QUICK["idlg"], model, list(leak.values()))
    assert torch.equal(one.images, other.images)
    with pytest.raises(ValueError, match="gradients must have 4 tensors"):
        run(QUICK["idlg"], model, list(leak.values())[:2])


@pytest.mark.parametrize("how", STARTS)
def test_starts(how):
    network = models.build("mlp2", (3, 5, 7), seed=0, hidden=4)
    zero = {n: torch.ones(2, *p.shape) for n, p in network.named_parameters()}
    victims = Victims.of(
        network,
        LOSS,
        zero,
        shape=(3, 5, 7),
        batch_size=2,
        labels=None,
        bounds=([-1.0, 0.0, 0.0], [1.0, 1.0, 4.0]),
        classes=None,
        weights=None,
        seed=0,
    )
    made = starts(victims, 3, how)
    assert made.shape == (6, 2, 3, 5, 7)
    assert torch.equal(made, starts(victims, 3, how))
    assert not torch.equal(made[0], made[1])
    if how in ("uniform", "colour"):
        assert torch.equal(made, victims.clamp(made))
    if how == "colour":
        assert float(made.flatten(3).std(3).max()) < 1e-6
    if how == "tiled":
        assert torch.equal(made[..., :2, :3], made[..., 3:5, 4:7])
    if how == "grey":
        assert torch.allclose(made.mean((0, 1, 3, 4)), torch.tensor([0.0, 0.5, 2.0]), atol=1e-2)


def changed(leak, name, value):
    return {**leak, name: value}


@pytest.mark.parametrize("name", [*QUICK, "analytic"])
def test_mistakes_get_one_line(name, model, leak):
    attack = QUICK.get(name, Analytic())
    first = leak["fc1.weight"]
    cases = [
        (changed(leak, "fc1.weight", first * torch.nan), {}, "fc1.weight holds NaN or infinity"),
        (changed(leak, "fc1.weight", first[:2]), {}, r"must have shape \(16, 64\), got \(2, 64\)"),
        ({k: v for k, v in leak.items() if k != "fc2.bias"}, {}, "it has no fc2.bias"),
        (changed(leak, "head", first), {}, "holds head, which the model lacks"),
        ({k: torch.zeros_like(v) for k, v in leak.items()}, {}, "zero everywhere"),
        (leak, {"shape": (1, 9, 9)}, r"shape \(1, 9, 9\) does not fit the model"),
        (leak, {"shape": (8, 8)}, "shape must have 3 numbers"),
        (leak, {"labels": torch.tensor([10])}, "labels must lie in 0..9"),
        (leak, {"labels": torch.tensor([1, 2])}, "one label for each of 1 records"),
        (leak, {"labels": torch.tensor([1.0])}, "labels must be whole numbers"),
        (leak, {"bounds": (1.0, 0.0)}, "bounds must be"),
        (leak, {"batch_size": 0}, "batch_size must be 1 or more"),
    ]
    for gradients, options, message in cases:
        with pytest.raises(ValueError, match=message) as caught:
            run(attack, model, gradients, **options)
        assert "\n" not in str(caught.value)


def norms(**options):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2, **options), nn.ReLU(), nn.Flatten(), nn.Linear(72, 10)
    )


@pytest.mark.parametrize("name", QUICK)
def test_models_in_the_wrong_mode_are_refused(name):
    network = norms()
    leak = {n: torch.ones_like(p) for n, p in network.named_parameters()}
    before = network[1].running_mean.clone()
    with pytest.raises(ValueError, match=r"batch norms in training mode: call model.eval\(\)"):
        run(QUICK[name], network, leak)
    assert torch.equal(network[1].running_mean, before)
    network.eval()
    network[1].running_mean.fill_(torch.nan)
    with pytest.raises(ValueError, match="without known statistics"):
        run(QUICK[name], network, leak)
    dropped = nn.Sequential(nn.Flatten(), nn.Linear(64, 10), nn.Dropout(0.5), nn.Linear(10, 10))
    leak = {n: torch.ones_like(p) for n, p in dropped.named_parameters()}
    with pytest.raises(ValueError, match="dropout in training mode"):
        run(QUICK[name], dropped, leak)


def test_see_through_gradients_wants_statistics_that_mean_something(digits):
    network = norms().eval()
    leak = leaked_gradients(network, digits.images[None, :1], digits.labels[None, :1])
    one = {n: g[0] for n, g in leak.items()}
    with pytest.raises(ValueError, match="statistics of batch norm 1, which has seen no batch"):
        run(QUICK["see-through-gradients"], network, one)
    run(SeeThroughGradients(steps=2, statistics=0.0), network, one)
    own = norms(track_running_stats=False)
    leak = leaked_gradients(own, digits.images[None, :2], digits.labels[None, :2])
    result = InvertingGradients(steps=5).reconstruct_many(
        own, LOSS, leak, shape=SHAPE, batch_size=2, bounds=(0.0, 1.0), seed=0
    )
    assert torch.isfinite(result.loss).all()


def test_the_analytic_attack_says_where_it_does_not_apply(model, leak):
    network = models.build("lenet-dlg", SHAPE, seed=0)
    ones = {n: torch.ones_like(p) for n, p in network.named_parameters()}
    with pytest.raises(ValueError, match="first layer is linear on all 64 pixels"):
        run(Analytic(), network, ones)
    silent = {**leak, "fc1.bias": torch.zeros(16)}
    with pytest.raises(ValueError, match="bias has a zero gradient"):
        run(Analytic(), model, silent)
    bare = models.build("mlp", SHAPE, seed=0)
    ones = {n: torch.ones_like(p) for n, p in bare.named_parameters()}
    with pytest.raises(ValueError, match="needs a bias .* for batches above 1"):
        run(Analytic(), bare, ones, batch_size=2)


def test_other_records_than_images(digits):
    """A row of numbers has no rows to be smooth across."""
    network = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.Sigmoid(), nn.Linear(8, 3))
    x, y = torch.rand(1, 1, 1, 1, 12), torch.tensor([[2]])
    leak = leaked_gradients(network, x, y)
    result = InvertingGradients(steps=50).reconstruct_many(
        network, LOSS, leak, shape=(1, 1, 12), bounds=(0.0, 1.0), seed=0
    )
    assert torch.isfinite(result.loss).all()
    assert result.labels.tolist() == [[2]]


@pytest.mark.parametrize("name", ["dlg", "inverting-gradients", "see-through-gradients"])
def test_weights_that_blow_up_are_named(name, model, leak):
    with torch.no_grad():
        model.fc2.weight.fill_(torch.nan)
    with pytest.raises(ValueError, match="matching loss is not finite from the start"):
        run(QUICK[name], model, leak, labels=torch.tensor([1]))


def test_soft_labels_and_weights_are_checked(model, leak):
    soft = torch.full((1, 10), 0.1)
    result = run(DLG(steps=3, restarts=1), model, leak, labels=soft)
    assert torch.isfinite(result.loss)
    stacked = {n: g[None] for n, g in leak.items()}
    with pytest.raises(ValueError, match="weights: fc1.weight must have shape"):
        InvertingGradients(steps=1).reconstruct_many(
            model, LOSS, stacked, shape=SHAPE, weights={"fc1.weight": torch.zeros(16, 64)}
        )
    model.fc1.weight.requires_grad_(False)
    own = {n: p.detach()[None] for n, p in model.named_parameters()}
    stacked.pop("fc1.weight")
    own["fc1.weight"] = own["fc1.weight"] + 1
    with pytest.raises(ValueError, match="fc1.weight is frozen"):
        InvertingGradients(steps=1).reconstruct_many(model, LOSS, stacked, shape=SHAPE, weights=own)
