"""Sampling as told is not contradicted; other sampling is."""

import numpy as np
import pytest

from recondite.accounting import FixedSize, Poisson, RandomAllocation, Shuffled
from recondite.checking.sampling import contradictions, observe

N, L = 60, 15
T = N // L
rng = np.random.default_rng(2)
TOLD = {
    "poisson": Poisson(L / N, 100),
    "allocation": RandomAllocation(T, 25),
    "fixed-size": FixedSize(L, N, 100),
    "shuffled": Shuffled(25, L, N),
}


def draw(kind):
    if kind == "poisson":
        return [np.flatnonzero(rng.random(N) < L / N).tolist() for _ in range(T)]
    if kind == "allocation":
        batch = rng.integers(T, size=N)
        return [np.flatnonzero(batch == t).tolist() for t in range(T)]
    if kind == "fixed-size":
        return [rng.permutation(N)[:L].tolist() for _ in range(T)]
    return rng.permutation(N).reshape(T, L).tolist()


def found(told, kind, passes=100):
    seen = observe(lambda: draw(kind), passes * T, passes, lambda: None)
    return contradictions(TOLD[told], seen, N, 1e-7)


@pytest.mark.parametrize("told", TOLD)
@pytest.mark.parametrize("kind", TOLD)
def test_only_what_was_told_passes(told, kind):
    lines = found(told, kind)
    # Half of these would cost no more than what was told, but they are not it.
    assert bool(lines) == (told != kind), lines


def test_dear_sampling_is_found():
    told, twice = TOLD["poisson"], [[[1, 2, 1]]]
    assert contradictions(told, twice, N, 1e-7)[0] == "record 1 is in one batch 2 times"
    more = [[np.flatnonzero(rng.random(N) < 0.35).tolist() for _ in range(T)] for _ in range(100)]
    assert "where 0.25 is told" in contradictions(told, more, N, 1e-7)[0]
    favoured = [[sorted({*batch, 7}) for batch in draw("poisson")] for _ in range(100)]
    assert "record 7 was in 400 of 400" in contradictions(told, favoured, N, 1e-7)[0]
    assert (
        "16 records where 15" in contradictions(TOLD["fixed-size"], [[list(range(16))]], N, 1e-7)[0]
    )
    assert "no batches" in contradictions(told, [[]], N, 1e-7)[0]
    assert contradictions(Poisson(1.0, 5), [[list(range(N))]], N, 1e-7) == []


def test_a_loader_is_observed_pass_by_pass():
    assert observe(lambda: iter([[0], [1]]), 3, 10, lambda: None) == [[[0], [1]], [[0], [1]]]
    assert observe(lambda: iter([[0]]), 100, 3, lambda: None) == [[[0]]] * 3
    assert observe(lambda: iter([]), 100, 3, lambda: None) == [[]]
