"""Torch's loaders serve noisy copies inside, and are torch's own again afterwards."""

import threading

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from recondite.channels import WhiteChannel
from recondite.federated.serving import Serving, serving

RECORDS = torch.rand(6, 4, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def loader():
    return DataLoader(TensorDataset(RECORDS, torch.zeros(6).long()), batch_size=6)


def made(folder):
    rows = np.random.default_rng(0).random((20, 4))
    channel = WhiteChannel.fit(rows, 0.4)
    return Serving(channel, "once", folder, total=None)


def read(loader):
    return torch.cat([batch[0] for batch in loader])


def test_the_class_of_torch_is_as_it_was_once_the_last_one_is_out(loader, tmp_path):
    before = DataLoader.__iter__
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with serving(made(tmp_path / "a")):
        noisy = read(loader)
        assert not torch.equal(noisy, RECORDS)
        with serving(made(tmp_path / "b")):
            assert not torch.equal(read(loader), RECORDS)
        assert torch.equal(read(loader), noisy)  # once means once
        assert DataLoader.__iter__ is not before
    assert DataLoader.__iter__ is before
    assert torch.equal(read(loader), RECORDS)


def test_an_error_inside_gives_it_back_too(tmp_path):
    before = DataLoader.__iter__
    with pytest.raises(RuntimeError, match="the app failed"), serving(made(tmp_path)):
        raise RuntimeError("the app failed")
    assert DataLoader.__iter__ is before


def test_other_threads_read_what_they_hold_and_the_round_has_no_account(loader, tmp_path):
    found, mine = [], made(tmp_path)
    with serving(mine):
        read(loader)
        other = threading.Thread(target=lambda: found.append(read(loader)))
        other.start()
        other.join()
    assert torch.equal(found[0], RECORDS)
    with pytest.raises(ValueError, match="in another thread"):
        mine.account()
    with serving(mine):
        read(loader)
    assert mine.account()["per_record"] == pytest.approx(0.4)
