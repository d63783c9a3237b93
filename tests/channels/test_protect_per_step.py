"""`per_step` noise: fresh for every use, and every use counted."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, Subset, TensorDataset

from recondite.channels import BudgetSpentError, NaturalChannel, Spectrum
from recondite.channels.protected import in_worker

COUNT = 20
X = torch.from_numpy(np.random.default_rng(0).standard_normal((COUNT, 2, 3))).float()
Y = torch.arange(COUNT)
SET = TensorDataset(X, Y)


@pytest.fixture
def natural(build, build_spectrum):
    return build("natural", build_spectrum("exact"), 3.0)


def features(loader):
    return torch.cat([batch[0] for batch in loader])


@pytest.mark.parametrize("workers", [0, 2])
def test_every_use_is_fresh_and_counted_outside_the_workers(natural, workers):
    loader = DataLoader(SET, batch_size=5, num_workers=workers)
    protected = natural.protect(loader, "per_step")
    seen = [features(protected) for _ in range(2)]
    assert protected.uses == 2
    noise = torch.cat(seen) - torch.cat([X, X])
    assert len(torch.unique(noise)) == noise.numel()
    info = protected.information()
    assert info["per_record"] == natural.information(2, "per_step")
    assert info["guarantee"] is protected.guarantee is True


def test_global_seeds_do_not_matter(natural):
    seen = []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002
        torch.manual_seed(0)
        seen.append(features(natural.protect(DataLoader(SET, batch_size=5), "per_step")))
    assert not (seen[0] == seen[1]).any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_noise_has_the_covariance_of_the_channel(name, dtype, build, build_spectrum):
    channel = build(name, build_spectrum("gram"), 3.0)
    loader = DataLoader(torch.zeros(20_000, 6, dtype=dtype), batch_size=3_000)
    noise = torch.cat(list(channel.protect(loader, "per_step"))).double().numpy()
    white = noise @ np.linalg.cholesky(np.linalg.inv(channel.noise.covariance()))
    bound = 6 / math.sqrt(len(white))
    assert np.abs(white.mean(axis=0)).max() < bound
    assert np.abs(white.T @ white / len(white) - np.eye(6)).max() < bound * math.sqrt(2)
    assert np.abs(white[:-1].T @ white[1:] / (len(white) - 1)).max() < bound


def test_kept_or_not(natural):
    for options in ({"cache": True}, {"cache": False}, {"transform": lambda x: x.double()}):
        protected = natural.protect(DataLoader(SET, batch_size=6), "per_step", **options)
        for _ in range(2):
            noise = features(protected) - X
            assert len(torch.unique(noise)) == noise.numel()
        assert protected.uses == 2
        assert torch.equal(X, SET.tensors[0])


def test_a_data_set_counts_each_access(natural):
    protected = natural.protect(SET, "per_step")
    assert protected.uses == 0
    assert not torch.equal(protected[3][0], protected[-17][0])
    assert protected.uses == 2
    list(protected)
    assert protected.uses == 3
    # Through a loader without workers, or a subset, as well.
    list(DataLoader(protected, batch_size=4))
    list(DataLoader(Subset(protected, [3, 3]), batch_size=4))
    assert protected.uses == 6


def test_workers_that_nobody_counts_for_are_refused(natural, monkeypatch):
    protected = natural.protect(DataLoader(SET, batch_size=4), "per_step")
    # Without workers the set of a protected loader counts for itself.
    assert features(DataLoader(protected.dataset, batch_size=4)).shape == X.shape
    assert protected.uses == 1
    monkeypatch.setattr("recondite.channels.per_step.in_worker", lambda: True)
    with pytest.raises(ValueError, match="cannot be counted in a worker"):
        list(DataLoader(protected.dataset, batch_size=4))
    assert protected.uses == 1


def test_a_worker_knows_that_it_is_one():
    def collate(_):
        return in_worker()

    assert list(DataLoader(SET, batch_size=COUNT, collate_fn=collate, num_workers=1)) == [True]
    assert list(DataLoader(SET, batch_size=COUNT, collate_fn=collate)) == [False]


def test_a_record_that_a_sampler_repeats_counts_each_time(natural):
    sampler = RandomSampler(SET, replacement=True, num_samples=400)
    protected = natural.protect(DataLoader(SET, batch_size=40, sampler=sampler), "per_step")
    labels = torch.cat([y for _, y in protected])
    assert protected.uses == int(torch.bincount(labels).max())


@pytest.mark.parametrize("workers", [0, 2])
def test_the_budget_ends_an_epoch_in_time(natural, workers):
    budget = natural.information(2, "per_step")
    loader = DataLoader(SET, batch_size=5, num_workers=workers)
    protected = natural.protect(loader, "per_step", total_information=budget)
    with pytest.warns(UserWarning, match="is spent: 2 use") as caught:
        batches = [len(list(protected)) for _ in range(4)]
    assert batches == [4, 4, 0, 0]
    assert protected.budget_spent
    assert protected.uses == 2
    assert protected.information()["per_record"] <= budget
    assert len([one for one in caught if "spent" in str(one.message)]) == 1
    assert "\n" not in str(caught[0].message)


def test_the_budget_can_end_in_the_middle_of_an_epoch(natural):
    sampler = [[0, 1], [1, 2], [1, 3], [3, 4]]
    budget = natural.information(2, "per_step")
    loader = DataLoader(SET, batch_sampler=sampler)
    protected = natural.protect(loader, "per_step", total_information=budget)
    with pytest.warns(UserWarning, match="spent"):
        assert [y.tolist() for _, y in protected] == [[0, 1], [1, 2]]


def test_a_data_set_raises_where_the_budget_is_spent(natural):
    protected = natural.protect(SET, "per_step", total_information=3.0)
    _ = protected[0]
    with pytest.warns(UserWarning, match="spent"), pytest.raises(BudgetSpentError, match="spent"):
        _ = protected[0]
    assert protected.uses == 1


def test_resumed_runs_add_up(natural, tmp_path):
    """Killed after the checkpoint: the state knows what came before, the file knows all."""
    loader = DataLoader(SET, batch_size=5)
    killed = natural.protect(loader, "per_step", ledger=tmp_path / "uses")
    list(killed)
    state = killed.state_dict()
    served_after_the_checkpoint = iter(killed)
    for _ in range(3):
        next(served_after_the_checkpoint)
    by_state = natural.protect(loader, "per_step")
    by_state.load_state_dict(state)
    assert by_state.uses == 1
    by_file = natural.protect(loader, "per_step", ledger=tmp_path / "uses")
    by_file.load_state_dict(state)
    assert by_file.uses == killed.uses == 2
    list(by_state)
    list(by_file)
    assert by_state.uses == 2
    assert by_file.uses == 3


def test_a_batch_counts_before_it_is_served(natural):
    ledgers = []

    def collate(items):
        ledgers.append(protected.uses)
        return items

    protected = natural.protect(DataLoader(SET, batch_size=5, collate_fn=collate), "per_step")
    next(iter(protected))
    assert ledgers == [1]
    # Workers fetch ahead: those batches count though nobody took them.
    ahead = natural.protect(DataLoader(SET, batch_size=5, num_workers=1), "per_step")
    iterator = iter(ahead)
    next(iterator)
    counts = sum(next(iter(ahead.state_dict()["laws"].values()))["served"].popitem()[1])
    assert counts >= 10
    del iterator


def test_a_seed_makes_a_simulation(natural):
    def simulated(seed, workers=0, skip=0):
        loader = DataLoader(SET, batch_size=5, num_workers=workers)
        protected = natural.protect(loader, "per_step", seed=seed)
        epochs = torch.stack([features(protected) for _ in range(2)])
        assert not protected.guarantee
        assert "simulation" in protected.note
        assert "simulation" in protected.information()["note"]
        return epochs

    base = simulated(1)
    assert torch.equal(base, simulated(1))
    assert torch.equal(base, simulated(1, workers=2))
    assert not (base == simulated(2)).any()
    assert not (base[0] == base[1]).any()
    # A resumed simulation goes on where it stopped.
    loader = DataLoader(SET, batch_size=5)
    first, second = (natural.protect(loader, "per_step", seed=1) for _ in range(2))
    features(first)
    second.load_state_dict(first.state_dict())
    assert torch.equal(features(second), base[1])


def test_poisson_batches_of_opacus(natural):
    data_loader = pytest.importorskip("opacus.data_loader")
    plain = DataLoader(SET, batch_size=1)
    poisson = data_loader.DPDataLoader.from_data_loader(plain)
    protected = natural.protect(poisson, "per_step")
    assert isinstance(protected, data_loader.DPDataLoader)
    sizes = [len(x) for x, _ in protected]
    assert len(sizes) == len(protected) == COUNT
    assert 0 in sizes
    state = protected.state_dict()
    (law,) = state["laws"].values()
    assert sum(sum(counts) for counts in law["served"].values()) == sum(sizes)


def test_batch_sampler_object(natural):
    sampler = BatchSampler(RandomSampler(SET), 7, drop_last=True)
    protected = natural.protect(DataLoader(SET, batch_sampler=sampler), "per_step")
    assert len(protected) == 2
    assert sorted(len(x) for x, _ in protected) == [7, 7]
    assert protected.batch_sampler is sampler


def test_large_records():
    dim = 150_528
    channel = NaturalChannel.from_spectrum(Spectrum.from_eigenvalues(np.ones(dim)), 100.0)
    data = torch.zeros(3, 3, 224, 224)
    (batch,) = channel.protect(DataLoader(data, batch_size=3), "per_step")
    assert float((batch**2).mean()) == pytest.approx(channel.noise_variance, rel=0.02)
