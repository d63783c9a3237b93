"""Stacked training equals the engine's update without noise, and its law with noise."""

import math

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from recondite.mechanisms import NoNoise
from recondite.models import build
from recondite.numerics.bessel import bessel_ratio
from recondite.training import PrivacyEngine
from recondite_papers.jobs.dirdp_networks import PaperNetwork
from recondite_papers.stacked import Plan, Stack, StackRelease, train
from recondite_papers.stacked.blocks import Partition, block_shapes
from recondite_papers.stacked.optim import Optimizer
from recondite_papers.stacked.release import Releaser
from recondite_papers.stacked.sampling import Sampler

CASES = [("mlp", (1, 16, 16)), ("mlp2", (1, 16, 16)), ("lenet", (3, 32, 32))]


def records(shape, count=12):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(count, *shape, generator=generator), torch.arange(count) % 10


def options(name):
    return {"hidden": 20} if name == "mlp2" else {}


@pytest.mark.parametrize(("name", "shape"), CASES)
@pytest.mark.parametrize("clipping", ["flat", "per-layer", "scale"])
def test_an_update_equals_the_engines(name, shape, clipping):
    """Two steps on whole, shuffled batches: 1e-5 in every weight.

    SGD, since Adam turns the rounding of a gradient that is zero into a step of full size.
    """
    images, labels = records(shape)
    ours = Stack([build(name, shape, seed=3, **options(name)) for _ in range(2)])
    release = [StackRelease("clip", clipping=clipping, norm=0.05)] * 2
    plan = Plan(2, 12, sampling="shuffled", optimizer="sgd", rate=1.0, momentum=0.9)
    train(ours, images, labels, release, plan, seed=0)

    model = build(name, shape, seed=3, **options(name))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
    engine = PrivacyEngine(seed=0)
    _, _, loader = engine.make_private(
        module=model,
        optimizer=optimizer,
        data_loader=DataLoader(TensorDataset(images, labels), batch_size=12),
        mechanism=NoNoise(clip=True),
        clipping=clipping,
        max_grad_norm=0.05,
        sampling="shuffled",
    )
    for _ in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    for run in range(2):
        state = ours.state(run)
        for key, value in model.named_parameters():
            assert torch.allclose(state[key], value.detach(), atol=1e-5), key


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_every_samples_gradient_is_autograds(name, shape):
    check_gradients([build(name, shape, seed=seed, **options(name)) for seed in (0, 1)], shape)


@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "relu"])
def test_gradients_of_every_reading_of_lenet(activation):
    network = PaperNetwork("lenet", activation, pooling="average")
    check_gradients([network.build((1, 28, 28), 10, seed) for seed in (0, 1)], (1, 28, 28))


def check_gradients(models, shape):
    images, labels = records(shape, 3)
    stack = Stack(models)
    both = images.expand(2, *images.shape)
    taps, losses = stack.taps(both, labels.expand(2, 3), torch.ones(2, 3))
    gradients = torch.cat([g.flatten(2) for g in stack.per_sample(taps)], 2)
    for run, model in enumerate(models):
        for row in range(3):
            loss = torch.nn.functional.cross_entropy(
                model(images[row : row + 1]), labels[row : row + 1]
            )
            found = torch.autograd.grad(loss, list(model.parameters()))
            flat = torch.cat([g.flatten() for g in found])
            assert torch.allclose(gradients[run, row], flat, atol=1e-5)
            assert float(losses[run, row]) == pytest.approx(float(loss.detach()), abs=1e-5)
    squared = stack.squared_norms(taps).sum(-1)
    assert torch.allclose(squared, gradients.square().sum(-1), rtol=1e-4)


@pytest.mark.parametrize("kind", ["adam", "adamw", "sgd"])
def test_optimizers_are_torchs(kind):
    weights = torch.randn(2, 7, generator=torch.Generator().manual_seed(0))
    gradients = torch.randn(4, 2, 7, generator=torch.Generator().manual_seed(1))
    mine = weights.clone()
    own = Optimizer(kind, [mine], 0.01, momentum=0.9, decay=0.1)
    theirs = torch.nn.Parameter(weights.clone())
    known = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
    more = {"momentum": 0.9} if kind == "sgd" else {}
    other = known[kind]([theirs], lr=0.01, weight_decay=0.1, **more)
    for gradient in gradients:
        own.step(gradient)
        theirs.grad = gradient.clone()
        other.step()
    assert torch.allclose(mine, theirs.detach(), atol=1e-6)


