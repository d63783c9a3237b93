"""Embeddings: sums over a record's equal tokens, in no more memory than the output's gradient."""

import pytest
import torch
from torch import nn

from recondite.gradients.clipping import Clip
from recondite.gradients.collector import Collector
from recondite.gradients.layers.lookup import LookupRule

torch.set_num_threads(1)
BATCHES = {
    "tokens": (nn.Embedding(9, 4), (5, 7)),
    "padded": (nn.Embedding(9, 4, padding_idx=2), (5, 7)),
    "one a record": (nn.Embedding(9, 4), (5,)),
    "several axes": (nn.Embedding(9, 4), (5, 3, 2)),
    "one kind": (nn.Embedding(1, 3), (4, 6)),
}


def passed(name, scale=1.0):
    torch.manual_seed(0)
    layer, shape = BATCHES[name]
    tokens = torch.randint(0, layer.num_embeddings, shape)
    slopes = scale * torch.randn(*shape, layer.embedding_dim)
    collector = Collector(layer)
    (layer(tokens) * slopes).sum().backward()
    return layer, tokens, slopes, collector


def loop(layer, tokens, slopes):
    found = []
    table = layer.weight.detach().double().requires_grad_()
    for x, slope in zip(tokens, slopes.double(), strict=True):
        out = nn.functional.embedding(x[None], table, layer.padding_idx)
        found.append(torch.autograd.grad(out, table, slope[None])[0])
    return torch.stack(found)


@pytest.mark.parametrize("name", BATCHES)
def test_gradients_norms_and_sums_are_those_of_a_loop(name):
    layer, tokens, slopes, collector = passed(name)
    true = loop(layer, tokens, slopes)
    (rule,), (entry,) = collector.rules.values(), collector.tape.entries
    assert isinstance(rule, LookupRule)
    squared = rule.squared_norms(entry)
    exact = true.square().sum((1, 2))
    assert (squared >= exact * (1 - 1e-9)).all()
    assert torch.allclose(squared, exact, rtol=1e-4)
    weights = torch.rand(len(tokens), dtype=torch.float64)
    (total,) = rule.weighted_sum(entry, weights).values()
    assert torch.allclose(total.double(), torch.tensordot(weights, true, 1), atol=1e-5)
    assert torch.allclose(rule.per_sample(entry)[layer.weight].double(), true, atol=1e-5)


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1.0, 1e12, 1e30])
def test_bounds_hold_at_any_scale_without_a_table_a_record(monkeypatch, scale):
    _, _, _, collector = passed("padded", scale)
    collector._watch.first_step.done = True  # which forms two records' gradients to compare
    monkeypatch.setattr(LookupRule, "per_sample", lambda *_: pytest.fail("formed"))
    for entry in collector.tape.entries:
        entry.backprop[1:] = 0.0
    total = collector.bounded_sum(Clip(0.5), 5, mean=False, keep=True).double().norm()
    assert total <= 0.5 * (1 + 1e-6)
    assert scale < 1 or total >= 0.5 * (1 - 1e-3)


def test_a_record_that_is_not_finite_counts_nothing():
    layer, tokens, slopes, collector = passed("tokens")
    collector._watch.first_step.done = True
    collector.tape.entries[0].backprop[2, 3] = torch.inf
    found = collector.bounded_sum(Clip(1e6), 5, mean=False, keep=True)
    true = loop(layer, tokens, slopes)
    others = true.sum(0) - true[2]
    assert torch.allclose(found.double(), others.flatten(), atol=1e-5)


def test_slopes_that_cancel_cancel_in_the_norm_too():
    layer = nn.Embedding(3, 2)
    collector = Collector(layer)
    (layer(torch.tensor([[1, 1], [0, 1]])) * torch.tensor([1.0, -1.0])[:, None]).sum().backward()
    (rule,), (entry,) = collector.rules.values(), collector.tape.entries
    rule.squared_norms(entry)
    assert rule.settle(entry, torch.arange(2)).tolist() == pytest.approx([0.0, 4.0])
