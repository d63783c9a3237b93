"""The engine's update equals that of a slow, obvious reference, for every combination."""

import copy
import math

import pytest
import torch
from opacus.layers import DPLSTM
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import recondite as rc
from recondite.mechanisms.none import NoNoise
from recondite.numerics.bessel import bessel_ratio
from recondite.training import PrivacyEngine

torch.set_num_threads(1)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 6)
        self.lstm = DPLSTM(6, 5, batch_first=True)
        self.head = nn.Linear(5, 3)

    def forward(self, tokens):
        out, _ = self.lstm(self.table(tokens))
        return self.head(out[:, -1])


class Words(nn.Module):
    """An embedding, a linear layer on sequences, normalisation, and a layer used twice."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 6)
        self.mix = nn.Linear(6, 6)
        self.norm = nn.LayerNorm(6)
        self.head = nn.Linear(6, 3)

    def forward(self, tokens):
        x = self.table(tokens)
        x = torch.tanh(self.mix(torch.tanh(self.mix(x))))
        return self.head(self.norm(x).mean(1))


class Sequence(nn.Module):
    """Linear layers on sequences, each used once: few positions, then many against the weights."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 6)
        self.wide = nn.Linear(6, 9)
        self.thin = nn.Linear(9, 1)
        self.head = nn.Linear(4, 3)

    def forward(self, tokens):
        x = torch.tanh(self.wide(self.table(tokens)))
        return self.head(torch.tanh(self.thin(x)).squeeze(-1))


def mlp():
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(48, 7),
        nn.Sigmoid(),
        nn.Linear(7, 5, bias=False),
        nn.ReLU(),
        nn.Linear(5, 3),
    )


def cnn():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, stride=2, padding=1),
        nn.GroupNorm(2, 4),
        nn.Tanh(),
        nn.Conv2d(4, 6, 2, groups=2, dilation=1),
        nn.Sigmoid(),
        nn.Conv2d(6, 2, 1, bias=False),
        nn.Flatten(),
        nn.LazyLinear(3),
    )


MODELS = {
    "mlp": (mlp, "image"),
    "cnn": (cnn, "image"),
    "words": (Words, "tokens"),
    "recurrent": (Recurrent, "tokens"),
    "sequence": (Sequence, "tokens"),
}


def make(name, rows=24):
    torch.manual_seed(1)
    build, kind = MODELS[name]
    model = build()
    image, tokens = torch.randn(rows, 3, 4, 4), torch.randint(0, 20, (rows, 4))
    inputs = image if kind == "image" else tokens
    model(inputs)
    return model, TensorDataset(inputs, torch.randint(0, 3, (rows,)))


def reference(model, inputs, labels, bound):
    """Per-sample autograd in float64, one sample at a time; returns bounded flat gradients."""
    double = copy.deepcopy(model).double()
    for layer in double.modules():
        layer.__dict__.pop("forward", None)
        layer._forward_hooks.clear()
    out = []
    for x, y in zip(inputs, labels, strict=True):
        double.zero_grad()
        row = x[None].double() if x.is_floating_point() else x[None]
        nn.functional.cross_entropy(double(row), y[None]).backward()
        out.append(bound(torch.cat([p.grad.reshape(-1) for p in double.parameters()]), double))
    return torch.stack(out)


def flat(norm_to_factor):
    def bound(gradient, model):
        del model
        return gradient * norm_to_factor(float(gradient.norm()))

    return bound


def per_layer(limit):
    def bound(gradient, model):
        del gradient
        parts = {}
        for layer in model.modules():
            own = list(layer.parameters(recurse=False))
            if own and not isinstance(layer, DPLSTM):
                norm = math.sqrt(sum(float(p.grad.square().sum()) for p in own))
                for p in own:
                    parts[p] = p.grad * min(1.0, limit / norm)
        return torch.cat([parts[p].reshape(-1) for p in model.parameters()])

    return bound