def releaser(stack, releases, batch, steps):
    return Releaser(stack, releases, batch, steps, torch.Generator().manual_seed(5))


def test_noise_on_averages_has_the_mechanisms_law():
    """Spread of Gaussian noise, mean cosine and norm of von Mises-Fisher noise."""
    shape, steps = (1, 16, 16), 60
    stack = Stack([build("mlp", shape, seed=0) for _ in range(3)])
    releases = [StackRelease("clip"), StackRelease("gaussian", 2.0), StackRelease("vmf", 3000.0)]
    draw = releaser(stack, releases, 4, steps)
    images, labels = records(shape, 4)
    taps, _ = stack.taps(images.expand(3, *images.shape), labels.expand(3, 4), torch.ones(3, 4))
    clean, spread, cosine = None, [], []
    for _ in range(steps):
        out = draw(taps, torch.ones(3, 4))
        clean = out[0]
        spread.append((out[1] - clean).std())
        assert float(out[2].norm()) == pytest.approx(1.0, abs=1e-4)
        cosine.append(float(out[2] @ clean / clean.norm()))
    assert float(torch.stack(spread).mean()) == pytest.approx(2.0 / 4, rel=0.01)
    mean = float(bessel_ratio(0.5 * stack.dim - 1.0, 3000.0))
    assert np.mean(cosine) == pytest.approx(mean, abs=4 * np.std(cosine) / math.sqrt(steps))


@pytest.mark.parametrize("blocks", ["flat", "layers", "rows", "last-axis", "elements", 7])
def test_noise_on_records_has_the_mechanisms_mean(blocks):
    """The mean of a noised record is Σ weight·A(κ)·unit block, for every partition."""
    shape = (1, 8, 8)
    stack = Stack([build("mlp", shape, seed=0)])
    kappa, repeats = 4.0, 3000
    partition = Partition(stack, [kappa], blocks, "public", torch.Generator().manual_seed(0))
    flat = torch.randn(stack.dim, generator=torch.Generator().manual_seed(2))
    flat /= flat.norm()
    pieces = flat.split([math.prod(s) for s in stack.shapes])
    rows = [p.view(s).expand(1, repeats, *s) for p, s in zip(pieces, stack.shapes, strict=True)]
    total = partition(rows, torch.ones(1, repeats))[0] / repeats
    counts = block_shapes(stack.shapes, blocks)
    joined = [flat] if blocks in ("flat", 7) else list(pieces)
    expected = []
    for piece, (count, size) in zip(joined, counts, strict=True):
        padded = torch.nn.functional.pad(piece, (0, count * size - piece.numel()))
        unit = torch.nn.functional.normalize(padded.view(count, size), dim=1)
        shrink = math.tanh(kappa) if size == 1 else float(bessel_ratio(0.5 * size - 1.0, kappa))
        scale = shrink * math.sqrt(size / stack.dim)
        expected.append((unit * scale).flatten()[: piece.numel()])
    want = torch.cat(expected)
    noise = math.sqrt(stack.dim) * math.sqrt(1 / stack.dim / repeats)
    assert float((total - want).norm()) < 1.3 * noise
    along = float(total @ want / want.norm())
    assert along == pytest.approx(float(want.norm()), abs=5 * noise / math.sqrt(stack.dim))


def test_one_record_alone_keeps_its_norm():
    stack = Stack([build("mlp", (1, 8, 8), seed=0)])
    gradients = [
        torch.randn(1, 1, *s, generator=torch.Generator().manual_seed(0)) for s in stack.shapes
    ]
    for blocks in ("flat", "layers", "rows"):
        for weights in ("public", "own"):
            partition = Partition(stack, [5.0], blocks, weights, torch.Generator().manual_seed(0))
            out = partition(gradients, torch.ones(1, 1))
            assert float(out.norm()) == pytest.approx(1.0, abs=1e-4)


