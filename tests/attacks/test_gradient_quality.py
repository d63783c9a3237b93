"""What the attacks rebuild from real images, on untrained networks."""

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
    update,
)
from recondite.attacks.gradient.labels import infer_labels
from recondite.attacks.gradient.starts import STARTS
from recondite.attacks.gradient.victims import Victims
from recondite.gradients.leaked import leaked_gradients
from recondite.metrics import mse, score
from recondite.records import load

LOSS = functional.cross_entropy
BOX = (0.0, 1.0)


@pytest.fixture(scope="module")
def digits():
    return load("digits")


def victims(images, batch=1):
    """(n, …) to (n / batch, batch, …)."""
    return images.reshape(-1, batch, *images.shape[1:])


def labels_found(model, x, y):
    return infer_labels(
        Victims.of(
            model,
            LOSS,
            leaked_gradients(model, x, y),
            shape=x.shape[2:],
            batch_size=x.shape[1],
            labels=None,
            bounds=BOX,
            classes=None,
            weights=None,
            seed=0,
        )
    )


def attacked(attack, model, x, y, **options):
    leak = leaked_gradients(model, x, y)
    return attack.reconstruct_many(
        model, LOSS, leak, shape=x.shape[2:], batch_size=x.shape[1], bounds=BOX, seed=0, **options
    )


@pytest.mark.parametrize("kind", [DLG, IDLG])
def test_deep_leakage_on_its_own_network(kind, digits):
    model = models.build("lenet-dlg", (1, 8, 8), seed=0)
    x, y = victims(digits.images[:3]), victims(digits.labels[:3])
    result = attacked(kind(steps=200, restarts=1), model, x, y)
    assert torch.equal(result.labels, y)
    assert float(mse(result.images.squeeze(1), x.squeeze(1)).median()) < 1e-3
    assert result.loss.max() < 1e-4


def test_deep_leakage_of_a_batch(digits):
    model = models.build("lenet-dlg", (1, 8, 8), seed=0)
    x, y = digits.images[None, :2], digits.labels[None, :2]
    result = attacked(DLG(steps=250, restarts=1), model, x, y)
    assert sorted(result.labels[0].tolist()) == sorted(y[0].tolist())
    assert float(score(result.images[0], x[0]).mse.max()) < 1e-3


@pytest.mark.parametrize("start", STARTS)
def test_inverting_gradients_from_every_start(start, digits):
    """The network of Biswas et al. (2025), which has no bias."""
    model = models.build("mlp", (1, 8, 8), seed=1)
    x, y = victims(digits.images[:3]), victims(digits.labels[:3])
    attack = InvertingGradients(steps=200, start=start, total_variation=1e-6)
    result = attacked(attack, model, x, y)
    assert torch.equal(result.labels, y)
    assert float(score(result.images.squeeze(1), x.squeeze(1)).ssim.mean()) > 0.9


def test_inverting_gradients_on_mnist_and_several_restarts():
    mnist = load("mnist-5k", prepare="crop16")
    model = models.build("mlp", (1, 16, 16), seed=0)
    x, y = victims(mnist.images[:3]), victims(mnist.labels[:3])
    result = attacked(InvertingGradients(steps=300, restarts=2), model, x, y)
    scores = score(result.images.squeeze(1), x.squeeze(1), matched=False)
    assert float(scores.ssim.min()) > 0.9
    assert result.agreement.shape == (3,)
    assert float(result.agreement.max()) < 0.1


def test_batches_come_back_in_any_order(digits):
    model = models.build("mlp2", (1, 8, 8), seed=0, hidden=64)
    pick = torch.tensor([0, 1, 2, 3])
    x, y = digits.images[pick][None], digits.labels[pick][None]
    result = attacked(
        InvertingGradients(steps=300, total_variation=1e-5), model, x, y, labels=y.flip(1)
    )
    scores = score(result.images[0], x[0])
    assert float(scores.mse.mean()) < 0.02
    assert scores.order.tolist() == [3, 2, 1, 0]


