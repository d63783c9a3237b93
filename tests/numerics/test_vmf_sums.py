"""Sums of von Mises-Fisher draws: the law of summing draws, whichever path makes them."""

import numpy as np
import pytest
import torch

from recondite.numerics.bessel import bessel_ratio
from recondite.numerics.secure import SecureGenerator
from recondite.numerics.sphere import sample_vmf
from recondite.numerics.sphere_sum import sum_vmf

torch.set_num_threads(1)


def seeded(seed):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("dim", [2, 40, 300, 5_000])
@pytest.mark.parametrize("kappa", [0.5, 30.0, 3_000.0])
def test_one_row_is_one_draw(dim, kappa):
    row = torch.randn(1, dim, generator=seeded(1))
    unit = row[0] / row[0].norm()
    draws = torch.stack([sum_vmf(7.0 * row, kappa, seeded(n)) for n in range(300)])
    assert torch.allclose(draws.norm(dim=1), torch.ones(300), atol=1e-4)
    cosine = draws @ unit
    mean = float(bessel_ratio(0.5 * dim - 1.0, kappa))
    spread = 1.0 - mean**2 - (dim - 1) / kappa * mean if dim > 1 else 0.0
    assert abs(float(cosine.mean()) - mean) < 4.5 * np.sqrt(max(spread, 1e-9) / 300) + 1e-4


@pytest.mark.parametrize("rows", [1, 3, 700])
def test_mean_and_spread_of_a_sum(rows):
    dim, kappa = 600, 400.0
    around = torch.randn(rows, dim, generator=seeded(2)) * torch.logspace(-6, 6, rows)[:, None]
    units = around / around.norm(dim=1, keepdim=True)
    mean = float(bessel_ratio(0.5 * dim - 1.0, kappa))
    generator = seeded(3)
    draws = torch.stack([sum_vmf(around, kappa, generator) for _ in range(60)])
    left = draws - mean * units.sum(0)
    # Each draw has total variance 1 - mean², and they are independent.
    expected = rows * (1 - mean**2)
    assert float(left.square().sum(1).mean()) == pytest.approx(expected, rel=0.08)
    assert float(left.mean(0).norm()) < 1.5 * np.sqrt(expected / 60)


def test_agrees_with_the_sum_of_draws_in_law():
    rows, dim, kappa = 4, 300, 60.0
    around = torch.randn(rows, dim, generator=seeded(4))
    along = around[0] / around[0].norm()
    ours, theirs = seeded(5), seeded(6)
    new = [float(sum_vmf(around, kappa, ours) @ along) for _ in range(1500)]
    old = [float(sample_vmf(around, kappa, theirs).sum(0) @ along) for _ in range(1500)]
    from scipy.stats import ks_2samp

    assert ks_2samp(new, old).pvalue > 1e-3


def test_tiny_huge_and_zero_rows():
    around = torch.randn(5, 400, generator=seeded(7))
    around[1] *= 1e-30
    around[2] *= 1e30
    around[3] = 0.0
    with pytest.raises(ValueError, match="zero has no direction"):
        sum_vmf(around, 10.0, seeded(8))
    total = sum_vmf(around, 1e8, seeded(8), zero="uniform")
    units = around.double()[[0, 1, 2, 4]]
    units = units / units.norm(dim=1, keepdim=True)
    # What is left of the sum is the uniform direction of the zero row.
    assert float((total.double() - units.sum(0)).norm()) == pytest.approx(1.0, abs=0.02)
    around[0, 0] = torch.inf
    with pytest.raises(ValueError, match="finite"):
        sum_vmf(around, 10.0, seeded(8), zero="uniform")


@pytest.mark.parametrize("kind", ["numpy", "float64", "half", "strided", "secure", "long"])
def test_every_kind_of_rows(kind):
    rows = torch.randn(6, 500, generator=seeded(9))
    generator = None
    if kind == "numpy":
        rows = rows.numpy()
    if kind == "float64":
        rows = rows.double()
    if kind == "half":
        rows = rows.half()
    if kind == "strided":
        rows = torch.randn(6, 1000, generator=seeded(9))[:, 100:600]
    if kind == "secure":
        generator = SecureGenerator()
    if kind == "long":
        rows = torch.randn(3, 70_000, generator=seeded(9))
    total = sum_vmf(rows, 1e9, generator)
    exact = np.asarray(rows, dtype=np.float64)
    exact = (exact / np.linalg.norm(exact, axis=1, keepdims=True)).sum(0)
    assert np.linalg.norm(np.asarray(total, dtype=np.float64) - exact) < 0.05


def test_seeds_repeat():
    rows = torch.randn(9, 1000, generator=seeded(1))
    assert torch.equal(sum_vmf(rows, 5.0, seeded(2)), sum_vmf(rows, 5.0, seeded(2)))
    assert not torch.equal(sum_vmf(rows, 5.0, seeded(2)), sum_vmf(rows, 5.0, seeded(3)))
