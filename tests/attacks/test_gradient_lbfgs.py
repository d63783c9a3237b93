"""L-BFGS on many rows: each on its own, and each to its minimum."""

import itertools

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recondite.attacks.gradient.lbfgs import minimise


def rosenbrock(points, rows):
    del rows
    live = points.detach().requires_grad_()
    x, y = live[:, :-1], live[:, 1:]
    values = (100 * (y - x.square()).square() + (1 - x).square()).sum(1)
    return values.detach(), torch.autograd.grad(values.sum(), live)[0]


class Quadratics:
    """½(x - c)ᵀA(x - c), one a row; counts what it was asked."""

    def __init__(self, rows, size, seed, condition=1e3):
        generator = torch.Generator().manual_seed(seed)
        basis = torch.linalg.qr(
            torch.randn(rows, size, size, generator=generator, dtype=torch.float64)
        ).Q
        values = torch.logspace(0, torch.log10(torch.tensor(condition)).item(), size).double()
        self.matrix = basis @ torch.diag(values) @ basis.transpose(1, 2)
        self.centre = torch.randn(rows, size, generator=generator, dtype=torch.float64)
        self.asked = torch.zeros(rows, dtype=torch.int64)

    def __call__(self, points, rows):
        self.asked[rows] += 1
        away = points - self.centre[rows]
        slope = (self.matrix[rows] @ away.unsqueeze(2)).squeeze(2)
        return 0.5 * (away * slope).sum(1), slope


def test_rosenbrock_from_many_starts():
    start = torch.randn(16, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = minimise(rosenbrock, start, steps=400, tolerance=1e-18)
    # A local minimum of Rosenbrock's function in six dimensions has value 3.97.
    good = found.values < 1e-15
    assert good.double().mean() > 0.6
    assert (found.points[good] - 1).abs().max() < 1e-6
    assert (found.values[~good] < 4.0).all()
    assert not found.stopped


@settings(max_examples=15)
@given(
    rows=st.integers(2, 6),
    size=st.integers(1, 12),
    seed=st.integers(0, 10**6),
    condition=st.sampled_from([1.0, 1e2, 1e4]),
)
def test_quadratics_end_at_their_centres_and_rows_are_independent(rows, size, seed, condition):
    problem = Quadratics(rows, size, seed, condition)
    start = torch.zeros(rows, size, dtype=torch.float64)
    together = minimise(problem, start, steps=300, tolerance=1e-20)
    assert (together.points - problem.centre).abs().max() < 1e-7
    pick = seed % rows
    alone = Quadratics(rows, size, seed, condition)

    def one(points, which):
        return alone(points, torch.full_like(which, pick))

    single = minimise(one, start[:1], steps=300, tolerance=1e-20)
    assert torch.allclose(single.points[0], together.points[pick], rtol=0, atol=1e-12)
    # What a row costs does not depend on its neighbours either: ended rows are not asked again.
    assert abs(int(alone.asked[pick]) - int(problem.asked[pick])) <= 2


def test_a_wild_neighbour_changes_nothing():
    start = torch.full((3, 4), -1.5, dtype=torch.float64)

    def wild(points, rows):
        values, slopes = rosenbrock(points, rows)
        hurt = rows == 1
        return torch.where(hurt, torch.nan, values), torch.where(hurt[:, None], 0.0, slopes)

    calm = minimise(rosenbrock, start[:1], steps=60)
    found = minimise(wild, start, steps=60)
    assert torch.equal(found.points[0], calm.points[0])
    assert torch.equal(found.points[2], calm.points[0])
    assert torch.equal(found.points[1], start[1])


def test_ended_rows_cost_no_evaluations():
    problem = Quadratics(3, 8, 1)
    start = problem.centre.clone()
    start[2] += 1.0
    minimise(problem, start, steps=100, tolerance=1e-18)
    assert problem.asked[0] <= 3
    assert problem.asked[1] <= 3
    assert problem.asked[2] > 10


def test_values_never_rise_and_proceed_ends_it():
    seen = []

    def proceed(step, values):
        seen.append(values.clone())
        return step < 7

    start = torch.full((2, 5), 2.0, dtype=torch.float64)
    found = minimise(rosenbrock, start, steps=100, proceed=proceed)
    assert found.stopped
    assert found.steps == 7
    assert all((after <= before).all() for before, after in itertools.pairwise(seen))
    assert torch.equal(rosenbrock(found.points, None)[0], found.values)