BOUNDS = {
    "flat": flat(lambda n: min(1.0, 0.3 / n)),
    "scale": flat(lambda n: 0.3 / n),
    "automatic": flat(lambda n: 0.3 / (n + 0.01)),
    "psac": flat(lambda n: 0.3 / (n + 0.1 / (n + 0.1))),
    "per-layer": per_layer(0.3),
    "none": flat(lambda n: 1.0),
}


def one_step(model, data, clipping, mechanism, **options):
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    engine = PrivacyEngine(seed=0)
    loader = DataLoader(data, batch_size=options.pop("batch", 12))
    model, optimizer, private = engine.make_private(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        mechanism=mechanism,
        max_grad_norm=0.3,
        clipping=clipping,
        **options,
    )
    before = torch.cat([p.detach().reshape(-1).clone() for p in model.parameters()])
    seen = []
    for inputs, labels in private:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        seen.append((inputs, labels, private.draw))
        optimizer.step()
        if private.draw.last:
            break
    after = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
    return before - after, seen, engine


@pytest.mark.parametrize("clipping", list(BOUNDS))
@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("sampling", ["poisson", "shuffled"])
def test_bounded_average_equals_the_reference(name, clipping, sampling):
    model, data = make(name)
    original = copy.deepcopy(model)
    update, seen, _ = one_step(model, data, clipping, NoNoise(), sampling=sampling)
    ((inputs, labels, draw),) = seen
    expected = reference(original, inputs, labels, BOUNDS[clipping]).sum(0) / 12
    assert draw.rows == len(inputs)
    assert torch.allclose(update.double(), expected, rtol=1e-4, atol=1e-6)
    assert (update.double() - expected).norm() <= 1e-5 * expected.norm().clamp(min=1e-3)


@pytest.mark.parametrize("name", list(MODELS))
def test_pieces_add_up_to_the_whole_batch(name):
    model, data = make(name)
    original = copy.deepcopy(model)
    update, seen, engine = one_step(
        model, data, "flat", NoNoise(), sampling="shuffled", physical_batch_size=5
    )
    assert [len(labels) for _, labels, _ in seen] == [5, 5, 2]
    expected = sum(
        reference(original, inputs, labels, BOUNDS["flat"]).sum(0) for inputs, labels, _ in seen
    )
    assert torch.allclose(update.double(), expected / 12, rtol=1e-4, atol=1e-6)
    assert engine.steps == 1


@pytest.mark.parametrize("name", list(MODELS))
def test_noise_is_added_to_that_average(name):
    """Gaussian noise has the right deviation around the reference; VMF the right cosine law."""
    model, data = make(name)
    original = copy.deepcopy(model)
    update, seen, engine = one_step(model, data, "flat", rc.Gaussian(0.01), sampling="shuffled")
    ((inputs, labels, _),) = seen
    expected = reference(original, inputs, labels, BOUNDS["flat"]).sum(0) / 12
    noise = update.double() - expected
    std = 0.01 * 0.3 / 12
    assert engine.mechanism.noise_std * 0.3 / 12 == pytest.approx(std)  # in units of the bound
    assert float(noise.std()) == pytest.approx(std, rel=3 / math.sqrt(2 * len(noise)))

    kappa, dim = 1e4, len(expected)
    model, data = make(name)
    update, seen, _ = one_step(model, data, "flat", rc.VonMisesFisher(kappa), sampling="shuffled")
    assert float(update.norm()) == pytest.approx(1.0, abs=1e-4)
    cosine = float(update.double() @ expected / expected.norm())
    mean = float(bessel_ratio(dim / 2 - 1, kappa))
    deviation = math.sqrt(1 - mean**2 - (dim - 1) / kappa * mean)
    assert cosine == pytest.approx(mean, abs=4 * deviation)


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("blocks", [1, 3, "layers", "rows"])
def test_directional_noise_is_drawn_for_every_record(name, blocks):
    model, data = make(name)
    original = copy.deepcopy(model)
    mechanism = rc.Directional(1e10, blocks=blocks)
    update, seen, engine = one_step(model, data, "flat", mechanism, sampling="fixed-size")
    ((inputs, labels, _),) = seen
    gradients = reference(original, inputs, labels, BOUNDS["none"])
    sizes = engine.mechanism.sizes
    start, expected = 0, []
    for size in sizes:
        block = gradients[:, start : start + size]
        norms = block.norm(dim=1, keepdim=True)
        units = torch.where(norms > 0, block / norms.clamp(min=1e-30), torch.zeros_like(block))
        expected.append(units.mean(0) * math.sqrt(size / sum(sizes)))
        start += size
    expected = torch.cat(expected)
    empty = any(
        (gradients[:, sum(sizes[:i]) : sum(sizes[: i + 1])].norm(dim=1) == 0).any()
        for i in range(len(sizes))
    )
    if not empty:  # a block that is zero gets a random direction instead
        assert (update.double() - expected).norm() <= 2e-3 * expected.norm()
    assert torch.isfinite(update).all()


