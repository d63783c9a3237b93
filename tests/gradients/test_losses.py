"""The loss of a record by what its label is."""

import pytest
import torch
from torch.nn import functional

from recondite.gradients.losses import usual_loss


def test_classes_probabilities_and_amounts():
    logits = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0, 1, 2, 0, 1])
    assert torch.equal(usual_loss(logits, labels), functional.cross_entropy(logits, labels))
    soft = torch.softmax(logits.flip(0), 1)
    assert torch.equal(usual_loss(logits, soft), functional.cross_entropy(logits, soft))
    amounts = torch.arange(5.0)
    wanted = (logits[:, 0] - amounts).square()
    torch.testing.assert_close(usual_loss(logits[:, :1], amounts), wanted.mean())
    torch.testing.assert_close(usual_loss(logits[:, :1], amounts, "sum"), wanted.sum())


def test_amounts_need_one_output():
    with pytest.raises(ValueError, match="one output a record"):
        usual_loss(torch.randn(2, 3), torch.randn(2))
