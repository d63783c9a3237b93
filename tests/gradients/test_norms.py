"""Norms at every scale: rounding can only clip more, never less."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from recondite.gradients.clipping import (
    Automatic,
    Bound,
    Clip,
    ClipLayers,
    Psac,
    Scale,
    safe_factors,
)
from recondite.gradients.collector import Collector
from recondite.gradients.layers import norms

torch.set_num_threads(1)
RULES = [Clip(0.5), Scale(0.5), Automatic(0.5), Psac(0.5), "layers"]


def bounded(model, inputs, loss, bound):
    """The bounded gradient of every record: each is alone in the sum, all in one batch of two."""
    out = []
    for x in inputs:
        net = copy.deepcopy(model)
        collector = Collector(net)
        rule = ClipLayers((0.5,) * len(collector.rules)) if bound == "layers" else bound
        loss(net(torch.stack([x, x]))).backward()
        for entry in collector.tape.entries:  # the second record has no gradient
            entry.backprop[1] = 0.0
        out.append(collector.bounded_sum(rule, 2, mean=False, keep=True).double())
    return torch.stack(out), rule.norm


def exact(model, inputs, loss):
    double = copy.deepcopy(model).double()
    found = []
    for x in inputs:
        double.zero_grad()
        loss(double(x[None].double() if x.is_floating_point() else x[None])).backward()
        found.append(torch.cat([p.grad.reshape(-1) for p in double.parameters()]))
    return torch.stack(found)


def pooled(out):
    """Softmax over positions: the slopes of the positions add up to zero."""
    weights = torch.softmax(out[..., 0], 1)
    return (weights * torch.linspace(-1, 1, out.shape[1], dtype=out.dtype)).sum()


@pytest.mark.parametrize("scale", [1e-25, 1e-12, 1e-3, 1.0, 1e3, 1e4, 1e5, 1e9, 1e18, 1e30])
@pytest.mark.parametrize("bound", RULES)
@pytest.mark.parametrize("bias", [True, False])
def test_sequences_whose_slopes_cancel(scale, bound, bias):
    torch.manual_seed(0)
    model = nn.Linear(24, 16, bias=bias)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(1 / max(scale, 1.0))
    common = torch.randn(12, 1, 24)
    inputs = scale * (common + 1e-4 * torch.randn(12, 9, 24))
    found, limit = bounded(model, inputs, pooled, bound)
    assert torch.isfinite(found).all()
    assert (found.norm(dim=1) <= limit * (1 + 1e-6)).all()


@pytest.mark.parametrize("chunk", [1, 1 << 24])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e4, 1e9, 1e18])
@pytest.mark.parametrize("channels", [(2, 3), (40, 30)])
def test_convolutions_whose_slopes_cancel(monkeypatch, chunk, scale, channels):
    monkeypatch.setattr("recondite.gradients.layers.conv._CHUNK", chunk)
    torch.manual_seed(0)
    model = nn.Conv2d(*channels, 3)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(1 / max(scale, 1.0))
    inputs = scale * (torch.randn(6, channels[0], 1, 1) + 1e-4 * torch.randn(6, channels[0], 5, 5))
    found, limit = bounded(model, inputs, lambda out: pooled(out.flatten(2).mT), Clip(0.01))
    assert torch.isfinite(found).all()
    assert (found.norm(dim=1) <= limit * (1 + 1e-6)).all()


@pytest.mark.parametrize("shift", [0.0, 20.0, 40.0, 52.0, 60.0, 80.0])
@pytest.mark.parametrize("shape", [(6,), (3, 6)])
def test_gradients_that_underflow(shift, shape):
    """Confident records: slopes of e^-52 have squares below the smallest number."""
    torch.manual_seed(0)
    model, inputs = nn.Linear(6, 2), torch.randn(8, *shape)

    def loss(out):
        return functional.softplus(out - shift).sum()

    found, limit = bounded(model, inputs, loss, Scale(1.0))
    assert torch.allclose(found.norm(dim=1), torch.ones(8, dtype=torch.float64), rtol=3e-2)
    assert (found.norm(dim=1) <= limit * (1 + 1e-6)).all()


@pytest.mark.parametrize("scale", [1e-38, 1e-30, 1e-19, 1e10, 1e18, 1.5e19, 1e25, 1e30, 1e38])
@pytest.mark.parametrize("slope", [1e-38, 1e-25, 1e-19, 1.0, 1e18])
@pytest.mark.parametrize("rule", [Clip(1.0), Scale(1.0)])
def test_vectors_at_any_scale(scale, slope, rule):
    torch.manual_seed(0)
    model, inputs = nn.Linear(40, 3), scale * torch.rand(4, 40)
    found, limit = bounded(model, inputs, lambda out: (slope * out).sum(), rule)
    assert torch.isfinite(found).all()
    assert (found.norm(dim=1) <= limit * (1 + 1e-6)).all()
    known = exact(model, inputs, lambda out: (slope * out).sum()).norm(dim=1)
    lost = float(known.max()) > 1e37 or (float(known.min()) < 1e-37 and isinstance(rule, Scale))
    if not lost:
        expected = known.clamp(max=1.0) if isinstance(rule, Clip) else torch.ones_like(known)
        assert torch.allclose(found.norm(dim=1), expected, rtol=1e-4, atol=1e-30)


class Several(nn.Module):
    """Vectors, sequences on both sides of the shortcut, normalisation, an embedding."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(30, 12, padding_idx=3)
        self.many = nn.Linear(12, 10)
        self.norm = nn.LayerNorm(10)
        self.few = nn.Linear(10, 2)
        self.head = nn.Linear(14, 3)

    def forward(self, tokens):
        x = self.norm(torch.tanh(self.many(self.table(tokens))))
        return self.head(torch.tanh(self.few(x)).flatten(1))


