"""How gradients are cut into blocks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from recondite.laws import ProductLoss, SphereLoss
from recondite.mechanisms.blocks import block_sizes, product_law, split
from recondite.mechanisms.partitioned import join_blocks


@given(st.integers(2, 10**6), st.data())
def test_equal_parts(dim, data):
    count = data.draw(st.integers(1, min(dim // 2, 1_000)))
    sizes = block_sizes(dim, count)
    assert len(sizes) == count
    assert sum(sizes) == dim
    assert min(sizes) >= 2
    assert max(sizes) - min(sizes) <= 1
    assert sizes == block_sizes(dim, np.int64(count))


@given(st.lists(st.integers(1, 6), min_size=1, max_size=30).filter(lambda sizes: sum(sizes) >= 2))
def test_given_sizes(sizes):
    merged = block_sizes(sum(sizes), tuple(sizes))
    assert sum(merged) == sum(sizes)
    assert min(merged) >= 2
    # Only blocks of one coordinate are merged: every cut that is left was a cut before.
    assert set(np.cumsum(merged)) <= set(np.cumsum(sizes))
    if min(sizes) >= 2:
        assert merged == tuple(sizes)
    assert block_sizes(sum(merged), merged) == merged
    assert len(merged) >= sum(size > 1 for size in sizes)
    assert merged == block_sizes(sum(sizes), list(sizes))


@pytest.mark.parametrize(
    ("dim", "blocks", "message"),
    [
        (10, 0, r"^blocks must be 1 or more"),
        (10, -3, r"^blocks must be 1 or more"),
        (10, 6, r"^blocks must be 5 or fewer for dim 10"),
        (10, 2.5, r"^blocks must be a whole number"),
        (10, True, r"^blocks must be a number"),
        (10, None, r"^blocks must be a number"),
        (10, (4, 5), r"^blocks must add up to dim 10, got 9"),
        (10, (), r"^blocks must add up to dim 10, got 0"),
        (10, (10, 0), r"^blocks must be 1 or more"),
        (10, (5.5, 4.5), r"^blocks must be a whole number"),
        (1, (1,), r"^dim must be 2 or more"),
        (1, 1, r"^dim must be 2 or more"),
    ],
)
def test_bad_blocks(dim, blocks, message):
    with pytest.raises(ValueError, match=message) as error:
        block_sizes(dim, blocks)
    assert "\n" not in str(error.value)


def test_split_and_join():
    vector = np.arange(24.0).reshape(2, 12)
    pieces = split(vector, (5, 4, 3))
    np.testing.assert_array_equal(np.concatenate(pieces, axis=-1), vector)
    assert all(np.shares_memory(piece, vector) for piece in pieces)
    units = [piece / np.linalg.norm(piece, axis=-1, keepdims=True) for piece in pieces]
    joined = join_blocks(units, (5, 4, 3))
    np.testing.assert_allclose(np.linalg.norm(joined, axis=-1), 1.0)
    for size, piece, unit in zip((5, 4, 3), split(joined, (5, 4, 3)), units, strict=True):
        np.testing.assert_allclose(piece, unit * np.sqrt(size / 12))
    tensors = join_blocks([torch.from_numpy(unit) for unit in units], (5, 4, 3))
    np.testing.assert_allclose(tensors.numpy(), joined)


def test_product_law():
    assert product_law((7,), (3.0,)) == SphereLoss(7, 3.0)
    law = product_law((4, 3, 4), (1.0, 2.0, 1.0))
    assert isinstance(law, ProductLoss)
    assert law.supremum == pytest.approx(2 * (1 + 2 + 1))
    # Rényi divergences of independent blocks add (Prop. 2).
    single = sum(SphereLoss(p, k).renyi([1.5, 4.0]) for p, k in ((4, 1.0), (3, 2.0), (4, 1.0)))
    np.testing.assert_allclose(law.renyi([1.5, 4.0]), single, rtol=1e-13)
