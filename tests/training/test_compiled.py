"""Steps that take their own pass over padded batches: what the eager step does, nothing more."""

import pytest
import torch
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import recondite as rc
from recondite.gradients.clipping import Clip
from recondite.gradients.collector import Collector
from recondite.training import PrivacyEngine
from recondite.training.compiled import CompiledPass
from recondite.training.sampling import PrivateLoader, fixed_size


def network(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(4 * 36, 8),
        torch.nn.ReLU(),
        torch.nn.Linear(8, 3),
    )


def records(count=40, seed=1):
    torch.manual_seed(seed)
    return TensorDataset(torch.randn(count, 1, 6, 6), torch.randint(0, 3, (count,)))


def trained(compiled, mechanism=None, sampling="shuffled", steps=6, data=None, **options):
    model = network()
    engine = PrivacyEngine(seed=3)
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9),
        data_loader=DataLoader(data or records(), batch_size=10),
        mechanism=mechanism or rc.Gaussian(0.3),
        sampling=sampling,
        compile=functional.cross_entropy if compiled else None,
        **options,
    )
    taken = 0
    while taken < steps:
        for batch in loader:
            if not compiled:
                x, y = batch
                optimizer.zero_grad()
                functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            taken += loader.draw.last
            if taken == steps:
                break
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()]), engine


@pytest.mark.parametrize("mechanism", [rc.Gaussian(0.3), rc.VonMisesFisher(100.0)])
@pytest.mark.parametrize("clipping", ["flat", "per-layer", "automatic"])
def test_a_compiled_step_is_the_eager_one(mechanism, clipping):
    eager, one = trained(False, mechanism, clipping=clipping, max_grad_norm=0.1)
    compiled, other = trained(True, mechanism, clipping=clipping, max_grad_norm=0.1)
    torch.testing.assert_close(compiled, eager, rtol=1e-4, atol=1e-6)
    assert one.get_epsilon(1e-5) == other.get_epsilon(1e-5)
    assert other.loss.ndim == 0
    assert one.loss is None


def rows_sum(x, y, count, rows=16, bound=0.1, spoil=None):
    """The bounded sum of a padded batch, and of its records alone."""
    model = network()
    collector = Collector(model)
    pad = rows - count
    inputs = torch.cat([x, x[:1].expand(pad, -1, -1, -1)])
    if spoil is not None:
        inputs[count:] = spoil
    labels = torch.cat([y, y[:1].expand(pad)])
    run = CompiledPass(model, functional.cross_entropy, collector, Clip(bound), rows, mean=True)
    made = run((inputs, labels), count).clone()
    collector.tape.clear()
    functional.cross_entropy(model(x), y).backward()
    return made, collector.bounded_sum(Clip(bound), count, mean=True, keep=True)


@pytest.mark.parametrize("spoil", [None, 1e30, float("inf"), float("nan")])
def test_what_fills_up_a_batch_has_weight_zero_whatever_it_is(spoil):
    x, y = records(11).tensors
    made, wanted = rows_sum(x, y, 11, spoil=spoil)
    torch.testing.assert_close(made, wanted, rtol=1e-4, atol=1e-7)


def test_an_empty_batch_is_a_sum_of_exactly_zero():
    x, y = records(5).tensors
    model = network()
    run = CompiledPass(model, functional.cross_entropy, Collector(model), Clip(1.0), 5, mean=True)
    assert not run((x, y), 0).any()


def test_norms_that_nobody_looks_at_are_upper_bounds_at_every_scale():
    x, y = records(11).tensors
    scales = torch.logspace(-30, 15, 11).reshape(-1, 1, 1, 1)
    for scale in (scales, scales.flip(0)):
        for place in range(11):
            one = (x * scale)[place : place + 1]
            made, _ = rows_sum(one, y[place : place + 1], 1, rows=2)
            assert float(made.double().norm()) <= 0.1


def test_records_that_are_not_finite_are_left_out_alone():
    x, y = records(11).tensors
    x = x.clone()
    x[3] = float("nan")
    made, wanted = rows_sum(x, y, 11)
    torch.testing.assert_close(made, wanted, rtol=1e-4, atol=1e-7)
    assert torch.isfinite(made).all()


@pytest.mark.parametrize("sampling", ["poisson", "allocation", "shuffled", "fixed-size"])
def test_no_record_is_lost_or_counted_twice_by_padding(sampling):
    data = DataLoader(records(100), batch_size=10)
    plain = PrivateLoader(data, sampling=sampling, seed=1)
    padded = PrivateLoader(data, sampling=sampling, seed=1, padded=True, physical_batch_size=7)
    rows = []
    for indices, draw in padded._pieces(padded._batches()):
        assert len(indices) == draw.rows == 7
        assert indices[: len(draw.records)] == draw.records
        rows.append(draw)
    assert sum(draw.last for draw in rows) == plain.batches
    if sampling == "shuffled":
        assert sorted(r for draw in rows for r in draw.records) == list(range(100))
    if sampling == "fixed-size":
        assert [len(draw.records) for draw in rows] == [7, 3] * 10


def test_batches_that_overflow_are_released_once_and_whole():
    seen = []
    model = network()
    engine = PrivacyEngine(seed=3)
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
        data_loader=DataLoader(records(), batch_size=10),
        mechanism=rc.Gaussian(0.3),
        physical_batch_size=4,
        compile=functional.cross_entropy,
    )
    engine.observe(lambda turn: seen.append((len(turn.records), float(turn.total.norm()))))
    for _ in loader:
        optimizer.step()
    assert engine.steps == len(seen) == loader.batches
    assert max(count for count, _ in seen) > 4
    assert all(size <= count * (1 + 1e-6) for count, size in seen)


def test_room_for_most_batches():
    assert fixed_size(128, 10_000, varies=True) == 152
    assert fixed_size(128, 130, varies=True) == 130
    assert fixed_size(128, 10_000, varies=False) == 128


def test_what_cannot_be_compiled_is_refused_in_one_line():
    with pytest.raises(ValueError, match="^compile is not for directional"):
        trained(True, rc.Directional(10.0), sampling="fixed-size")
    with pytest.raises(ValueError, match="^compile needs records that are bounded"):
        trained(True, rc.VonMisesFisher(10.0), clipping="none")
    with pytest.raises(ValueError, match="^compile needs batches of inputs and labels"):
        trained(True, data=TensorDataset(torch.randn(40, 1, 6, 6)))


def test_a_compiled_step_in_evaluation_mode_is_refused():
    model = network()
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
        data_loader=DataLoader(records(), batch_size=10),
        mechanism=rc.Gaussian(0.3),
        compile=functional.cross_entropy,
    )
    next(iter(loader))
    model.eval()
    with pytest.raises(ValueError, match="^module is in evaluation mode"):
        optimizer.step()