@pytest.mark.parametrize("bound", RULES[:-1])
@pytest.mark.parametrize("seed", range(4))
def test_bounded_gradients_equal_double_precision(bound, seed):
    torch.manual_seed(seed)
    model, tokens = Several(), torch.randint(0, 30, (5, 7))
    tokens[:, 5:] = 3

    def loss(out):
        return functional.cross_entropy(10.0**seed * out, torch.full((len(out),), 1)) * len(out)

    found, limit = bounded(model, tokens, loss, bound)
    known = exact(model, tokens, loss)
    norm = known.norm(dim=1, keepdim=True)
    expected = known * bound.factors(norm.square())
    assert torch.allclose(found, expected, rtol=1e-3, atol=1e-5 * float(expected.abs().max()))
    assert (found.norm(dim=1) <= limit * (1 + 1e-6)).all()


@pytest.mark.parametrize("terms", [(3, 5, 4), (30, 200, 100), (2, 900, 300)])
def test_the_shortcut_is_an_upper_bound_or_silent(terms):
    steps, left, right = terms
    torch.manual_seed(0)
    for spread in (1.0, 1e-1, 1e-2, 1e-3, 1e-5):
        a = torch.randn(40, 1, left) + spread * torch.randn(40, steps, left)
        b = torch.randn(40, steps, right)
        b -= b.mean(1, keepdim=True)
        squared = norms.gram(a, b)
        true = (b.double().mT @ a.double()).square().sum((1, 2))
        told = ~squared.isnan()
        assert (squared[told] >= true[told]).all()
        assert (squared[told] <= true[told] * (1 + 2 * norms.SLACK)).all()
        assert told.all() if spread == 1.0 else True
        assert not told.any() if spread == 1e-5 else True


def test_rows_are_measured_from_above():
    torch.manual_seed(0)
    for size in (1, 63, 64, 65, 5000):
        for scale in (1e-12, 1.0, 1e18):
            values = scale * torch.randn(50, size)
            true = values.double().square().sum(1)
            for squared in (norms.quick(values), norms.measured(values)):
                told = ~squared.isnan()
                assert (squared[told] >= true[told]).all()
                assert (squared[told] <= true[told] * (1 + 1e-4)).all()
    assert norms.quick(torch.tensor([[0.0], [math.inf], [math.nan], [1e-30], [1e30]])).isnan().all()


class Careless(Bound):
    @property
    def norm(self):
        return 1.0

    def factors(self, squared):
        return torch.full_like(squared, 3.0)


def test_whatever_a_rule_says_its_bound_holds():
    rows = [[1.0, 4.0], [1e300, 0.0], [0.0, 0.0], [1e-300, 0.0], [math.nan, 1.0], [math.inf, 1.0]]
    squared = torch.tensor(rows, dtype=torch.float64)
    for rule in (Careless(), Clip(1.0), Scale(1.0), ClipLayers((0.6, 0.8)), Psac(1.0)):
        for scale in (1.0, 256.0):
            factors = safe_factors(rule, squared, scale)
            assert torch.isfinite(factors).all()
            sizes = (factors * squared.sqrt())[:4].norm(dim=1)
            assert (sizes <= 1.0 + 1e-9).all()


@pytest.mark.parametrize("rule", [Automatic, Psac])
@pytest.mark.parametrize("stability", [-0.5, 0.0, math.nan, math.inf])
def test_stability_is_validated(rule, stability):
    with pytest.raises(ValueError, match="stability"):
        rule(1.0, stability=stability)


def test_products_keep_their_digits_whatever_is_set():
    place = torch.backends.mkldnn.matmul
    if not hasattr(place, "fp32_precision"):
        pytest.skip("older torch")
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        kept = place.fp32_precision
        with norms.full_precision():
            assert torch.backends.cuda.matmul.fp32_precision == "ieee"
            assert place.fp32_precision == "ieee"
        assert place.fp32_precision == kept
    finally:
        torch.set_float32_matmul_precision(before)


def test_steps_within_autocast_are_not_rounded_to_halves():
    torch.manual_seed(0)
    model, inputs = nn.Linear(30, 4), torch.randn(6, 5, 30)
    collector = Collector(model)
    model(inputs).square().sum().backward()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = collector.bounded_sum(Clip(0.1), 6, mean=False, keep=True)
    model(inputs).square().sum().backward()
    outside = collector.bounded_sum(Clip(0.1), 6, mean=False, keep=True)
    assert inside.dtype == torch.float32
    assert torch.equal(inside, outside)