def test_clipped_weights_keep_short_gradients_short():
    stack = Stack([build("mlp", (1, 8, 8), seed=0)])
    rows = [torch.randn(1, 1, *s, generator=torch.Generator().manual_seed(0)) for s in stack.shapes]
    norm = float(torch.cat([g.flatten() for g in rows]).norm())
    for size, expected in ((0.3, 0.3), (7.0, 1.0)):
        partition = Partition(stack, [5.0], "rows", "clipped", torch.Generator().manual_seed(0))
        out = partition([g * size / norm for g in rows], torch.ones(1, 1))
        assert float(out.norm()) == pytest.approx(expected, abs=1e-4)


def test_flipped_signs_are_the_elements_partition():
    """The short way for single coordinates: exact without noise, the mechanism's mean with it."""
    shape, repeats = (3, 32, 32), 400
    images, labels = records(shape, 1)
    stack = Stack([build("lenet", shape, seed=0)])
    both = images.expand(1, repeats, *shape), labels.expand(1, repeats)
    taps, _ = stack.taps(*both, torch.ones(1, repeats))
    record = torch.cat([g[0, 0].flatten() for g in stack.per_sample(taps)])
    clipped = record / max(1.0, float(record.norm()))
    for kappa, tolerance in ((50.0, 1e-5), (1.0, None)):
        release = StackRelease("directional", kappa, blocks="elements", weights="clipped")
        out = releaser(stack, [release], repeats, 1)(taps, torch.ones(1, repeats))[0]
        want = math.tanh(kappa) * clipped
        spread = float(clipped.norm()) / math.sqrt(repeats)
        assert float((out - want).norm()) < (tolerance or 1.1 * spread)
        along = float(out @ clipped / clipped.norm() ** 2)
        assert along == pytest.approx(math.tanh(kappa), abs=0.02)


