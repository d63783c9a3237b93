"""Turned gradients that keep their lengths: the papers' law, and no promise."""

import math

import pytest
import torch

import recondite as rc
from recondite.mechanisms import Setting, mechanisms
from recondite.models import build
from recondite.numerics.bessel import bessel_ratio
from recondite.studies.defences import kinds, mechanism
from recondite_papers.kept_lengths import KeptLengths
from recondite_papers.stacked import Stack
from recondite_papers.stacked.blocks import Partition

SHAPES = ((4, 6), (4,))


def configured(kappa, blocks):
    setting = Setting(SHAPES, max_batch_size=8, batch_size=8)
    return KeptLengths(kappa, blocks=blocks).configured(setting)


@pytest.mark.parametrize(("norm", "length"), [(1.0, 1.0), (1e6, 3.0)])
def test_the_mean_of_many_records_is_the_gradient_shrunk(norm, length):
    generator = torch.Generator().manual_seed(0)
    gradient = torch.randn(28, generator=generator)
    gradient *= 3.0 / gradient.norm()
    many = gradient.expand(20_000, 28)
    bounded = gradient * length / 3.0
    signs = norm * configured(0.5, "elements").release(many / norm, generator)
    assert torch.allclose(signs, math.tanh(0.5) * bounded, atol=0.03)
    rows = norm * configured(2.0, "rows").release(many / norm, generator)
    parts = zip(rows.split([6, 6, 6, 6, 4]), bounded.split([6, 6, 6, 6, 4]), strict=True)
    for found, known in parts:
        shrunk = float(bessel_ratio(0.5 * len(known) - 1.0, 2.0)) * known
        assert torch.allclose(found, shrunk, atol=0.04)


def test_sizes_are_kept_exactly():
    gradient = torch.randn(1, 28, generator=torch.Generator().manual_seed(1)) / 10
    out = configured(1.0, "elements").release(gradient)
    assert torch.equal(out.abs(), gradient[0].abs())
    out = configured(1.0, "rows").release(gradient)
    for found, known in zip(out.split([6, 6, 6, 6, 4]), gradient[0].split([6, 6, 6, 6, 4]),
                            strict=True):  # fmt: skip
        assert float(found.norm()) == pytest.approx(float(known.norm()), rel=1e-5)
    assert torch.equal(configured(1.0, "elements").release(torch.zeros(0, 28)), torch.zeros(28))


def test_it_is_the_stacked_jobs_noise():
    """The same law as ``Release("directional", blocks="elements", weights="clipped")``."""
    shape = (1, 8, 8)
    stack = Stack([build("mlp", shape, seed=0)])
    flat = torch.randn(stack.dim, generator=torch.Generator().manual_seed(2))
    flat *= 0.7 / flat.norm()
    count = 4000
    pieces = flat.split([math.prod(s) for s in stack.shapes])
    rows = [p.view(s).expand(1, count, *s) for p, s in zip(pieces, stack.shapes, strict=True)]
    partition = Partition(stack, [1.0], "elements", "clipped", torch.Generator().manual_seed(0))
    theirs = partition(rows, torch.ones(1, count))[0] / count
    setting = Setting(tuple(map(tuple, stack.shapes)), max_batch_size=count)
    ours = (
        KeptLengths(1.0)
        .configured(setting)
        .release(flat.expand(count, -1), torch.Generator().manual_seed(3))
    )
    kept = math.tanh(1.0)
    spread = flat.abs() * math.sqrt((1 - kept**2) / count)
    for found in (ours, theirs):
        gaps = (found - kept * flat) / spread
        assert float(gaps.square().mean()) == pytest.approx(1.0, abs=0.1)


def test_it_promises_nothing():
    made = configured(1.0, "elements")
    for schedule in (rc.FixedSize(8, 100, 1), rc.FixedSize(8, 100, 50)):
        assert rc.epsilon(made, schedule, 1e-5) == math.inf
    assert made.log_bayes_capacity() == made.mutual_information() == math.inf
    assert made.metric_privacy().per_record == made.fisher_information() == math.inf
    with pytest.raises(ValueError, match="no density"):
        made.log_likelihood(torch.zeros(28), torch.zeros(1, 28))
    # Only a comparison can name it: it is no mechanism to protect anybody with.
    assert KeptLengths.name not in mechanisms()
    assert kinds()[KeptLengths.name].private is False
    assert mechanism("kept-lengths", 2.0, {"blocks": "rows"}) == KeptLengths(2.0, blocks="rows")
