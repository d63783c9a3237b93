"""The networks of the papers: their parameters, their shapes, their norms, their seeds."""

import pytest
import torch
from torch import nn

from recondite.models import NETWORKS, build, count_parameters, names
from recondite.models.weights import seeded

COUNTS = [
    ("mlp", (1, 16, 16), {}, 13_700),
    ("mlp2", (3, 32, 32), {}, 3_157_002),
    ("mlp2", (1, 28, 28), {"hidden": 100}, 784 * 100 + 100 + 1010),
    ("lenet", (3, 32, 32), {}, 62_006),
    ("lenet", (1, 28, 28), {}, 44_426),
    ("lenet-dlg", (3, 32, 32), {}, 15_826),
    ("alexnet", (3, 32, 32), {}, 35_855_178),
    ("vgg16", (3, 32, 32), {}, 134_309_962),
    ("vgg16", (3, 32, 32), {"norm": "batch"}, 134_309_962),
    ("vgg16", (3, 32, 32), {"norm": "none"}, 134_301_514),
    ("resnet10", (3, 32, 32), {}, 4_903_242),
    ("resnet10", (3, 32, 32), {"norm": "batch"}, 4_903_242),
]

# Those of images that are built in a moment; embeddings are of columns, and tested with tables.
SMALL = [name for name in names() if name not in ("vgg16", "table-embedding")]


@pytest.mark.parametrize(("name", "shape", "options", "count"), COUNTS)
def test_parameter_counts(name, shape, options, count):
    with torch.device("meta"):
        model = build(name, shape, 10, **options)
    assert count_parameters(model) == count


def test_counts_agree_with_the_printed_digits():
    """Table 2 of Tan et al. (2024)."""
    printed = {"lenet": 6.20e4, "resnet10": 4.90e6, "alexnet": 3.59e7, "vgg16": 1.34e8}
    for name, count in printed.items():
        for norm in ("group", "batch", "none"):
            with torch.device("meta"):
                ours = count_parameters(build(name, (3, 32, 32), 10, norm))
            assert f"{ours:.2e}" == f"{count:.2e}", (name, norm)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (2, 17, 30)])
def test_every_network_returns_logits_and_gradients(name, shape):
    model = build(name, shape, 7, seed=0)
    images = torch.rand(2, *shape)
    logits = model(images)
    assert logits.shape == (2, 7)
    nn.functional.cross_entropy(logits, torch.tensor([0, 6])).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_vgg16_returns_logits_and_signal_reaches_its_end():
    model = build("vgg16", (3, 32, 32), 5, seed=0).eval()
    with torch.no_grad():
        logits = model(torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0)))
    assert logits.shape == (2, 5)
    assert (logits[0] - logits[1]).abs().max() > 1e-6


def test_the_mlp_of_the_paper_has_sigmoids_and_no_bias():
    model = build("mlp", (1, 16, 16))
    weights = [module for module in model if isinstance(module, nn.Linear)]
    assert [tuple(layer.weight.shape) for layer in weights] == [(50, 256), (15, 50), (10, 15)]
    assert all(layer.bias is None for layer in weights)
    assert sum(isinstance(module, nn.Sigmoid) for module in model) == 2


def test_the_leakage_lenet_is_smooth_and_starts_uniform():
    model = build("lenet-dlg", (3, 32, 32), seed=0)
    assert not any(isinstance(module, (nn.ReLU, nn.MaxPool2d)) for module in model)
    values = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
    assert values.abs().max() <= 0.5
    assert abs(float(values.std()) - 1 / 12**0.5) < 0.01


def _kinds(model):
    return {type(module) for module in model.modules()}


@pytest.mark.parametrize("name", ["vgg16", "resnet10"])
def test_group_norm_stands_in_for_batch_norm(name):
    with torch.device("meta"):
        group, batch, none = (build(name, norm=norm) for norm in ("group", "batch", "none"))
    assert nn.GroupNorm in _kinds(group)
    assert nn.BatchNorm2d not in _kinds(group)
    assert nn.BatchNorm2d in _kinds(batch)
    assert not {nn.GroupNorm, nn.BatchNorm2d} & _kinds(none)
    assert [k for k, _ in group.named_parameters()] == [k for k, _ in batch.named_parameters()]


