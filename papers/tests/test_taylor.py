"""Eq. 17 of Tan et al. (2024): the remainder, its order, and the verdict from stored rows."""

import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from recondite_papers.jobs.sink import Context
from recondite_papers.jobs.taylor import _expanded, first_order
from recondite_papers.tables import taylor

ROOT = Path(__file__).resolve().parents[2]


def stored():
    sys.path.insert(0, str(ROOT / "papers" / "pages"))
    try:
        import parts
    finally:
        sys.path.pop(0)
    return parts.rows("channel-taylor")


def test_the_remainder_is_that_of_a_gradient_worked_out_by_hand():
    """For one weight and squared error in disguise: finite differences of autograd's gradient."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.Sigmoid(), nn.Linear(3, 2)).double()
    image, label = torch.rand(1, 1, 2, 2).double(), torch.tensor([1])
    noise = 0.1 * torch.randn(1, 1, 2, 2).double()

    def gradient(x):
        loss = nn.functional.cross_entropy(model(x), label)
        return torch.cat([g.flatten() for g in torch.autograd.grad(loss, model.parameters())])

    tiny = 1e-6
    along = (gradient(image + tiny * noise) - gradient(image - tiny * noise)) / (2 * tiny)
    change = gradient(image + noise) - gradient(image)
    found = _expanded(model, image, label, noise)
    assert float(found[0]) == pytest.approx(float(change.norm()), rel=1e-9)
    assert float(found[1]) == pytest.approx(float((change - along).norm()), rel=1e-3)


def test_a_small_run_has_the_second_order_that_is_told_for_a_smooth_network():
    context = Context(quick=True, say=lambda line: None)
    first_order(context)
    rows = context.sink("channel-taylor").rows
    assert taylor.order_of(rows) == pytest.approx(2.0, abs=0.05)
    assert len(taylor.first_order(rows)) == len(rows) == 10
    assert taylor.first_order_verdict(rows) == []


def test_the_pages_verdict_is_that_of_the_stored_rows():
    (one,) = taylor.first_order_verdict(stored())
    assert one.stands == "in part"
    assert len(one.believe.split()) <= 12
    page = (ROOT / "docs" / "studies" / "channel.md").read_text()
    assert one.evidence in page
    trained = [
        r
        for r in stored()
        if (r["network"], r["victim"], r["noise"]) == ("mlp2", "trained", "natural")
    ]
    assert f"{100 * max(r['remainder'] for r in trained):.0f}% trained" in one.evidence
