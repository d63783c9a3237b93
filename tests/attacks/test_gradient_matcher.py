"""Gradients of trials: the tape and torch.func against autograd, one trial at a time."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from recondite import models
from recondite.attacks.gradient.bounded import Bounding
from recondite.attacks.gradient.matcher import Matcher
from recondite.attacks.gradient.tape import supports
from recondite.attacks.gradient.victims import Victims

SHAPE = (2, 8, 8)
BATCH, RESTARTS, VICTIMS = 3, 2, 2
TRIALS = VICTIMS * RESTARTS


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(128, 128), nn.Linear(128, 128)
        self.b.weight = self.a.weight
        self.out = nn.Linear(128, 4)

    def forward(self, x):
        return self.out(torch.sigmoid(self.b(torch.sigmoid(self.a(x.flatten(1))))))


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.out = nn.Linear(128, 128), nn.Linear(128, 4)

    def forward(self, x):
        return self.out(torch.sigmoid(self.a(torch.sigmoid(self.a(x.flatten(1))))))


class Outside(nn.Module):
    """Uses a layer's weight without running the layer."""

    def __init__(self):
        super().__init__()
        self.a, self.out = nn.Linear(128, 16), nn.Linear(16, 4)

    def forward(self, x):
        return self.out(torch.tanh(functional.linear(x.flatten(1), self.a.weight, self.a.bias)))


class Tokens(nn.Module):
    """A linear layer on sequences, and a layer norm."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm, self.out = nn.Linear(16, 6), nn.LayerNorm(6), nn.Linear(6, 4)

    def forward(self, x):
        rows = torch.tanh(self.norm(self.embed(x.reshape(len(x), 8, 16))))
        return self.out(rows.mean(1))


def conv(norm, bias=True):
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, stride=2, padding=1, bias=bias),
        norm(4),
        nn.ReLU(inplace=True),
        nn.Conv2d(4, 4, (3, 1), dilation=(1, 2), bias=bias),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(32, 4, bias=bias),
    )


def learned_batch_norm(channels):
    layer = nn.BatchNorm2d(channels)
    layer.running_mean.normal_()
    layer.running_var.uniform_(0.5, 2.0)
    nn.init.normal_(layer.weight)
    return layer.eval()


MODELS = {
    "mlp": lambda: models.build("mlp", SHAPE, 4),
    "mlp2": lambda: models.build("mlp2", SHAPE, 4, hidden=9),
    "lenet": lambda: models.build("lenet", (2, 16, 16), 4),
    "lenet-dlg": lambda: models.build("lenet-dlg", SHAPE, 4),
    "group": lambda: conv(lambda c: nn.GroupNorm(2, c)),
    "no-bias": lambda: conv(lambda c: nn.Identity(), bias=False),
    "batch-eval": lambda: conv(learned_batch_norm).eval(),
    "tokens": Tokens,
}
TRANSFORMED = {
    "tied": Tied,
    "twice": Twice,
    "outside": Outside,
    "own-statistics": lambda: conv(lambda c: nn.BatchNorm2d(c, track_running_stats=False)),
    "grouped": lambda: nn.Sequential(
        nn.Conv2d(2, 4, 3, groups=2), nn.Tanh(), nn.Flatten(), nn.Linear(144, 4)
    ),
}


def made(name, loss_fn=functional.cross_entropy, bounding=None, **changes):
    torch.manual_seed(1)
    model = {**MODELS, **TRANSFORMED}[name]().double()
    shape = (2, 16, 16) if name == "lenet" else SHAPE
    images = torch.rand(TRIALS, BATCH, *shape, dtype=torch.float64)
    labels = torch.randint(0, 4, (TRIALS, BATCH))
    leak = {
        n: torch.randn(VICTIMS, *p.shape, dtype=torch.float64)
        for n, p in model.named_parameters()
        if p.requires_grad
    }
    options = {"weights": None, **changes}
    victims = Victims.of(
        model,
        loss_fn,
        leak,
        shape=shape,
        batch_size=BATCH,
        labels=None,
        bounds=None,
        classes=None,
        seed=0,
        **options,
    )
    return Matcher(victims, RESTARTS, bounding), model, images.requires_grad_(), labels


def autograd(model, images, labels, loss_fn=functional.cross_entropy, bounding=None):
    """Every trial's gradient by the plainest code, flat."""
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    own = list(model.parameters())

    def flat(x, y):
        found = torch.autograd.grad(loss_fn(model(x), y), own, create_graph=True)
        return torch.cat([g.flatten() for g in found])

    rows = []
    for x, y in zip(images, labels, strict=True):
        if bounding is None:
            rows.append(flat(x, y))
            continue
        each = []
        for i in range(len(x)):
            g = flat(x[i : i + 1], y[i : i + 1])
            factor = bounding.norm / g.norm()
            each.append(g * (factor.clamp(max=1.0) if bounding.rule == "clip" else factor))
        rows.append(torch.stack(each).mean(0))
    return torch.stack(rows)


