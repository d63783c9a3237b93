"""Random allocation: every record once an epoch, in a batch that is drawn for it alone."""

import json
import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import recondite as rc
from recondite.numerics.secure import SecureGenerator
from recondite.training import BudgetSpentError, PrivacyEngine, PrivateLoader

torch.set_num_threads(1)
ROWS, BATCH = 40, 8  # five batches


def loader(rows=ROWS, batch=BATCH, **options):
    source = DataLoader(TensorDataset(torch.arange(rows)), batch_size=batch)
    return PrivateLoader(source, sampling="allocation", **options)


def places(epochs, made):
    """The batch of every record (columns) in every epoch (rows)."""
    found = np.full((epochs, made.records), -1)
    for epoch in range(epochs):
        number = 0
        for (rows,) in made:
            if made.draw.keep:
                assert rows.tolist() == made.draw.records
                assert (found[epoch, rows] == -1).all(), "a record that is in two batches"
                found[epoch, rows] = number
            number += made.draw.last
        assert number == made.batches
    assert (found >= 0).all(), "a record that is in no batch"
    return found


@pytest.mark.parametrize("options", [{"seed": 0}, {"secure": True}, {}])
@pytest.mark.parametrize("physical", [None, 3])
def test_every_record_is_in_one_batch_of_every_epoch(options, physical):
    made = loader(physical_batch_size=physical, **options)
    found = places(3, made)
    assert not np.array_equal(found[0], found[1])
    assert made.batches == 5


@pytest.mark.parametrize("options", [{"seed": 1}, {"secure": True}])
def test_batches_are_uniform_and_independent(options):
    """Chi-square tests, which alarm at 1e-7 at random; 2000 epochs would show a share off by 1%."""
    found = places(2000, loader(rows=12, batch=3, **options))
    counts = np.array([np.bincount(column, minlength=4) for column in found.T])
    assert stats.chisquare(counts.ravel()).pvalue > 1e-7
    pairs = np.zeros((4, 4))
    for one in range(0, 12, 2):
        np.add.at(pairs, (found[:, one], found[:, one + 1]), 1)
    assert stats.chisquare(pairs.ravel()).pvalue > 1e-7
    # One epoch says nothing of the next.
    again = np.zeros((4, 4))
    np.add.at(again, (found[:-1:2].ravel(), found[1::2].ravel()), 1)
    assert stats.chisquare(again.ravel()).pvalue > 1e-7
    # Sizes are binomial: a permutation cut into batches would have no spread.
    sizes = np.array([np.bincount(row, minlength=4) for row in found])
    assert sizes.var() == pytest.approx(12 * 0.25 * 0.75, rel=0.15)


def test_a_seed_repeats_the_epochs():
    assert np.array_equal(places(2, loader(seed=3)), places(2, loader(seed=3)))


@pytest.mark.parametrize("high", [1, 2, 3, 7, 1000])
def test_secure_integers_are_uniform(high):
    """Alarms at 1e-7 at random."""
    found = SecureGenerator().integers(high, size=20_000)
    assert found.dtype == np.int64
    assert found.min() >= 0
    assert found.max() < high
    if high > 1:
        assert stats.chisquare(np.bincount(found, minlength=high)).pvalue > 1e-7


def test_secure_integers_reject_what_would_favour_small_numbers(monkeypatch):
    words = iter([[2**64 - 1, 5], [2**64 - 1], [4]])
    made = SecureGenerator()
    monkeypatch.setattr(made, "words", lambda count: np.array(next(words), dtype=np.uint64))
    assert made.integers(3, size=2).tolist() == [4 % 3, 5 % 3]


def private(mechanism=None, rows=ROWS, engine=None, **options):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3))
    data = TensorDataset(torch.randn(rows, 6), torch.arange(rows) % 3)
    engine = engine or PrivacyEngine()
    made = engine.make_private(
        module=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=0.1),
        data_loader=DataLoader(data, batch_size=BATCH),
        mechanism=mechanism or rc.Gaussian(1.5),
        sampling="allocation",
        **options,
    )
    return (engine, *made)


def train(net, optimizer, batches, most=math.inf):
    taken = 0
    for inputs, labels in batches:
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(inputs), labels).backward()
        optimizer.step()
        taken += 1
        if taken >= most:
            break
    return taken


