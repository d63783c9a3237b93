"""Every record's gradient of a convolution: both ways, and the choice between them."""

import pytest
import torch
from torch import nn

from recondite.gradients.clipping import Clip
from recondite.gradients.collector import Collector
from recondite.gradients.layers import base, conv, conv_gradients, norms
from recondite.gradients.layers.conv_gradients import from_patches, patches_are_quicker

torch.set_num_threads(1)
LAYERS = {
    "lenet": (lambda: nn.Conv2d(12, 12, 5, 2, 2), (12, 16, 16)),
    "uneven": (lambda: nn.Conv2d(12, 7, (5, 3), (2, 1), (2, 1)), (12, 11, 9)),
    "same": (lambda: nn.Conv2d(13, 10, 3, padding="same", dilation=2), (13, 9, 7)),
    "valid": (lambda: nn.Conv2d(13, 10, 3, padding="valid", dilation=(1, 2)), (13, 9, 11)),
    "few positions": (lambda: nn.Conv2d(16, 32, 3, padding=1), (16, 4, 4)),
    "one": (lambda: nn.Conv2d(3, 5, 1), (3, 2, 2)),
    "left over": (lambda: nn.Conv2d(12, 4, 3, stride=3), (12, 14, 13)),
}


def exact(layer, a, b):
    """A loop over records in double precision."""
    layer, found = layer.double(), []
    for x, slope in zip(a.double(), b.double(), strict=True):
        (grad,) = torch.autograd.grad(layer(x[None]), layer.weight, slope[None])
        found.append(grad)
    return torch.stack(found)


@pytest.mark.parametrize("records", [1, 5])
@pytest.mark.parametrize("piece", [1, 1 << 12, 1 << 20])
@pytest.mark.parametrize("name", LAYERS)
def test_both_ways_give_the_gradient_of_every_record(monkeypatch, name, piece, records):
    torch.manual_seed(0)
    make, shape = LAYERS[name]
    layer, a = make(), torch.randn(records, *shape)
    b = torch.randn_like(layer(a)).detach()
    monkeypatch.setattr(conv_gradients, "_AT_A_TIME", piece)
    ways = [from_patches(layer, a, b, conv._sides(layer))]
    for quicker in (False, True):
        monkeypatch.setattr(conv, "patches_are_quicker", lambda *_, q=quicker: q)
        ways.append(conv._gradients(layer, a, b))
    true = exact(layer, a, b)
    for found in ways:
        assert found.shape == true.shape
        assert (found - true).abs().max() <= 1e-5 * true.abs().max()


def test_the_choice_follows_from_shapes():
    lenet = nn.Conv2d(12, 12, 5)
    assert patches_are_quicker(lenet, 64)
    assert not patches_are_quicker(nn.Conv2d(16, 32, 5), 64)
    assert patches_are_quicker(nn.Conv2d(16, 32, 5), 16)
    assert not patches_are_quicker(nn.Conv2d(3, 12, 5), 64)
    assert not patches_are_quicker(nn.Conv2d(12, 12, 5, groups=2), 64)


def test_rows_are_measured_and_summed_in_the_order_of_memory():
    torch.manual_seed(0)
    stored = torch.randn(6, 5, 2, 3, 4)
    turned = stored.permute(0, 1, 4, 2, 3)
    assert norms.in_memory(turned)[0].data_ptr() == stored.data_ptr()
    assert norms.in_memory(turned)[0].is_contiguous()
    copied = turned.contiguous()
    for measure in (norms.quick, norms.measured, norms.sizes):
        assert torch.equal(measure(turned), measure(stored))
        assert torch.allclose(measure(turned), measure(copied), rtol=1e-5)
        assert (measure(turned) >= turned.double().square().flatten(1).sum(1)).all()
    weights = torch.rand(6, dtype=torch.float64)
    found = base._added({"w": turned}, weights)["w"]
    assert found.shape == copied.shape[1:]
    assert torch.allclose(found, torch.tensordot(weights.float(), copied, 1), atol=1e-5)


@pytest.mark.parametrize("scale", [1e-25, 1e-3, 1.0, 1e9, 1e25])
def test_bounds_hold_by_patches_at_any_scale(scale):
    torch.manual_seed(0)
    model = nn.Conv2d(12, 12, 5, 2, 2)
    assert patches_are_quicker(model, 16)
    x = scale * torch.randn(12, 8, 8)
    collector = Collector(model)
    (model(torch.stack([x, x])) * torch.randn(12, 4, 4)).sum().backward()
    for entry in collector.tape.entries:
        entry.backprop[1] = 0.0
    total = collector.bounded_sum(Clip(0.5), 2, mean=False, keep=True)
    norm = float(total.double().norm())
    assert norm <= 0.5 * (1 + 1e-6)
    assert scale < 1e-3 or norm >= 0.5 * (1 - 1e-2)


def test_sums_of_gradients_keep_their_digits_whatever_is_set(monkeypatch):
    """A matrix product in TensorFloat-32 would make a record's part larger than it was measured."""
    place = torch.backends.mkldnn.matmul
    if not hasattr(place, "fp32_precision"):
        pytest.skip("older torch")
    seen, added = [], base._added

    def watched(*given):
        seen.append(torch.backends.cuda.matmul.fp32_precision)
        return added(*given)

    monkeypatch.setattr(base, "_added", watched)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        kept = torch.backends.cuda.matmul.fp32_precision
        model = nn.Conv2d(12, 12, 3)
        collector = Collector(model)
        model(torch.randn(3, 12, 6, 6)).sum().backward()
        collector.bounded_sum(Clip(0.5), 3, mean=False, keep=True)
        assert seen == ["ieee"]
        assert torch.backends.cuda.matmul.fp32_precision == kept != "ieee"
    finally:
        torch.set_float32_matmul_precision(before)
