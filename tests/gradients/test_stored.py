"""What layers keep in plain attributes: what depends on the record is found, all else is not."""

import random
from collections import deque
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from recondite.gradients.stored import data_kept


class Layer(nn.Module):
    def __init__(self, keep):
        super().__init__()
        self.keep = keep
        self.cells, self.names, self.queue = [], {"a": [1]}, deque(maxlen=3)
        self.notes, self.told, self.calls = SimpleNamespace(inner={}), set(), 0
        self.cache = None

    def forward(self, x):
        self.calls += 1
        self.keep(self, x)
        return x


def found(keep):
    model = nn.Sequential(nn.Identity(), Layer(keep))
    layer, rows = model[1], torch.arange(6.0).reshape(2, 3)
    seeds = torch.get_rng_state()

    def alone(row):
        def run():
            torch.set_rng_state(seeds)
            model(rows[row : row + 1])

        return run

    before = dict(vars(layer)), list(layer.cells), dict(layer.names), list(layer.queue)
    name = data_kept(model, (alone(0), alone(1)))
    assert (dict(vars(layer)), layer.cells, layer.names, list(layer.queue)) == before
    assert layer.names["a"] == [1]
    assert vars(layer.notes) == {"inner": {}}
    assert layer.told == set()
    return name


@pytest.mark.parametrize(
    "keep",
    [
        lambda layer, x: setattr(layer, "cache", x),
        lambda layer, x: setattr(layer, "cache", x.mean()),
        lambda layer, x: setattr(layer, "cache", float(x.sum())),
        lambda layer, x: setattr(layer, "cache", x.numpy().copy()),
        lambda layer, x: setattr(layer, "new", str(x)),
        lambda layer, x: layer.cells.append(x),
        lambda layer, x: layer.queue.append((0, {"x": x})),
        lambda layer, x: layer.names["a"].append(x[0, 0].item()),
        lambda layer, x: layer.names.update({"b": x}),
        lambda layer, x: layer.told.add(float(x[0, 1])),
        lambda layer, x: layer.notes.inner.update(last=[x]),
        lambda layer, x: setattr(layer.notes, "last", x),
        lambda layer, x: layer.cells.extend([0] * int(x[0, 0] + 1)),
    ],
)
def test_what_depends_on_the_record_is_named(keep):
    assert found(keep).startswith("1.")


@pytest.mark.parametrize(
    "keep",
    [
        lambda layer, x: None,
        lambda layer, x: setattr(layer, "cache", torch.arange(x.shape[1])),
        lambda layer, x: layer.cells.append(layer.calls),
        lambda layer, x: setattr(layer, "cache", torch.rand(4)),  # from torch's generator
        lambda layer, x: setattr(layer, "cache", random.random()),
        lambda layer, x: layer.names.update(shape=tuple(x.shape)),
        lambda layer, x: setattr(layer, "cache", torch.tensor([np.nan])),
        lambda layer, x: (setattr(layer, "cache", x), setattr(layer, "cache", None)),
    ],
)
def test_what_does_not_is_let_be(keep):
    assert found(keep) is None


def test_a_run_that_fails_leaves_nothing():
    model = Layer(lambda layer, x: layer.cells.append(x))

    def run():
        model(torch.ones(1))
        raise RuntimeError

    with pytest.raises(RuntimeError):
        data_kept(model, (run, run))
    assert model.cells == []
    assert model.calls == 0


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_recurrent_layers_keep_nothing(kind):
    net = kind(3, 4, batch_first=True)
    rows = torch.randn(2, 5, 3)
    assert data_kept(net, (lambda: net(rows[:1]), lambda: net(rows[1:]))) is None