def joined(parts):
    return torch.cat([g.flatten(1) for g in parts], 1)


@pytest.mark.parametrize("name", [*MODELS, *TRANSFORMED])
def test_gradients_and_products_are_those_of_autograd(name):
    matcher, model, images, labels = made(name)
    assert (matcher.tape is not None) == (name in MODELS)
    mine = joined(matcher.gradients(images, labels))
    dot, norm = matcher.products(images, labels)
    distance = matcher.squared_distance(images, labels)
    cosine = matcher.cosine_distance(images, labels)
    slope = torch.autograd.grad(cosine.sum(), images)[0]
    right = autograd(model, images, labels)
    target = joined(matcher.targets())
    assert torch.allclose(mine, right, rtol=1e-9, atol=1e-11)
    assert torch.allclose(dot, (right * target).sum(1), rtol=1e-9)
    assert torch.allclose(norm, right.square().sum(1), rtol=1e-9)
    assert torch.allclose(distance, (right - target).square().sum(1), rtol=1e-9)
    wanted = 1 - functional.cosine_similarity(right, target)
    assert torch.allclose(cosine, wanted, rtol=1e-9)
    # Second order: the derivative in the images.
    assert torch.allclose(
        slope, torch.autograd.grad(wanted.sum(), images)[0], rtol=1e-8, atol=1e-12
    )


def each_record(matcher, images, labels):
    """Every record's own gradient, unbounded and flat, (trials, batch, p)."""
    trials, batch = images.shape[:2]
    alone, own = images.flatten(0, 1).unsqueeze(1), labels.flatten(0, 1).unsqueeze(1)
    rows = torch.arange(trials).repeat_interleave(batch)
    return joined(matcher.gradients(alone, own, rows)).reshape(trials, batch, -1)


@pytest.mark.parametrize("name", ["mlp", "lenet-dlg", "batch-eval", "tokens", "tied"])
@pytest.mark.parametrize("rule", ["clip", "scale"])
def test_bounded_gradients_are_those_of_autograd(name, rule):
    # A norm between the smallest and the largest, so that clipping touches some.
    probe = made(name)
    alone = each_record(probe[0], probe[2], probe[3]).norm(dim=-1)
    bounding = Bounding(rule, float(alone.detach().median()))
    matcher, model, images, labels = made(name, bounding=bounding)
    mine = joined(matcher.gradients(images, labels))
    dot, norm = matcher.products(images, labels)
    right = autograd(model, images, labels, bounding=bounding)
    assert torch.allclose(mine, right, rtol=1e-9, atol=1e-11)
    assert torch.allclose(norm, right.square().sum(1), rtol=1e-9)
    assert torch.allclose(dot, (right * joined(matcher.targets())).sum(1), rtol=1e-9)


@pytest.mark.parametrize("name", ["mlp2", "lenet-dlg", "group", "tokens"])
@pytest.mark.parametrize("rule", ["none", "clip"])
def test_the_two_ways_agree(name, rule):
    matcher, model, images, labels = made(name, bounding=Bounding(rule, 0.3))
    taped = joined(matcher.gradients(images, labels))
    products = matcher.products(images, labels)
    slope = torch.autograd.grad(matcher.squared_distance(images, labels).sum(), images)[0]
    matcher.tape = None
    model.requires_grad_(False)
    assert torch.allclose(joined(matcher.gradients(images, labels)), taped, rtol=1e-9, atol=1e-12)
    # torch.func's own layer norm fails this one.
    other = torch.autograd.grad(matcher.squared_distance(images, labels).sum(), images)[0]
    assert torch.allclose(slope, other, rtol=1e-8, atol=1e-12)
    for mine, other in zip(products, matcher.products(images, labels), strict=True):
        assert torch.allclose(mine, other, rtol=1e-9)