@pytest.mark.parametrize("clipping", ["flat", "per-layer"])
@pytest.mark.parametrize("chunk", [1, 200])
def test_convolutions_too_large_to_hold_their_gradients(monkeypatch, clipping, chunk):
    """Norms by patches, in chunks, and sums by a weighted convolution."""
    monkeypatch.setattr("recondite.gradients.layers.conv._CHUNK", chunk)
    model, data = make("cnn")
    original = copy.deepcopy(model)
    update, seen, _ = one_step(model, data, clipping, NoNoise(), sampling="shuffled")
    ((inputs, labels, _),) = seen
    expected = reference(original, inputs, labels, BOUNDS[clipping]).sum(0) / 12
    assert (update.double() - expected).norm() <= 1e-5 * expected.norm()


@pytest.mark.parametrize("padding", ["same", "valid", 1])
def test_padding_of_convolutions(monkeypatch, padding):
    for chunk in (1, 1 << 24):
        monkeypatch.setattr("recondite.gradients.layers.conv._CHUNK", chunk)
        torch.manual_seed(2)
        net = nn.Sequential(nn.Conv2d(3, 4, 3, padding=padding), nn.Flatten(), nn.LazyLinear(3))
        data = make("cnn")[1]
        net(data.tensors[0])
        original = copy.deepcopy(net)
        update, seen, _ = one_step(net, data, "flat", NoNoise(), sampling="shuffled")
        ((inputs, labels, _),) = seen
        expected = reference(original, inputs, labels, BOUNDS["flat"]).sum(0) / 12
        assert (update.double() - expected).norm() <= 1e-5 * expected.norm()


class Checkpointed(nn.Module):
    """Its middle runs again during the backward pass, by torch's checkpointing of either kind."""

    def __init__(self, how):
        super().__init__()
        self.first, self.middle = nn.Linear(6, 5), nn.Sequential(nn.Linear(5, 5), nn.Tanh())
        self.last, self.how = nn.Linear(5, 3), how

    def forward(self, x):
        x = self.first(x)
        if self.how is None:
            return self.last(self.middle(x))
        from torch.utils.checkpoint import checkpoint

        return self.last(checkpoint(self.middle, x, use_reentrant=self.how))


@pytest.mark.filterwarnings("ignore:the first step's gradients were not checked")
@pytest.mark.parametrize("how", [False, True], ids=["non-reentrant", "reentrant"])
@pytest.mark.parametrize("pieces", [None, 3])
def test_checkpointing_of_activations_changes_no_update(how, pieces):
    def trained(how):
        torch.manual_seed(4)
        model = Checkpointed(how)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        data = TensorDataset(torch.randn(24, 6), torch.arange(24) % 3)
        engine = rc.PrivacyEngine(seed=5)
        _, _, loader = engine.make_private(
            module=model, optimizer=optimizer, data_loader=DataLoader(data, batch_size=8),
            mechanism=rc.Gaussian(0.5), max_grad_norm=0.1, physical_batch_size=pieces,
        )  # fmt: skip
        for _ in range(2):
            for x, y in loader:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
        return torch.cat([p.detach().reshape(-1) for p in model.parameters()])

    assert torch.allclose(trained(how), trained(None), atol=1e-6)