def test_a_trained_victim_and_weights_of_its_own(digits):
    torch.manual_seed(0)
    model = models.build("mlp2", (1, 8, 8), seed=0, hidden=32)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(20):
        optimizer.zero_grad()
        LOSS(model(digits.images[100:]), digits.labels[100:]).backward()
        optimizer.step()
    x, y = victims(digits.images[:2]), victims(digits.labels[:2])
    leak = leaked_gradients(model, x, y)
    own = {n: p.detach().expand(2, *p.shape).clone() for n, p in model.named_parameters()}
    blank = models.build("mlp2", (1, 8, 8), seed=5, hidden=32)
    result = InvertingGradients(steps=120, total_variation=1e-6).reconstruct_many(
        blank, LOSS, leak, shape=(1, 8, 8), bounds=BOX, seed=0, weights=own
    )
    assert torch.equal(result.labels, y)
    assert float(mse(result.images.squeeze(1), x.squeeze(1)).max()) < 0.01


def test_the_analytic_attack_is_exact(digits):
    model = models.build("mlp2", (1, 8, 8), seed=0, hidden=30)
    x, y = victims(digits.images[:5]), victims(digits.labels[:5])
    result = attacked(Analytic(), model, x, y)
    assert float((result.images - x).abs().max()) < 1e-6
    assert float(result.loss.max()) < 1e-10
    assert result.notes[0].startswith("exact")
    noisy = {n: g + 1e-3 * torch.randn_like(g) for n, g in leaked_gradients(model, x, y).items()}
    guess = Analytic().reconstruct_many(model, LOSS, noisy, shape=(1, 8, 8))
    assert guess.notes[0].startswith("an estimate")
    assert float(guess.loss.min()) > 1e-6


def test_the_analytic_attack_without_a_bias_is_exact_up_to_scale(digits):
    model = models.build("mlp", (1, 8, 8), seed=0)
    x, y = victims(digits.images[:5]), victims(digits.labels[:5])
    free = Analytic().reconstruct_many(model, LOSS, leaked_gradients(model, x, y), shape=(1, 8, 8))
    cosine = functional.cosine_similarity(free.images.flatten(1), x.flatten(1))
    assert float((1 - cosine.abs()).max()) < 1e-6
    boxed = attacked(Analytic(), model, x, y)
    # The brightest pixel of these digits is 1 or nearly so, and so is the guess's.
    assert float(mse(boxed.images.squeeze(1), x.squeeze(1)).max()) < 1e-2
    assert "up to a factor" in boxed.notes[0]


def test_the_analytic_attack_on_a_batch_finds_lonely_records(digits):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 400), nn.ReLU(), nn.Linear(400, 10))
    nn.init.constant_(model[1].bias, -1.0)
    nn.init.normal_(model[1].weight, std=0.3)
    x, y = digits.images[None, :4], digits.labels[None, :4]
    result = attacked(Analytic(), model, x, y)
    exact = (score(result.images[0], x[0]).mse < 1e-8).sum()
    assert int(exact) >= 3
    assert "an estimate" in result.notes[0]


def test_labels_of_batches(digits):
    """An estimate: how often it is right, on an untrained network."""
    model = models.build("lenet-dlg", (1, 8, 8), seed=0)
    hits = {}
    for batch in (1, 8):
        x, y = victims(digits.images[:64], batch), victims(digits.labels[:64], batch)
        for network in (model, models.build("mlp", (1, 8, 8), seed=0)):
            found = labels_found(network, x, y)
            same = [
                sum(min(int((a == c).sum()), int((b == c).sum())) for c in range(10)) / batch
                for a, b in zip(found, y, strict=True)
            ]
            hits[batch, len(list(network.parameters()))] = sum(same) / len(same)
    assert hits[1, 8] == hits[1, 3] == 1.0
    assert hits[8, 8] == 1.0
    assert hits[8, 3] == 1.0