def test_soft_labels_and_single_records():
    matcher, model, images, labels = made("lenet-dlg")
    soft = functional.one_hot(labels, 4).double()
    assert torch.allclose(
        joined(matcher.gradients(images, soft)), joined(matcher.gradients(images, labels))
    )
    each = each_record(matcher, images, labels)
    assert each.shape[:2] == (TRIALS, BATCH)
    right = autograd(model, images[1, 2].reshape(1, 1, *SHAPE), labels[1, 2].reshape(1, 1))
    assert torch.allclose(each[1, 2], right[0], rtol=1e-9)


def test_finite_differences_of_the_distance():
    matcher, _, images, labels = made("group")
    value = matcher.squared_distance(images, labels)
    slope = torch.autograd.grad(value.sum(), images)[0]
    generator = torch.Generator().manual_seed(2)
    way = torch.randn(images.shape, generator=generator, dtype=torch.float64)
    step = 1e-6
    after, before = (
        matcher.squared_distance(images.detach() + s * step * way, labels) for s in (1, -1)
    )
    numeric = (after - before) / (2 * step)
    assert torch.allclose((slope * way).flatten(1).sum(1), numeric.detach(), rtol=1e-5)


def test_a_summed_loss_is_not_taken_for_a_mean():
    def summed(logits, targets):
        return functional.cross_entropy(logits, targets, reduction="sum")

    matcher, model, images, labels = made("mlp", summed)
    assert matcher.tape is None
    mine = joined(matcher.gradients(images, labels))
    assert torch.allclose(mine, autograd(model, images, labels, summed), rtol=1e-9)


def test_weights_of_each_victims_own():
    torch.manual_seed(3)
    model = MODELS["mlp"]().double()
    own = {
        n: torch.randn(VICTIMS, *p.shape, dtype=torch.float64) for n, p in model.named_parameters()
    }
    matcher, model, images, labels = made("mlp", weights=own)
    some = torch.tensor([3, 1])
    mine = joined(matcher.gradients(images[some], labels[some], some))
    targets = joined(matcher.targets(some))
    for row, trial in enumerate(some.tolist()):
        victim = trial // RESTARTS
        model.load_state_dict({n: w[victim] for n, w in own.items()})
        right = autograd(model, images[trial : trial + 1], labels[trial : trial + 1])
        assert torch.allclose(mine[row], right[0], rtol=1e-9)
        leak = torch.cat([g[victim].flatten() for g in matcher.victims.gradients.values()])
        assert torch.equal(targets[row], leak)


def test_frozen_parameters_take_no_part():
    torch.manual_seed(1)
    model = MODELS["lenet-dlg"]().double()
    model.conv1.weight.requires_grad_(False)
    model.fc.bias.requires_grad_(False)
    names = [n for n, p in model.named_parameters() if p.requires_grad]
    leak = {n: torch.randn(1, *model.get_parameter(n).shape).double() for n in names}
    victims = Victims.of(
        model, functional.cross_entropy, leak, shape=SHAPE, batch_size=2, labels=None,
        bounds=None, classes=None, weights=None, seed=0,
    )  # fmt: skip
    matcher = Matcher(victims)
    assert matcher.tape is not None
    images = torch.rand(1, 2, *SHAPE, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([[0, 3]])
    mine = matcher.gradients(images, labels)
    loss = functional.cross_entropy(model(images[0]), labels[0])
    right = torch.autograd.grad(loss, [model.get_parameter(n) for n in names])
    for one, other in zip(mine, right, strict=True):
        assert torch.allclose(one[0], other, rtol=1e-9)


def test_the_tape_reads_no_tied_or_mixing_layers():
    assert supports(MODELS["group"]())
    assert not supports(Tied())
    assert not supports(TRANSFORMED["own-statistics"]())
    assert not supports(nn.Sequential(nn.Conv2d(1, 1, 3, padding="same")))
