"""The theorem behind VMF accounting, on a grid: the antipodal pair dominates every other.

Write u, v for two directions at angle θ, w for the direction of u - v and m for that of u + v.
The log-ratio of VMF(u) to VMF(v) at y is κ|u - v|·(y·w), so the hockey-stick divergence of order
e^ε is P_u(r >= c) - e^ε P_v(r >= c) with r = y·w and c = ε/(κ|u - v|). With y = r·w + √(1-r²)·z the
laws of r come from a two-dimensional integral over r = cos φ and z·m = cos ψ, which is done here by
Gauss-Legendre rules. Nothing in the integrals comes from the package.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from recondite.laws import SphereLoss

ANGLES = np.pi * np.array([0.02, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 0.98, 1.0])
EPSILONS = np.array([-8.0, -3.0, -1.0, -0.3, 0.0, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0])
GRID = [(p, kappa) for p in (2, 3, 10) for kappa in (0.1, 1.0, 5.0, 20.0)]
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(60)
_INNER, _INNER_WEIGHTS = np.polynomial.legendre.leggauss(60)


def inner_mean(dim, argument):
    """E[exp(argument·z·m)] over z uniform on the sphere in dim - 1 dimensions."""
    if dim == 2:
        return np.cosh(argument)
    psi = 0.5 * np.pi * (_INNER + 1)
    weights = _INNER_WEIGHTS * np.sin(psi) ** (dim - 3)
    return np.exp(argument[..., None] * np.cos(psi)) @ weights / weights.sum()


def masses(dim, kappa, angle, low, high):
    """Unnormalised ∫ of the law of r over cos φ between low and high, for u and for v."""
    total = np.zeros(2)
    edges = np.linspace(low, high, 7)
    for a, b in pairwise(edges):
        phi = 0.5 * (b - a) * _NODES + 0.5 * (b + a)
        r, ring = np.cos(phi), np.sin(phi)
        common = ring ** (dim - 2) * inner_mean(dim, kappa * math.cos(angle / 2) * ring)
        for i, sign in enumerate((1, -1)):
            density = common * np.exp(kappa * (sign * math.sin(angle / 2) * r - 1))
            total[i] += 0.5 * (b - a) * (_WEIGHTS @ density)
    return total


def hockey_stick(dim, kappa, angle, epsilon):
    """H_{e^ε}(VMF(u) ‖ VMF(v)) at this angle."""
    slope = kappa * 2 * math.sin(angle / 2)
    c = epsilon / slope if slope > 0 else math.copysign(math.inf, epsilon)
    cut = math.acos(min(1.0, max(-1.0, c)))
    whole = masses(dim, kappa, angle, 0.0, math.pi)
    above = masses(dim, kappa, angle, 0.0, cut) if cut > 0 else np.zeros(2)
    return above[0] / whole[0] - math.exp(epsilon) * above[1] / whole[1]


def half_turn(panels):
    """Nodes and weights over φ from 0 to π, ten a panel."""
    nodes, weights = np.polynomial.legendre.leggauss(10)
    half = 0.5 * np.pi / panels
    starts = 2 * half * np.arange(panels)[:, None]
    return (starts + half * (nodes + 1)).ravel(), np.tile(half * weights, panels)


def curve(pair, epsilons):
    """The same divergence of a discrete pair."""
    return np.array(
        [np.maximum(pair.p - np.exp(e) * pair.q, 0).sum() + pair.p_infinite for e in epsilons]
    )


def uniform_pair(dim, kappa, epsilon):
    """H(VMF(u) ‖ uniform) and H(uniform ‖ VMF(u)), by quadrature over the cosine."""
    phi, weights = half_turn(400)
    weights = weights * np.sin(phi) ** (dim - 2)
    vmf = weights * np.exp(kappa * (np.cos(phi) - 1))
    flat, vmf = weights / weights.sum(), vmf / vmf.sum()
    e = math.exp(epsilon)
    return np.maximum(vmf - e * flat, 0).sum(), np.maximum(flat - e * vmf, 0).sum()


@pytest.mark.parametrize(("dim", "kappa"), GRID)
def test_divergence_grows_with_the_angle_and_the_antipode_dominates(dim, kappa):
    table = np.array([[hockey_stick(dim, kappa, angle, e) for e in EPSILONS] for angle in ANGLES])
    assert np.all(table >= np.maximum(0.0, 1 - np.exp(EPSILONS)) - 1e-12)
    assert np.all(np.diff(table, axis=0) >= -1e-12)
    law = SphereLoss(dim, kappa)
    interval = 2 * kappa / 2_000
    upper = curve(law.discretise(interval), EPSILONS)
    lower = curve(law.discretise(interval, pessimistic=False), EPSILONS)
    assert np.all(table <= upper + 1e-12)
    # At the antipode it is the law itself, from above and from below.
    np.testing.assert_allclose(table[-1], upper, atol=2e-6)
    np.testing.assert_allclose(table[-1], lower, atol=2e-6)
    assert np.all(lower <= table[-1] + 1e-12)
    # No vacuous check: somewhere the divergence really depends on the angle.
    assert np.max(table[-1] - table[0]) > 0.01


@pytest.mark.parametrize(("dim", "kappa"), GRID)
def test_the_uniform_law_is_dominated_too(dim, kappa):
    # What an empty batch releases, against what any other does.
    upper = curve(SphereLoss(dim, kappa).discretise(2 * kappa / 2_000), EPSILONS)
    for epsilon, bound in zip(EPSILONS, upper, strict=True):
        forward, backward = uniform_pair(dim, kappa, epsilon)
        assert max(forward, backward) <= bound + 1e-9


@pytest.mark.parametrize(("dim", "kappa"), [(2, 2.0), (3, 1.0), (10, 5.0)])
@pytest.mark.parametrize("rate", [0.05, 0.5])
def test_poisson_pairs_are_dominated_in_both_directions(dim, kappa, rate):
    # Remove: ((1-q)Q + qP, Q); add: the reverse. Here P and Q at any angle, by a 2-D grid over r
    # and the inner integral, against the law that accounting uses.
    sampled = SphereLoss(dim, kappa).mixture((1 - rate, rate)).discretise(1e-3)
    epsilons = np.array([-1.0, -0.1, 0.0, 0.05, 0.2, 0.5, 1.0, 2.0])
    remove, add = curve(sampled, epsilons), curve(sampled.reverse(), epsilons)
    phi, weights = half_turn(150)
    last = np.zeros((2, len(epsilons)))
    for angle in ANGLES:
        ring = np.sin(phi)
        common = weights * ring ** (dim - 2) * inner_mean(dim, kappa * math.cos(angle / 2) * ring)
        tilt = kappa * math.sin(angle / 2) * np.cos(phi)
        p, q = common * np.exp(tilt), common * np.exp(-tilt)
        p, q = p / p.sum(), q / q.sum()
        mixed = (1 - rate) * q + rate * p
        both = np.array(
            [
                [np.maximum(mixed - math.exp(e) * q, 0).sum() for e in epsilons],
                [np.maximum(q - math.exp(e) * mixed, 0).sum() for e in epsilons],
            ]
        )
        assert np.all(both[0] <= remove + 1e-5)
        assert np.all(both[1] <= add + 1e-5)
        assert np.all(both >= last - 1e-5)
        last = both
    np.testing.assert_allclose(last, [remove, add], atol=1e-4)
