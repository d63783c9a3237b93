"""Arrays, tensors, sequences and datasets are the same records."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, TensorDataset

from recondite.channels import Spectrum
from recondite.channels._records import is_torch, load_records

IMAGES = np.random.default_rng(0).standard_normal((300, 2, 3)).astype(np.float32)
FLAT = IMAGES.reshape(300, 6)


class Pairs(Dataset):
    def __len__(self):
        return len(IMAGES)

    def __getitem__(self, index):
        return torch.from_numpy(IMAGES[index]), int(index) % 10


@pytest.mark.parametrize(
    "data",
    [
        IMAGES,
        torch.from_numpy(IMAGES),
        torch.from_numpy(IMAGES).requires_grad_(),
        list(IMAGES),
        FLAT.tolist(),
        [(image, 3) for image in IMAGES],
        [torch.from_numpy(image) for image in IMAGES],
        Pairs(),
        TensorDataset(torch.from_numpy(IMAGES), torch.zeros(300)),
    ],
    ids=["array", "tensor", "grad", "list", "nested", "pairs", "tensors", "dataset", "td"],
)
def test_same_records_from_every_container(data):
    np.testing.assert_allclose(load_records(data), FLAT, rtol=1e-7)


def test_arrays_are_not_copied():
    assert np.shares_memory(load_records(IMAGES), IMAGES)


def test_scalars_are_records_of_one_feature():
    assert load_records(np.arange(5.0)).shape == (5, 1)


def test_other_types():
    assert load_records(torch.ones(3, 2, dtype=torch.bfloat16)).dtype == np.float32
    assert load_records([np.uint8([1, 2]), np.uint8([3, 4])]).dtype == np.float32
    assert load_records([[1, 2], [3, 4]]).dtype == np.float64


def test_transform_sees_batches():
    seen = []

    def encoder(batch):
        seen.append(batch.shape)
        return batch.reshape(len(batch), -1)[:, :2] * 2

    np.testing.assert_allclose(load_records(IMAGES, encoder), FLAT[:, :2] * 2)
    assert seen == [(256, 2, 3), (44, 2, 3)]


@pytest.mark.parametrize("data", [torch.from_numpy(IMAGES), Pairs()], ids=["tensor", "dataset"])
def test_transform_may_be_a_torch_module(data):
    torch.manual_seed(0)
    encoder = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(6, 4))
    reference = encoder(torch.from_numpy(IMAGES)).detach().numpy()
    np.testing.assert_allclose(load_records(data, encoder), reference, rtol=1e-5, atol=1e-6)
    assert Spectrum.of(data, transform=encoder).dim == 4


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (3.0, "dataset with a length"),
        (iter([1, 2]), "dataset with a length"),
        (np.float64(3), "single number"),
        (np.ones((1, 3)), "at least 2 records"),
        ([], "at least 2 records"),
        (np.empty((3, 0)), "at least one feature"),
        (np.array([["a"], ["b"]]), "real numbers"),
        (np.ones((3, 2), dtype=complex), "real numbers"),
        ([np.ones(2), np.ones(3)], "equal shape"),
        ([(1.0, 2.0), (3.0, 4.0)], "could be records or"),
        ([np.ones(2)] * 256 + [np.ones(3)], "equal shape"),
    ],
)
def test_bad_data(data, reason):
    with pytest.raises(ValueError, match=reason):
        load_records(data)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_data_must_be_finite(value):
    data = np.ones((4, 3))
    data[2, 1] = value
    with pytest.raises(ValueError, match="finite"):
        Spectrum.of(data)


def test_transform_must_keep_the_rows():
    with pytest.raises(ValueError, match="transform"):
        load_records(IMAGES, lambda batch: batch[:1])
    with pytest.raises(ValueError, match="transform"):
        load_records(IMAGES, lambda batch: np.float64(1))


def test_torch_is_recognised_by_its_module():
    assert is_torch(torch.ones(1))
    assert is_torch(torch.nn.Parameter(torch.ones(1)))
    assert is_torch(torch.Generator())
    assert not is_torch(np.ones(1))


def test_channels_do_not_import_torch():
    code = (
        "import sys, numpy as np\n"
        "from recondite.channels import WhiteChannel\n"
        "assert 'scipy.linalg' not in sys.modules\n"
        "data = np.random.default_rng(0).normal(size=(9, 3))\n"
        "WhiteChannel.fit(data, 2).perturb(data)\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
