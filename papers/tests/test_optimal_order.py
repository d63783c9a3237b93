"""Biswas et al. (2025): the equation for α*, against the best order that a search finds."""

import math

import numpy as np
import pytest

import recondite as rc
from recondite.accounting.run import renyi_epsilon
from recondite.laws import SphereLoss
from recondite_papers.optimal_order import converted_delta, converted_epsilon, optimal_order
from recondite_papers.tables.accounting import best_order, best_order_verdict

ONCE = rc.Poisson(1.0, 1)


def log_delta(law, orders, epsilon):
    logs = (orders - 1) * (law.renyi(orders) - epsilon) - np.log(orders - 1)
    return logs + orders * np.log1p(-1 / orders)


@pytest.mark.parametrize(
    ("kappa", "dim", "epsilon"),
    [(75.0, 13_700, 0.5), (75.0, 13_700, 5.0), (500.0, 13_700, 60.0), (2.0, 2, 1.5), (5.0, 3, 4.0)],
)
def test_alpha_star_is_where_a_search_finds_the_smallest_delta(kappa, dim, epsilon):
    law, star = SphereLoss(dim, kappa), optimal_order(kappa, dim, epsilon)
    orders = 1 + (star - 1) * np.geomspace(1e-2, 1e2, 2_001)
    logs = log_delta(law, orders, epsilon)
    assert orders[np.argmin(logs)] == pytest.approx(star, rel=1e-2)
    assert logs.min() >= log_delta(law, np.array([star]), epsilon)[0] - 1e-9
    # What the paper states, and a little more: log δ_α is convex.
    left, middle, right = log_delta(law, star + np.array([-0.3, 0.0, 0.3]) * (star - 1), epsilon)
    assert left + right > 2 * middle


def test_from_two_kappa_on_delta_is_zero():
    assert optimal_order(3.0, 10, 6.0) == math.inf
    assert converted_delta(3.0, 10, 6.0) == 0.0
    assert converted_delta(3.0, 10, 5.99) > 0.0
    with pytest.raises(ValueError, match="epsilon must be"):
        optimal_order(3.0, 10, 0.0)


@pytest.mark.parametrize("kappa", [25.0, 75.0, 300.0])
def test_the_librarys_optimum_is_that_of_the_equation_and_the_tight_value_is_below(kappa):
    delta = 1 / 60_000
    found, order = converted_epsilon(kappa, 13_700, delta)
    mechanism = rc.VonMisesFisher(kappa, 13_700)
    ours, best = renyi_epsilon(mechanism, ONCE, delta)
    assert ours == pytest.approx(found, rel=1e-4)
    assert best == pytest.approx(order, rel=0.05)
    assert rc.epsilon(mechanism, ONCE, delta) < found


def test_the_item_and_its_verdict_follow_from_the_same_cells():
    cells = best_order()
    assert len(cells) == 24
    one = best_order_verdict(cells)
    assert one.stands == "stands"
    assert len(one.believe.split()) <= 12
    tight = [c for c in cells if "tight" in c.name]
    assert all(c.ours < c.paper for c in tight)
    runs = [c for c in cells if c.unit == "order"]
    assert f"{min(c.ours / c.paper for c in runs):.2f}" in one.evidence