def test_one_label_without_a_bias_and_inputs_of_both_signs(digits):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 20), nn.Tanh(), nn.Linear(20, 10, bias=False))
    x, y = victims(digits.images[:40]), victims(digits.labels[:40])
    assert torch.equal(labels_found(model, x, y), y)


def test_the_mean_image(digits):
    model = models.build("mlp", (1, 8, 8), seed=0)
    x, y = victims(digits.images[:32], 16), victims(digits.labels[:32], 16)
    result = attacked(MeanImage(steps=200), model, x, y)
    assert result.images.shape == (2, 1, 1, 8, 8)
    goal = MeanImage.originals(x)
    error = float((result.images - goal).square().mean())
    assert error < 0.04
    assert error < 0.5 * float((0.5 - goal).square().mean())
    assert "mean of the 16 records" in " ".join(result.notes)


def local_update(model, x, y, steps, rate, size):
    """Plain local SGD, as a client runs it."""
    own = {n: p.detach().clone() for n, p in model.named_parameters()}
    for step in range(steps):
        at = [(step * size + k) % len(x) for k in range(size)]
        live = {n: w.clone().requires_grad_() for n, w in own.items()}
        loss = LOSS(torch.func.functional_call(model, live, (x[at],)), y[at])
        slopes = torch.autograd.grad(loss, list(live.values()))
        own = {n: w - rate * g for (n, w), g in zip(own.items(), slopes, strict=True)}
    return update(dict(model.named_parameters()), own, rate)


@pytest.mark.parametrize(("steps", "size"), [(3, 2), (4, 1)])
def test_multi_step_replays_local_training(steps, size, digits):
    model = models.build("mlp2", (1, 8, 8), seed=0, hidden=24)
    x, y = digits.images[:2], digits.labels[:2]
    leak = {k: v.detach() for k, v in local_update(model, x, y, steps, 0.5, size).items()}

    def error(attack):
        result = attack.reconstruct(
            model, LOSS, leak, shape=(1, 8, 8), batch_size=2, labels=y, bounds=BOX, seed=0
        )
        return float(score(result.images, x).mse.mean())

    replayed = error(
        MultiStep(
            local_steps=steps,
            local_learning_rate=0.5,
            local_batch_size=size,
            steps=150,
            total_variation=1e-6,
        )
    )
    assert replayed < 0.01
    assert replayed < error(InvertingGradients(steps=150, total_variation=1e-6))


def test_multi_step_infers_labels_from_the_mean_of_its_steps(digits):
    model = models.build("mlp2", (1, 8, 8), seed=0, hidden=48)
    x, y = digits.images[:4], digits.labels[:4]
    leak = {k: v.detach() for k, v in local_update(model, x, y, 6, 0.01, 4).items()}
    attack = MultiStep(local_steps=6, local_learning_rate=0.01, steps=5)
    result = attack.reconstruct(model, LOSS, leak, shape=(1, 8, 8), batch_size=4, bounds=BOX)
    assert sorted(result.labels.tolist()) == sorted(y.tolist())
    assert "labels inferred" in result.notes[0]


def test_batch_norm_statistics_help(digits):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Sigmoid(), nn.AvgPool2d(2),
        nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Sigmoid(), nn.Flatten(),
        nn.Linear(64, 10),
    )  # fmt: skip
    x, y = digits.images[:4], digits.labels[:4]
    for _ in range(60):
        model(x)
    model.eval()
    leak = leaked_gradients(model, x[None], y[None])

    def error(**settings):
        attack = SeeThroughGradients(steps=80, restarts=2, langevin=0.0, **settings)
        result = attack.reconstruct_many(
            model, LOSS, leak, shape=(1, 8, 8), batch_size=4, labels=y[None], bounds=BOX, seed=0
        )
        return float(score(result.images[0], x).mse.mean())

    with_them, without = error(), error(statistics=0.0)
    assert with_them < without
