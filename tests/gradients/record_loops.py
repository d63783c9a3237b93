"""Per-sample gradients by a loop over records in double precision, and what is compared."""

import copy

import torch
from torch import nn

from recondite.gradients.clipping import Clip
from recondite.gradients.collector import Collector


class Called(nn.Module):
    """A layer, and how it is called."""

    def __init__(self, layer, how=lambda layer, *x: layer(*x)):
        super().__init__()
        self.layer, self.how = layer, how

    def forward(self, *x):
        return self.how(self.layer, *x)


def first(out):
    return first(out[0]) if isinstance(out, tuple) else out


def double(value):
    return value.double() if value.is_floating_point() else value


def compared(model, *inputs, chunk=None):
    """The collector, the gradients it finds, and those of the loop."""
    exact = copy.deepcopy(model).double()
    collector = Collector(model)
    rows = len(inputs[0])
    slopes = torch.randn(first(exact(*map(double, inputs))).shape)
    known = []
    for row in range(rows):
        exact.zero_grad()
        out = first(exact(*(double(x[row : row + 1]) for x in inputs)))
        (out * slopes[row : row + 1].double()).sum().backward()
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in exact.parameters()]
        known.append(torch.cat([g.reshape(-1) for g in grads]))
    known = torch.stack(known)
    (first(model(*inputs)) * slopes).sum().backward()
    assert all(p.grad is None for p in model.parameters())
    found = collector.per_sample(rows, mean=False).double().clone()
    (first(model(*inputs)) * slopes).sum().backward()
    limit = max(0.1, 0.5 * float(known.norm(dim=1).median()))
    bounded = collector.bounded_sum(Clip(limit), rows, mean=False, keep=True).double()
    expected = (limit / known.norm(dim=1)).clamp(max=1.0) @ known
    # Norms are upper bounds, a little above: never below.
    assert (bounded - expected).norm() <= 1e-3 * rows * limit
    (first(model(*inputs)) * slopes).sum().backward()
    with torch.no_grad():
        squared = collector._squared(collector._one_call(rows)).sum(1)
    assert (squared >= known.square().sum(1) * (1 - 1e-5)).all()
    assert torch.isfinite(squared).all()
    collector.remove()
    return collector, found, known


def agree(model, *inputs):
    collector, found, known = compared(model, *inputs)
    assert (found - known).norm() <= 1e-5 * known.norm()
    return collector