def test_the_account_is_that_of_the_schedule():
    engine, net, optimizer, made = private()
    for _ in range(2):
        train(net, optimizer, made)
    assert engine.steps == 10
    schedule = rc.RandomAllocation(5, 2)
    assert engine.schedule() == schedule
    assert engine.get_epsilon(1e-3) == rc.epsilon(rc.Gaussian(1.5, dim=43), schedule, 1e-3)
    report = engine.report(1e-3)
    assert report.epsilon["pld"] == engine.get_epsilon(1e-3)
    assert "the number of records is public: it gives the number of batches" in report.assumptions
    assert engine.state_dict()["sampling"] == "allocation"


def test_an_epoch_that_was_broken_off_counts_whole():
    engine, net, optimizer, made = private()
    for _ in range(3):
        assert train(net, optimizer, made, most=2) == 2
    assert engine.steps == 6
    assert engine.schedule() == rc.RandomAllocation(5, 3)
    assert engine.get_epsilon(1e-3) == rc.epsilon(engine.mechanism, rc.RandomAllocation(5, 3), 1e-3)


def test_a_budget_ends_training_between_epochs():
    probe = private()[0]
    limit = rc.epsilon(probe.mechanism, rc.RandomAllocation(5, 2), 1e-3)
    engine = PrivacyEngine(max_epsilon=limit * 1.001, delta=1e-3)
    engine, net, optimizer, made = private(engine=engine)
    assert [train(net, optimizer, made) for _ in range(3)] == [5, 5, 0]
    assert engine.get_epsilon(1e-3) <= limit * 1.001
    with pytest.raises(BudgetSpentError):
        optimizer.step()


def test_empty_batches_are_released_and_counted():
    engine, net, optimizer, made = private(rows=9, batch_size=1, engine=PrivacyEngine(seed=0))
    empty = 0
    for inputs, labels in made:
        before = torch.cat([p.detach().reshape(-1).clone() for p in net.parameters()])
        train(net, optimizer, [(inputs, labels)])
        after = torch.cat([p.detach().reshape(-1) for p in net.parameters()])
        if not made.draw.keep:
            empty += 1
            assert not torch.equal(before, after)
    assert empty > 0
    assert engine.steps == 9


def test_the_sum_of_a_large_batch_is_projected():
    engine, net, optimizer, made = private(
        rc.NoNoise(clip=True), engine=PrivacyEngine(seed=0), max_batch_size=2, max_grad_norm=1e-3
    )
    seen = []
    engine.observe(seen.append)
    train(net, optimizer, made)
    assert max(len(turn.records) for turn in seen) > 2
    assert max(float(turn.total.norm()) for turn in seen) <= 2.0


def test_the_largest_batch_is_as_rare_as_for_poisson_batches():
    made = loader(rows=1000, batch=100)
    assert 100 < made.max_batch_size < 250
    assert stats.binom.sf(made.max_batch_size, 1000, 0.1) < 1e-12


def test_pieces_of_random_batches_have_no_length():
    assert len(loader()) == 5
    with pytest.raises(TypeError, match="pieces of allocation batches is random"):
        len(loader(physical_batch_size=2))


def test_a_target_is_met_with_allocation():
    engine = PrivacyEngine()
    net = nn.Linear(6, 3)
    data = TensorDataset(torch.randn(ROWS, 6), torch.arange(ROWS) % 3)
    _, optimizer, made = engine.make_private_with_epsilon(
        target_epsilon=3.0,
        target_delta=1e-3,
        epochs=2,
        mechanism=rc.Gaussian(1.0),
        module=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=0.1),
        data_loader=DataLoader(data, batch_size=ROWS // 2),
        sampling="allocation",
    )
    for _ in range(2):
        train(net, optimizer, made)
    assert 2.9 < engine.get_epsilon(1e-3) <= 3.0


def test_steps_of_other_samplings_are_not_taken_over():
    engine, net, optimizer, made = private()
    train(net, optimizer, made)
    engine.detach()
    other = PrivacyEngine()
    other.make_private(
        module=net,
        optimizer=optimizer,
        data_loader=DataLoader(made.dataset, batch_size=BATCH),
        mechanism=rc.Gaussian(1.5),
    )
    with pytest.raises(ValueError, match="sampling='allocation'"):
        other.load_state_dict(engine.state_dict())


def test_a_command_and_a_study_know_it(capsys):
    from recondite.cli.main import run
    from recondite.studies.study import Training

    assert Training(sampling="allocation").sampling == "allocation"
    words = "train --data digits --model mlp --defence gaussian --noise-multiplier 2"
    words += " --sampling allocation"
    assert run([*words.split(), "--batch-size", "600", "--epochs", "2", "--json"]) == 0
    schedule = json.loads(capsys.readouterr().out)["privacy"]["schedule"]
    assert schedule == {**schedule, "sampling": "allocation", "epochs": 2, "batches": 3}
