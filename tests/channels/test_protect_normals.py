"""The normal numbers under protected records: their law, their keys, their freshness."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest
from scipy import stats

from recondite.numerics.normals import fill_normal, fresh_words, keyed_words

COUNT = 400_001


@pytest.fixture(params=[np.float32, np.float64])
def dtype(request):
    return request.param


def drawn(words, count, dtype):
    out = np.full(count, np.nan, dtype=dtype)
    fill_normal(words, out)
    return out


def test_law(dtype):
    for words in (keyed_words(b"k"), fresh_words):
        sample = drawn(words, COUNT, dtype)
        assert stats.kstest(sample.astype(float), "norm").pvalue > 1e-6
        assert abs(np.mean(sample.astype(float) ** 2) - 1) < 6 * math.sqrt(2 / COUNT)
        assert abs(np.mean(sample.astype(float) ** 4) - 3) < 6 * math.sqrt(96 / COUNT)


def test_neighbours_and_halves_are_independent(dtype):
    sample = drawn(keyed_words(b"k"), 1 << 16, dtype).astype(float)
    for shift in (1, 2, 1 << 14, 1 << 15):
        for power in (1, 2):
            one, other = sample[:-shift] ** power, sample[shift:] ** power
            assert abs(np.corrcoef(one, other)[0, 1]) < 6 / math.sqrt(one.size)


class Extreme:
    """Words of which all are the same."""

    def __init__(self, word):
        self.word = word

    def __call__(self, count):
        return np.full(count, self.word, dtype=np.uint64)


@pytest.mark.parametrize("word", [0, 1, 2**32 - 1, 2**63, 2**64 - 1])
def test_extreme_words_give_finite_numbers(word, dtype):
    sample = drawn(Extreme(word), 5, dtype)
    assert np.isfinite(sample).all()
    assert np.abs(sample).max() < 8.8


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 32_768, 32_769, 32_770, 70_001])
def test_any_count_is_filled(count, dtype):
    sample = drawn(keyed_words(b"k"), count, dtype)
    assert np.isfinite(sample).all()
    assert len(np.unique(sample)) >= 0.99 * count


def test_a_key_stands_for_its_numbers(dtype):
    one, two, other = (drawn(keyed_words(key), 1000, dtype) for key in (b"a", b"a", b"b"))
    np.testing.assert_array_equal(one, two)
    assert not (one == other).any()


def test_parts_of_a_stream_differ():
    words = keyed_words(b"a")
    assert not np.intersect1d(words(100), words(100)).size


def test_keyed_numbers_do_not_change():
    """Noise drawn by an earlier version must come out the same."""
    double, single = (drawn(keyed_words(b"recondite"), 3, kind) for kind in (float, np.float32))
    np.testing.assert_allclose(double, DOUBLE, rtol=1e-12)
    np.testing.assert_allclose(single, SINGLE, rtol=1e-5)
    # Beyond the first block.
    assert drawn(keyed_words(b"recondite"), 40_001, float)[-1] == pytest.approx(
        0.0492834754429851, rel=1e-12
    )
    last = drawn(keyed_words(b"recondite"), 40_001, np.float32)[-1]
    assert last == pytest.approx(-0.61672717, rel=1e-5)


DOUBLE = [-0.501100164519337, -0.516616466234067, -0.937244319862123]
SINGLE = [0.23369624, -1.69346, 0.57241666]


def test_fresh_words_differ_after_a_fork():
    """A forked process starts from the same memory and must not draw the same noise."""
    fresh_words(1)
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(send, fresh_words(16).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = np.frombuffer(os.read(receive, 128), dtype=np.uint64)
    assert len(theirs) == 16
    assert not np.intersect1d(theirs, fresh_words(16)).size
