"""Batches whose rows are made of several records are refused before anything is trained."""

import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset, default_collate

from recondite import Gaussian, PrivacyEngine
from recondite.mechanisms import NoNoise
from recondite.training.collating import refuse_mixing

RECORDS = [(torch.randn(5) + at, at % 3) for at in range(12)]


def mixup(records):
    x, y = default_collate(records)
    share = torch.distributions.Beta(0.4, 0.4).sample()
    y = functional.one_hot(y, 3).float()
    return share * x + (1 - share) * x.roll(1, 0), share * y + (1 - share) * y.roll(1, 0)


def shuffled_mixup(records):
    x, y = default_collate(records)
    order = np.random.permutation(len(x))  # noqa: NPY002 - as such code does
    return {"x": 0.7 * x + 0.3 * x[order], "y": y}


def sometimes_cut(records):
    x, y = default_collate(records)
    if random.random() < 0.8:
        x[:, 1:3] = x.flip(0)[:, 1:3].clone()
    return x, y


def centred(records):
    x, y = default_collate(records)
    return x - x.mean(0), y


def augmented(records):
    x, y = default_collate(records)
    return x + torch.randn(x.shape), y


def longest_first(records):
    ordered = sorted(records, key=lambda record: -float(record[0].sum()))
    return default_collate(ordered)


def padded(records):
    texts = [torch.ones(2 + at) * record[0][0] for at, record in enumerate(records)]
    return {"ids": nn.utils.rnn.pad_sequence(texts, batch_first=True), "lengths": [1, 2]}


def with_sums(records):
    x, y = default_collate(records)
    return x, y, x.sum(0), torch.tensor(len(x))


def fresh(records):
    x, y = default_collate(records)
    return x + torch.from_numpy(np.random.default_rng().normal(size=x.shape)), y


def broken(records):
    raise RuntimeError("no")


@pytest.mark.parametrize("collate", [mixup, shuffled_mixup, sometimes_cut, centred])
def test_collations_that_mix_are_refused(collate):
    with pytest.raises(ValueError, match="collate_fn of data_loader makes a row of several"):
        refuse_mixing(RECORDS, collate)


@pytest.mark.parametrize(
    "collate", [default_collate, augmented, longest_first, padded, with_sums, fresh, broken]
)
def test_others_are_left_alone(collate):
    refuse_mixing(RECORDS, collate)
    refuse_mixing(RECORDS[:3], mixup)  # too few to tell


def test_no_generator_is_moved():
    torch.manual_seed(3)
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002
    refuse_mixing(RECORDS, augmented)
    after = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]


def test_the_engine_refuses_them_where_it_promises_something():
    x, y = torch.randn(20, 5), torch.arange(20) % 3
    loader = DataLoader(TensorDataset(x, y), batch_size=4, collate_fn=mixup)

    def private(mechanism, **options):
        model = nn.Linear(5, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        given = {"module": model, "optimizer": optimizer, "data_loader": loader}
        return PrivacyEngine().make_private(**given, mechanism=mechanism, **options)

    with pytest.raises(ValueError, match="collate_fn"):
        private(Gaussian(1.0))
    private(NoNoise(), clipping="none")
