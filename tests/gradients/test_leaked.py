"""What a victim leaks is what the engine releases."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import recondite as rc
from recondite import models
from recondite.gradients.leaked import configured_for, leaked_gradients
from recondite.mechanisms import Directional, Gaussian, NoNoise, VonMisesFisher
from recondite.numerics.bessel import bessel_ratio
from recondite.records import load

BATCH = 12


@pytest.fixture(scope="module")
def digits():
    found = load("digits")
    return found.images[:BATCH], found.labels[:BATCH]


def network(name="mlp"):
    return models.build(name, (1, 8, 8), seed=0)


def flat(leak, victim=0):
    return torch.cat([g[victim].flatten() for g in leak.values()])


def engine_releases(model, digits, mechanism, **options):
    """The gradient that the engine leaves for the optimizer after one whole batch."""
    images, labels = digits
    engine = rc.training.PrivacyEngine(seed=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    loader = DataLoader(TensorDataset(images, labels), batch_size=BATCH)
    model, optimizer, loader = engine.make_private(
        module=model.train(),
        optimizer=optimizer,
        data_loader=loader,
        mechanism=mechanism,
        sampling="shuffled" if mechanism.stage == "sum" else "fixed-size",
        **options,
    )
    for x, y in loader:
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


@pytest.mark.parametrize("name", ["mlp", "lenet-dlg"])
@pytest.mark.parametrize(
    ("clipping", "norm"), [("flat", 0.5), ("per-layer", 0.3), ("scale", 1.0), ("automatic", 1.0)]
)
def test_without_noise_it_is_the_engines_update(name, clipping, norm, digits):
    images, labels = digits
    options = {"clipping": clipping, "max_grad_norm": norm}
    model = network(name)
    leak = leaked_gradients(model, images[None], labels[None], NoNoise(clip=True), **options)
    assert list(leak) == [n for n, _ in model.named_parameters()]
    released = engine_releases(model, digits, NoNoise(clip=True), **options)
    assert torch.allclose(flat(leak), released, atol=1e-6)


def test_the_bare_gradient_is_autograds_and_victims_are_stacked(digits):
    images, labels = digits
    model = network()
    before = {n: p.clone() for n, p in model.state_dict().items()}
    leak = leaked_gradients(model, images.reshape(3, 4, 1, 8, 8), labels.reshape(3, 4))
    model.zero_grad()
    functional.cross_entropy(model(images[4:8]), labels[4:8]).backward()
    for name, parameter in model.named_parameters():
        assert leak[name].shape == (3, *parameter.shape)
        assert torch.allclose(leak[name][1], parameter.grad, atol=1e-7)
    assert all(torch.equal(before[n], p) for n, p in model.state_dict().items())


def test_gaussian_noise_has_the_engines_law(digits):
    images, labels = digits
    model, draws = network(), 400
    mechanism = Gaussian(noise_multiplier=2.0)
    many = images.expand(draws, -1, -1, -1, -1), labels.expand(draws, -1)
    noisy = leaked_gradients(model, *many, mechanism, max_grad_norm=0.5, seed=1)
    centre = leaked_gradients(
        model, images[None], labels[None], NoNoise(clip=True), max_grad_norm=0.5
    )
    away = torch.cat([g.flatten(1) for g in noisy.values()], 1) - flat(centre)
    std = 2.0 * 0.5 / BATCH
    known = configured_for(mechanism, model, BATCH, max_grad_norm=0.5)
    assert known.mechanism.noise_std * 0.5 / BATCH == pytest.approx(std)
    count = away.numel()
    assert abs(float(away.mean())) < 4 * std / math.sqrt(count)
    assert float(away.std()) == pytest.approx(std, rel=4 / math.sqrt(2 * count))
    released = engine_releases(model, digits, mechanism, max_grad_norm=0.5) - flat(centre)
    assert float(released.std()) == pytest.approx(std, rel=4 / math.sqrt(2 * len(released)))


def test_vmf_is_a_unit_direction_with_the_right_mean(digits):
    images, labels = digits
    model, draws = network(), 200
    dim = sum(p.numel() for p in model.parameters())
    kappa = 2.0 * dim
    many = images.expand(draws, -1, -1, -1, -1), labels.expand(draws, -1)
    noisy = leaked_gradients(model, *many, VonMisesFisher(kappa), seed=1)
    rows = torch.cat([g.flatten(1) for g in noisy.values()], 1).double()
    assert torch.allclose(rows.norm(dim=1), torch.ones(draws, dtype=torch.float64), atol=1e-5)
    centre = flat(leaked_gradients(model, images[None], labels[None], NoNoise(clip=True))).double()
    cosines = rows @ (centre / centre.norm())
    expected = float(bessel_ratio(0.5 * dim - 1.0, kappa))
    error = float(cosines.std()) / math.sqrt(draws)
    assert abs(float(cosines.mean()) - expected) < 4 * error + 1e-5
    released = engine_releases(model, digits, VonMisesFisher(kappa))
    assert float(released.norm()) == pytest.approx(1.0, abs=1e-5)
    assert float(released.double() @ centre / centre.norm()) == pytest.approx(expected, abs=0.02)


def test_noise_on_every_record(digits):
    images, labels = digits
    model = network()
    dim = sum(p.numel() for p in model.parameters())
    mechanism = Directional(kappa=50.0 * dim)
    leak = flat(leaked_gradients(model, images[None], labels[None], mechanism, seed=0))
    released = engine_releases(model, digits, mechanism)
    assert float(functional.cosine_similarity(leak, released, dim=0)) > 0.98
    assert float(leak.norm()) == pytest.approx(float(released.norm()), rel=0.05)


def test_seeds_repeat_and_their_absence_does_not(digits):
    images, labels = (part[None] for part in digits)
    model = network()

    def draw(seed):
        return flat(leaked_gradients(model, images, labels, VonMisesFisher(50.0), seed=seed))

    assert torch.equal(draw(3), draw(3))
    assert not torch.equal(draw(3), draw(4))
    assert not torch.equal(draw(None), draw(None))


def test_frozen_parameters_leak_nothing(digits):
    images, labels = (part[None] for part in digits)
    model = network("lenet-dlg")
    model.conv1.weight.requires_grad_(False)
    for mechanism in (None, NoNoise(clip=True)):
        leak = leaked_gradients(model, images, labels, mechanism)
        assert "conv1.weight" not in leak
        assert all(leak[n].shape[1:] == model.get_parameter(n).shape for n in leak)


def test_wrong_shapes_are_one_line(digits):
    images, labels = digits
    with pytest.raises(ValueError, match=r"images must be \(victims, batch, …\)"):
        leaked_gradients(network(), images, labels)


def test_the_bare_gradient_of_a_model_with_batch_normalisation():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 3))
    images, labels = torch.rand(2, 3, 1, 4, 4), torch.randint(0, 3, (2, 3))
    before = model[1].running_mean.clone()
    bare = leaked_gradients(model, images, labels, rc.NoNoise(), clipping="none")
    assert {name: len(value) for name, value in bare.items()} == dict.fromkeys(bare, 2)
    assert torch.equal(model[1].running_mean, before)
    with pytest.raises(ValueError, match="mixes the samples"):
        leaked_gradients(model, images, labels, rc.Gaussian(1.0))