@pytest.mark.parametrize("name", ["mlp", "lenet"])
def test_single_entries_are_those_of_the_whole_gradients(name):
    shape = (3, 32, 32) if name == "lenet" else (1, 8, 8)
    images, labels = records(shape, 5)
    stack = Stack([build(name, shape, seed=seed) for seed in (0, 1)])
    taps, _ = stack.taps(images.expand(2, 5, *shape), labels.expand(2, 5), torch.ones(2, 5))
    whole = torch.cat([g.flatten(2) for g in stack.per_sample(taps)], 2)
    generator = torch.Generator().manual_seed(0)
    sample = torch.randint(5, (2000,), generator=generator)
    coordinate = torch.randint(stack.dim, (2000,), generator=generator)
    ends = torch.tensor([0, stack.dim - 1])
    sample, coordinate = torch.cat([sample, ends % 5]), torch.cat([coordinate, ends])
    for run in (0, 1):
        found = stack.entries(taps, run, sample, coordinate)
        torch.testing.assert_close(found, whole[run, sample, coordinate], rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("chance", [1e-3, 2e-2])
def test_rare_places_are_independent_and_as_frequent_as_said(chance):
    """Counts have the binomial law's mean and variance; no number comes twice."""
    stack = Stack([build("mlp", (1, 8, 8), seed=0)])
    partition = Partition(stack, [5.0], "elements", "clipped", torch.Generator().manual_seed(3))
    count, repeats = 5000, 2000
    drawn = [partition._places(count, chance) for _ in range(repeats)]
    assert all(len(each) == len(each.unique()) for each in drawn)
    sizes = np.array([len(each) for each in drawn])
    spread = math.sqrt(count * chance * (1 - chance))
    assert sizes.mean() == pytest.approx(count * chance, abs=5 * spread / math.sqrt(repeats))
    assert sizes.std() == pytest.approx(spread, rel=0.1)
    every = np.bincount(np.concatenate([each.numpy() // 500 for each in drawn]), minlength=10)
    assert np.abs(every - every.mean()).max() < 5 * math.sqrt(every.mean())
    assert every.shape == (10,)


def test_drawing_flips_has_the_law_of_drawing_signs(monkeypatch):
    """κ = 1 beside κ = 5: each run has its own mean; both ways have the same spread."""
    shape, repeats, kappa = (1, 8, 8), 300, 2.0
    images, labels = records(shape, 1)
    stack = Stack([build("mlp", shape, seed=0) for _ in range(2)])
    taps, _ = stack.taps(
        images.expand(2, repeats, *shape), labels.expand(2, repeats), torch.ones(2, repeats)
    )
    factors = torch.full((2, repeats), 0.5)
    record = torch.cat([g[0, 0].flatten() for g in stack.per_sample(taps)]) * 0.5
    for limit in (1e-3, 0.1):  # every sign is drawn, or flips are in the second run
        monkeypatch.setattr("recondite_papers.stacked.blocks._SELDOM", limit)
        generator = torch.Generator().manual_seed(0)
        partition = Partition(stack, [1.0, kappa], "elements", "clipped", generator)
        assert list(partition.seldom) == ([] if limit < 0.01 else [1])
        out = partition.flipped(stack, taps, factors)
        for run, value in enumerate((1.0, kappa)):
            off = out[run] - repeats * math.tanh(value) * record
            spread = float(record.norm()) * math.sqrt(repeats * (1 - math.tanh(value) ** 2))
            assert 0.8 * spread < float(off.norm()) < 1.2 * spread


def test_memory_is_bounded_without_changing_the_sum(monkeypatch):
    images, labels = records((1, 8, 8), 6)
    stack = Stack([build("mlp", (1, 8, 8), seed=0)])
    taps, _ = stack.taps(images[None], labels[None], torch.ones(1, 6))
    release = StackRelease("directional", 1e9, blocks="rows", weights="clipped")
    whole = releaser(stack, [release], 6, 1)(taps, torch.ones(1, 6))
    monkeypatch.setattr("recondite_papers.stacked.release._NUMBERS", 2 * stack.dim)
    parts = releaser(stack, [release], 6, 1)(taps, torch.ones(1, 6))
    assert float((whole - parts).norm()) < 1e-3 * float(whole.norm())


def test_runs_see_their_own_subset():
    """A run whose subset is one class learns nothing else."""
    images, labels = records((1, 8, 8), 40)
    stack = Stack([build("mlp", (1, 8, 8), seed=0) for _ in range(2)])
    subsets = torch.stack([torch.arange(40)[labels == k] for k in (2, 7)])
    plan = Plan(60, 4, "shuffled", "adam", 0.02)
    train(
        stack,
        images,
        labels,
        [StackRelease("none", clipping="none")] * 2,
        plan,
        seed=0,
        subsets=subsets,
    )
    logits = stack.forward(images.expand(2, *images.shape))[0]
    assert [set(row.tolist()) for row in logits.argmax(-1)] == [{2}, {7}]


def test_a_tiny_gradient_counts_like_any_other():
    """Norms of 1e-30, whose squares underflow, neither vanish nor blow up."""
    stack = Stack([build("mlp", (1, 8, 8), seed=0)])
    generator = torch.Generator().manual_seed(0)
    rows = [torch.randn(1, 2, *s, generator=generator) for s in stack.shapes]
    for row in rows:
        row[:, 1] = row[:, 0] * 1e-30
    for weights in ("public", "own"):
        partition = Partition(stack, [1e9], "layers", weights, torch.Generator().manual_seed(0))
        first = partition(rows, torch.tensor([[1.0, 0.0]]))
        second = partition(rows, torch.tensor([[0.0, 1.0]]))
        assert float((first - second).norm()) < 1e-2
        assert float(first.norm()) == pytest.approx(1.0, abs=1e-3)


def test_poisson_batches_are_draws_without_replacement():
    sampler = Sampler("poisson", 400, 50, 10, torch.Generator().manual_seed(0))
    sizes, counts = [], np.zeros(50)
    for _ in range(20):
        index, mask = sampler.draw()
        for row, kept in zip(index, mask.bool(), strict=True):
            chosen = row[kept].tolist()
            assert len(set(chosen)) == len(chosen)
            sizes.append(len(chosen))
            counts[chosen] += 1
    assert np.mean(sizes) == pytest.approx(10, abs=0.15)
    assert np.var(sizes) == pytest.approx(8, rel=0.08)
    assert np.all(abs(counts / 8000 - 0.2) < 0.02)


def test_shuffled_batches_cover_an_epoch():
    sampler = Sampler("shuffled", 2, 10, 4, torch.Generator().manual_seed(0))
    seen = [[], []]
    for _ in range(sampler.per_epoch):
        index, mask = sampler.draw()
        for run in range(2):
            seen[run] += index[run][mask[run].bool()].tolist()
    assert [sorted(rows) for rows in seen] == [list(range(10))] * 2


def test_a_stack_refuses_what_it_cannot_hold():
    with pytest.raises(ValueError, match="train it by itself"):
        Stack([torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.GELU())])
