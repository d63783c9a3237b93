"""Which records a private loader draws from: those of the person's loader, as its data set says."""

import pytest
import torch
from torch import nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)
from torch.utils.data.distributed import DistributedSampler

import recondite as rc
from recondite.training import PrivacyEngine, PrivateLoader

torch.set_num_threads(1)
ROWS = 60


def numbered():
    return TensorDataset(torch.arange(ROWS).float()[:, None], torch.arange(ROWS) % 2)


@pytest.mark.parametrize("sampling", ["poisson", "shuffled", "fixed-size"])
def test_a_subset_sampler_restricts_the_records(sampling):
    chosen = [3, 7, 11, 20, 21, 22, 50, 59]
    loader = PrivateLoader(
        DataLoader(numbered(), batch_size=4, sampler=SubsetRandomSampler(chosen)), sampling=sampling
    )
    assert loader.records == 8
    assert loader.rate == 0.5
    seen = {int(x) for _ in range(20) for inputs, _ in loader for x in inputs}
    assert seen == set(chosen)


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 4, "sampler": SubsetRandomSampler([1, 2, 2, 3])},
        {"batch_size": 4, "sampler": WeightedRandomSampler([1.0] * ROWS, ROWS)},
        {"batch_size": 4, "sampler": RandomSampler(range(ROWS), replacement=True)},
        {"batch_size": 4, "sampler": RandomSampler(range(ROWS), num_samples=7)},
        {"batch_size": 4, "sampler": SequentialSampler(range(30))},
        {"batch_size": 4, "sampler": DistributedSampler(range(ROWS), num_replicas=2, rank=0)},
        {"batch_size": 4, "sampler": [1, 2, 3]},
        {"batch_sampler": BatchSampler(SubsetRandomSampler([1, 2, 3]), 2, drop_last=False)},
    ],
)
def test_other_samplers_are_refused_in_one_line(options):
    with pytest.raises(ValueError, match="sampler of data_loader") as caught:
        PrivateLoader(DataLoader(numbered(), **options), batch_size=4)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("shuffle", [False, True])
def test_the_defaults_pass(shuffle):
    loader = PrivateLoader(DataLoader(numbered(), batch_size=4, shuffle=shuffle))
    assert loader.records == ROWS


class Masked(TensorDataset):
    """Hides the input of every record."""

    def __getitem__(self, index):
        inputs, label = super().__getitem__(index)
        return torch.zeros_like(inputs), label


class Pair:
    """Neither is this one nothing but its tensors."""

    tensors = (torch.ones(ROWS, 1),)

    def __len__(self):
        return ROWS

    def __getitem__(self, index):
        return torch.zeros(1)


def test_a_data_sets_own_records_are_never_bypassed():
    for inputs, _ in PrivateLoader(DataLoader(Masked(*numbered().tensors), batch_size=10)):
        assert not inputs.any()
    for inputs in PrivateLoader(DataLoader(Pair(), batch_size=10)):
        assert not inputs.any()


def test_the_account_says_that_the_number_of_records_is_public():
    for sampling in ("poisson", "fixed-size"):
        net = nn.Linear(1, 2)
        engine = PrivacyEngine()
        _, optimizer, loader = engine.make_private(
            module=net,
            optimizer=torch.optim.SGD(net.parameters(), lr=0.1),
            data_loader=DataLoader(numbered(), batch_size=6),
            mechanism=rc.Gaussian(1.0),
            sampling=sampling,
        )
        inputs, labels = next(iter(loader))
        nn.functional.cross_entropy(net(inputs), labels).backward()
        optimizer.step()
        lines = engine.report(1e-3).assumptions
        public = any("number of records is public" in line for line in lines)
        assert public == (sampling == "poisson")
        assert any("each record's own loss" in line for line in lines)