def test_only_batch_norm_mixes_records():
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(4, 3, 16, 16, generator=generator)
    for norm, alone in (("group", True), ("none", True), ("batch", False)):
        model = build("resnet10", (3, 16, 16), norm=norm, seed=0).train()
        with torch.no_grad():
            same = torch.allclose(model(images)[:2], model(images[:2]), atol=1e-5)
        assert same is alone, norm


@pytest.mark.parametrize("name", SMALL)
def test_opacus_can_serve_them(name):
    validator = pytest.importorskip("opacus.validators").ModuleValidator
    assert validator.validate(build(name, (3, 32, 32)), strict=False) == []


@pytest.mark.parametrize("name", ["mlp", "lenet-dlg", "resnet10"])
def test_a_seed_decides_the_weights_and_nothing_else(name):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first, again, other = (build(name, (3, 16, 16), seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.rand(3), expected)
    pairs = list(zip(first.parameters(), again.parameters(), strict=True))
    assert all(torch.equal(a, b) for a, b in pairs)
    weights = (next(model.parameters()) for model in (first, other))
    assert not torch.equal(*weights)


def test_without_a_seed_weights_come_from_torchs_generator():
    torch.manual_seed(3)
    first = build("mlp", (1, 4, 4))
    second = build("mlp", (1, 4, 4))
    torch.manual_seed(3)
    again = build("mlp", (1, 4, 4))
    assert torch.equal(first.fc1.weight, again.fc1.weight)
    assert not torch.equal(first.fc1.weight, second.fc1.weight)


def test_the_generator_is_put_back_after_a_mistake():
    before = torch.get_rng_state()
    with pytest.raises(RuntimeError), seeded(1):
        torch.rand(2) @ torch.rand(3)
    assert torch.equal(torch.get_rng_state(), before)


def test_seeded_weights_do_not_depend_on_the_default_device():
    with torch.device("meta"):
        model = build("mlp", (1, 4, 4), seed=1)
    assert torch.equal(model.fc1.weight, build("mlp", (1, 4, 4), seed=1).fc1.weight)


def test_frozen_and_shared_parameters():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[0].bias.requires_grad_(False)
    assert count_parameters(model) == 36
    assert count_parameters(model, trainable_only=False) == 40
    model[1].weight = model[0].weight
    assert count_parameters(model) == 20


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "lennet"}, r"model must be one of mlp, .*got 'lennet' \(did you mean lenet\?\)"),
        ({"name": "lenet", "shape": (1, 8, 8)}, "at least 16×16, got 8×8: resize them"),
        ({"name": "vgg16", "shape": (1, 28, 28)}, "at least 32×32, got 28×28"),
        ({"name": "lenet", "shape": (16, 16)}, "shape must have 3 numbers"),
        ({"name": "mlp", "shape": (1, 0, 16)}, "shape must be 1 or more"),
        ({"name": "mlp", "classes": 0}, "classes must be 1 or more"),
        ({"name": "mlp", "norm": "layer"}, "norm must be one of group, batch, none, got 'layer'"),
        ({"name": "mlp", "hidden": 5}, "hidden is not an option of mlp: it has none"),
        ({"name": "mlp2", "hidden": 0}, "hidden must be 1 or more"),
        ({"name": "mlp2", "width": 5}, "width is not an option of mlp2: it has hidden"),
        ({"name": "mlp", "seed": -1}, "seed must be 0 or more"),
        ({"name": "mlp", "seed": 2**63}, "seed must lie below"),
    ],
)
def test_bad_input_is_refused_in_one_line(arguments, message):
    with pytest.raises(ValueError, match=message) as caught:
        build(**arguments)
    assert "\n" not in str(caught.value)


def test_every_network_cites_who_uses_it():
    ours = {"table-embedding"}
    assert all("et al." in one.paper for key, one in NETWORKS.items() if key not in ours)
    assert "1,024 hidden units (option hidden)" in NETWORKS["mlp2"].assumptions
