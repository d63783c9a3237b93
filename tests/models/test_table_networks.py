"""Networks for tables: embeddings are rows of weights, and the rules read their gradients."""

import pytest
import torch

from recondite.gradients.collector import Collector
from recondite.models import build, resolve

ONE_HOT = ((0, 3), (4, 9))


def test_an_embedding_is_the_row_that_a_category_picks():
    model = build("table-embedding", (9,), 2, seed=0, one_hot=ONE_HOT)
    rows = torch.zeros(2, 9)
    rows[0, [1, 4]], rows[1, [2, 8]], rows[:, 3] = 1.0, 1.0, torch.tensor([0.5, -2.0])
    made = model.embed(rows)
    assert made.shape == (2, 1 + 2 + 3)
    assert torch.equal(made[:, 0], rows[:, 3])
    assert torch.equal(made[0, 1:3], model.embed.columns[0].weight[:, 1])
    assert torch.equal(made[1, 3:], model.embed.columns[1].weight[:, 4])


@pytest.mark.parametrize("name", ["table-mlp", "table-embedding"])
def test_they_train_privately_and_predict_amounts(name):
    model = resolve(name, (9,), 1, seed=0, one_hot=ONE_HOT)
    Collector(model)
    assert model(torch.randn(4, 9)).shape == (4, 1)


def test_images_are_refused_by_embeddings():
    with pytest.raises(ValueError, match="takes rows of a table"):
        build("table-embedding", (1, 8, 8), 2)
