"""Claims of other papers that have a page: the counter-examples, by drawing from the mechanisms."""

import math
from pathlib import Path

import numpy as np
from scipy.special import betainc, erf
from scipy.stats import norm

import recondite as rc

STUDIES = Path(__file__).resolve().parents[2] / "docs" / "studies"


def product_noise(dim, epsilon, k, count, generator):
    """Length of the noise in units of the sensitivity, and its cosine with the difference."""
    t = math.sqrt(2 * k ** (4 / dim) * (dim / 4 + 1.5) ** (1 + 4 / dim) / math.e ** (1 + 2 / dim))
    length = t / epsilon * np.abs(generator.standard_normal(count))
    direction = generator.standard_normal((count, dim)) if dim < 50 else None
    if direction is not None:
        return length, direction[:, 0] / np.linalg.norm(direction, axis=1)
    half = (dim - 1) / 2
    return length, 2 * generator.beta(half, half, count) - 1


def test_product_noise_is_told_apart_by_a_ball_around_the_answer():
    dim, epsilon, k = 8, 1.0, 1000
    generator = np.random.default_rng(0)
    length, cosine = product_noise(dim, epsilon, k, 400_000, generator)
    t = math.sqrt(2 * k ** (4 / dim) * (dim / 4 + 1.5) ** (1 + 4 / dim) / math.e ** (1 + 2 / dim))
    near = length < 0.5
    # The neighbour's answer is one sensitivity away, in the direction of the first axis.
    other = length**2 + 1 + 2 * length * cosine < 0.25
    expected = erf(0.5 * epsilon / (math.sqrt(2) * t))
    assert abs(near.mean() - expected) < 5 * math.sqrt(expected / len(near))
    assert other.mean() <= 0.5 * betainc((dim - 1) / 2, 0.5, 0.25) + 1e-4


def test_the_delta_of_product_noise_is_that_of_the_page():
    dim, epsilon, k = 784, 1.0, 1000
    generator = np.random.default_rng(1)
    length, cosine = product_noise(dim, epsilon, k, 400_000, generator)
    sigma = math.sqrt(
        2 * k ** (4 / dim) * (dim / 4 + 1.5) ** (1 + 4 / dim) / math.e ** (1 + 2 / dim)
    )
    # The density of the noise at length r goes as r^(1 - dim)·exp(-r²/2σ²).
    moved = length**2 + 1 + 2 * length * cosine
    loss = (dim - 1) * 0.5 * np.log(moved / length**2) + (moved - length**2) / (2 * sigma**2)
    delta = np.maximum(0.0, -np.expm1(epsilon - loss)).mean()
    page = (STUDIES / "product-noise.md").read_text()
    assert f"at ε = 1 is {delta:.2f} by Monte Carlo" in page
    # The page's MNIST example: steps whose noise is shorter than half the sensitivity.
    steps, weights, rate = 50 * math.ceil(60_000 / 256), 26_010, 0.3
    t = math.sqrt(
        2
        * 40_000 ** (4 / weights)
        * (weights / 4 + 1.5) ** (1 + 4 / weights)
        / math.e ** (1 + 2 / weights)
    )
    short = erf(0.5 * rate / (math.sqrt(2) * t))
    assert f"{short:.2%} of the steps" in page
    assert f"{short * steps:.0f} of {steps:,} steps" in page


def test_one_record_turns_geodps_angle_half_around():
    batch, sigma, dim = 100, 1.0, 2
    noise = math.sqrt(dim + 2) * math.pi / batch * sigma
    generator = np.random.default_rng(2)
    drawn = noise * generator.standard_normal(1_000_000)
    # 98 gradients cancel, one is zero, the last is +e1 (angle 0) or -e1 (angle π).
    assert np.cos(drawn).min() > 0
    assert np.cos(math.pi + drawn).max() < 0
    # A million releases without an error show this much at 95% (Clopper and Pearson).
    least = math.log((0.025 ** (1 / len(drawn)) - 1e-5) / -math.expm1(math.log(0.025) / len(drawn)))
    page = (STUDIES / "geodp.md").read_text()
    assert "(6.57, 15.5)" in page
    claimed = 6.57
    assert least > claimed + 5


def test_the_prose_of_both_pages_has_the_figures_of_their_programs():
    """Their doctests guard what a program prints; the sentences around it are guarded here."""
    dim, delta = 784, 1e-5
    page = " ".join((STUDIES / "product-noise.md").read_text().split())
    k = 1000
    sigma = math.sqrt(
        2 * k ** (4 / dim) * (dim / 4 + 1.5) ** (1 + 4 / dim) / math.e ** (1 + 2 / dim)
    )
    shown = float(erf(0.5 / (math.sqrt(2) * sigma)))
    assert f"the true one at least {shown:.3f}: one release in thirty" in page
    assert 28 < 1 / shown < 33
    needed = 0.5 * math.sqrt(2 / math.pi) / delta
    assert f"asks for σ of {round(needed, -4):,.0f}·Δ" in page
    assert f"a length of {round(needed * math.sqrt(2 / math.pi), -3):,.0f}·Δ on average" in page
    gaussian = rc.calibrate(rc.Gaussian(1.0), 1.0, "epsilon", rc.Poisson(1.0, 1), delta=delta).value
    assert f"the same δ is {gaussian * math.sqrt(dim):.0f}·Δ long" in page
    saved = 1 - gaussian / math.sqrt(2 * math.log(1.25 / delta))
    assert f"saves more than {100 * saved:.0f}% here" in page
    page = " ".join((STUDIES / "geodp.md").read_text().split())
    noise = math.sqrt(4) * math.pi / 100
    wrong = math.log(2) + float(norm.logsf(math.pi / 2 / noise))
    least = math.log1p(-delta - math.exp(wrong)) - wrong
    claimed, replaced = (rc.epsilon(rc.Gaussian(s), rc.Poisson(1.0, 2), delta) for s in (1.0, 0.5))
    assert (
        f"ε is at least {least:.0f} where {claimed:.2f} is claimed ({replaced:.1f} for a record "
        "that is replaced, as here)" in page
    )
