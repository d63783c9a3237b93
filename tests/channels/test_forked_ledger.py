"""A ledger in memory does not know of uses in a forked process: it refuses to serve there."""

import os

import numpy as np
import pytest

import recondite as rc

torch = pytest.importorskip("torch")


def protected(**options):
    records = torch.zeros(8, 4)
    data = torch.utils.data.TensorDataset(records, torch.arange(8))
    channel = rc.NaturalChannel.fit(np.random.default_rng(0).normal(size=(50, 4)), capacity=3)
    return channel.protect(torch.utils.data.DataLoader(data, batch_size=8), **options)


def in_child(act):
    """What a forked process answers: the outcome, or the error's line."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = str(act())
        except ValueError as error:
            said = str(error)
        os.write(write, said.encode())
        os._exit(0)
    os.waitpid(child, 0)
    return os.read(read, 4096).decode()


def test_uses_in_a_forked_process_are_refused():
    loader = protected(noise="per_step")
    next(iter(loader))
    assert "served in a forked process" in in_child(lambda: next(iter(loader)))
    assert loader.information()["uses"] == 1


def test_a_ledger_file_adds_them_up(tmp_path):
    loader = protected(noise="per_step", ledger=tmp_path / "uses.jsonl")
    next(iter(loader))
    in_child(lambda: next(iter(loader)))
    assert loader.information()["uses"] == 2
