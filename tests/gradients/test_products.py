"""Inner products of bounded gradients, against the gradients themselves."""

import pytest
import torch
from torch import nn

from recondite.gradients.clipping import bound_rule
from recondite.gradients.collector import Collector
from recondite.gradients.handover import bound_rows, units_of

NETWORKS = {
    "linear": lambda: nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3, bias=False)),
    "convolution": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 2, 3)),
        nn.Conv2d(1, 4, 2),
        nn.GroupNorm(2, 4),
        nn.Flatten(),
        nn.Linear(8, 3),
    ),
    "sequence": lambda: nn.Sequential(
        nn.Unflatten(1, (3, 2)), nn.Linear(2, 4), nn.Tanh(), nn.Flatten(), nn.Linear(12, 3)
    ),
}


@pytest.mark.parametrize("clipping", ["flat", "per-layer", "scale", "none"])
@pytest.mark.parametrize("network", NETWORKS)
def test_products_are_those_of_the_rows(network, clipping):
    torch.manual_seed(0)
    model = NETWORKS[network]().double().train()
    x, y = torch.randn(9, 6).double(), torch.randint(0, 3, (9,))
    collector = Collector(model)
    bound = bound_rule(clipping, 0.4, len(collector.rules))

    def backward():
        torch.autograd.backward(nn.functional.cross_entropy(model(x), y))

    backward()
    with torch.no_grad():
        rows = bound_rows(collector.per_sample(9, mean=True).clone(), collector, bound)
        rows = units_of(collector, bound, 4).of(rows)
    vectors, some = torch.randn(2, collector.dim).double(), torch.tensor([4, 1])
    backward()
    with torch.no_grad():
        found = collector.products(bound, 9, vectors, some, mean=True)
    # Norms that clip are upper bounds by a few roundings: products may be that much smaller.
    close = {"rtol": 1e-5, "atol": 1e-6}
    torch.testing.assert_close(found.inner, rows @ vectors.T, **close)
    torch.testing.assert_close(found.squared, rows.square().sum(1), **close)
    torch.testing.assert_close(found.cross, rows[some] @ rows.T, **close)
