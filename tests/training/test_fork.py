"""Processes that are forked from a private run draw noise and batches of their own."""

import copy
import os
import pickle
from functools import partial
from itertools import combinations

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import recondite as rc
from recondite._forks import generation
from recondite.numerics.fork_safe import Renewed
from recondite.numerics.random import new_generator
from recondite.training import PrivacyEngine

torch.set_num_threads(1)
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")

MECHANISMS = [rc.Gaussian(1.1), rc.VonMisesFisher(75.0), rc.Directional(75.0)]


def in_child(function):
    """What a function returns in a forked process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            try:
                answer = function()
            except Exception as error:
                answer = error
            with os.fdopen(writing, "wb") as file:
                pickle.dump(answer, file)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        answer = pickle.load(file)
    os.waitpid(child, 0)
    return answer


class Run:
    """A model under the engine, whose records are all alike: only noise tells releases apart."""

    def __init__(self, mechanism, sampling=None, **options):
        torch.manual_seed(1)
        self.model = nn.Linear(12, 2)
        optimizer = torch.optim.SGD(self.model.parameters(), lr=1.0)
        records = TensorDataset(torch.zeros(64, 12), torch.zeros(64, dtype=torch.int64))
        self.engine = PrivacyEngine(**options)
        _, self.optimizer, self.loader = self.engine.make_private(
            module=self.model,
            optimizer=optimizer,
            data_loader=DataLoader(records, batch_size=16),
            mechanism=mechanism,
            sampling=sampling,
        )

    def step(self):
        before = self.model.weight.detach().clone()
        for inputs, labels in self.loader:
            self.optimizer.zero_grad()
            nn.functional.cross_entropy(self.model(inputs), labels).backward()
            self.optimizer.step()
            break
        return (self.model.weight.detach() - before).numpy()

    def batches(self):
        return [indices for indices, _ in self.loader._pieces(self.loader._batches())]


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_parent_and_children_release_different_noise(mechanism, secure):
    # Fixed-size batches of equal records: releases with the same noise would be equal.
    run = Run(mechanism, "fixed-size", secure=secure)
    run.step()
    first, second, own = in_child(run.step), in_child(run.step), run.step()
    assert not np.isclose(first, second).any()
    assert not np.isclose(first, own).any()
    assert not np.isclose(second, own).any()


@pytest.mark.parametrize("sampling", ["poisson", "shuffled", "fixed-size"])
def test_parent_and_children_draw_different_batches(sampling):
    run = Run(rc.VonMisesFisher(75.0), sampling)
    run.batches()
    drawn = [in_child(run.batches), in_child(run.batches), run.batches()]
    assert drawn[0] != drawn[1] != drawn[2] != drawn[0]


def test_a_child_does_not_go_on_with_its_parents_epoch():
    run = Run(rc.VonMisesFisher(75.0), "shuffled")
    epoch = iter(run.loader)
    next(epoch)
    assert in_child(lambda: len(list(epoch))) == 0
    run.loader.handed_out = 0
    assert len(list(epoch)) == 3


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_seeded_runs_are_simulations_that_a_fork_does_not_change(mechanism):
    here, there, plain = (Run(mechanism, "fixed-size", seed=5) for _ in range(3))
    here.step(), there.step(), plain.step()
    expected = plain.step()
    assert np.array_equal(in_child(here.step), expected)
    assert np.array_equal(here.step(), expected)
    epoch = iter(there.loader)
    next(epoch)
    assert in_child(lambda: len(list(epoch))) == 3


@pytest.mark.parametrize("seed", [None, 5])
def test_a_copied_generator_repeats_only_a_seed(seed):
    held = Renewed(partial(new_generator, torch.zeros(1), seed), seeded=seed is not None)
    again, sent = copy.deepcopy(held), pickle.loads(pickle.dumps(held))
    drawn = [torch.randn(8, generator=one.current()) for one in (held, again, sent)]
    for one, other in combinations(drawn, 2):
        assert torch.equal(one, other) == (seed is not None)


def test_a_ledger_is_not_shared_by_a_fork(tmp_path):
    run = Run(rc.Gaussian(1.1), ledger=tmp_path / "ledger.json")
    run.step()
    refused = in_child(run.step)
    assert isinstance(refused, ValueError)
    assert "ledger ledger.json was opened by the process" in str(refused)
    run.step()
    assert run.engine.steps == 2


def test_every_fork_is_a_generation_of_its_own():
    mine = generation()
    child, grandchild = in_child(lambda: (generation(), in_child(generation)))
    assert len({mine, child, grandchild, in_child(generation)}) == 4
    assert generation() == mine
