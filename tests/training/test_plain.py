"""Without a bound the engine trains as anybody does: the same updates, and nothing recorded."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from recondite.gradients.collector import Collector
from recondite.gradients.tape import Tape
from recondite.mechanisms.gaussian import Gaussian
from recondite.mechanisms.none import NoNoise
from recondite.training import PrivacyEngine

ROWS, BATCH = 22, 8


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.GroupNorm(1, 3), nn.ReLU(), nn.Flatten(), nn.Linear(108, 4)
    )


def private(clipping, physical=None, mechanism=None):
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(ROWS, 1, 8, 8, generator=generator)
    labels = torch.randint(4, (ROWS,), generator=generator)
    loader = DataLoader(TensorDataset(images, labels), batch_size=BATCH)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    return PrivacyEngine(seed=0).make_private(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        mechanism=mechanism or NoNoise(),
        clipping=clipping,
        max_grad_norm=1e9,
        sampling="shuffled",
        physical_batch_size=physical,
    )


def trained(clipping, physical=None):
    model, optimizer, loader = private(clipping, physical)
    batches = []
    for _ in range(2):
        for images, labels in loader:
            batches.append((images, labels))
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
    return torch.cat([p.detach().flatten() for p in model.parameters()]), batches


@pytest.mark.parametrize("physical", [None, 3])
def test_updates_are_those_of_a_bound_that_bounds_nothing(physical):
    """Last batches of six and pieces of three included."""
    plain, _ = trained("none", physical)
    bounded, _ = trained("flat", physical)
    assert torch.allclose(plain, bounded, atol=1e-5)


def test_updates_are_those_of_an_ordinary_loop():
    found, batches = trained("none")
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    for images, labels in batches:
        optimizer.zero_grad()
        # Sums are divided by the constant batch size, also those of the last, smaller batch.
        total = nn.functional.cross_entropy(model(images), labels, reduction="sum")
        (total / BATCH).backward()
        optimizer.step()
    assert torch.allclose(
        found, torch.cat([p.detach().flatten() for p in model.parameters()]), atol=1e-5
    )


def test_no_layer_is_recorded_only_where_nothing_is_bounded(monkeypatch):
    """What layers store is watched in either case; the tape is what costs."""

    def recorded(model):
        model(torch.randn(2, 1, 8, 8)).sum().backward()
        return len(seen)

    seen, begin = [], Tape.begin
    monkeypatch.setattr(Tape, "begin", lambda *given: seen.append(1) or begin(*given))
    assert recorded(private("none")[0]) == 0
    assert recorded(private("flat")[0]) > 0
    with pytest.raises(ValueError, match="without a sensitivity: bound the gradients"):
        private("none", mechanism=Gaussian(1.0))


def test_an_empty_batch_and_an_unused_layer_sum_to_zero():
    model = network()
    collector = Collector(model)
    collector.detach()
    assert collector.plain_sum(4, mean=True, keep=False).tolist() == [0.0] * collector.dim
    model[0](torch.randn(2, 1, 8, 8)).sum().backward()
    total = collector.plain_sum(2, mean=False, keep=True)
    rest = sum(p.numel() for p in model[1:].parameters())
    assert bool(total[:-rest].any())
    assert not bool(total[-rest:].any())
