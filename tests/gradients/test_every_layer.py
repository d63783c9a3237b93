"""A walk over torch.nn: what takes a batch and has weights has a rule, or mixes records."""

import copy
import inspect

import pytest
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from recondite.gradients.collector import Collector

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore")
IMAGE, SEQUENCE, VECTOR = (4, 5, 6), (5, 4), (4,)
ATTENTION = {"dim_feedforward": 8, "dropout": 0.0, "batch_first": True}
# How each is made, and the shape of a record in each of its arguments; integers for tokens.
MADE = {
    "Linear": (lambda: nn.Linear(4, 3), [VECTOR]),
    "Bilinear": (lambda: nn.Bilinear(4, 4, 3), [VECTOR, VECTOR]),
    "Conv1d": (lambda: nn.Conv1d(4, 3, 2), [(4, 6)]),
    "Conv2d": (lambda: nn.Conv2d(4, 3, 2), [IMAGE]),
    "Conv3d": (lambda: nn.Conv3d(4, 3, 2), [(4, 2, 5, 3)]),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(4, 3, 2), [(4, 6)]),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(4, 3, 2), [IMAGE]),
    "ConvTranspose3d": (lambda: nn.ConvTranspose3d(4, 3, 2), [(4, 2, 5, 3)]),
    "Embedding": (lambda: nn.Embedding(9, 3), [5]),
    "EmbeddingBag": (lambda: nn.EmbeddingBag(9, 3), [5]),
    "LayerNorm": (lambda: nn.LayerNorm(4), [SEQUENCE]),
    "RMSNorm": (lambda: nn.RMSNorm(4), [SEQUENCE]),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), [IMAGE]),
    "InstanceNorm1d": (lambda: nn.InstanceNorm1d(4, affine=True), [(4, 6)]),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(4, affine=True), [IMAGE]),
    "InstanceNorm3d": (lambda: nn.InstanceNorm3d(4, affine=True), [(4, 2, 5, 3)]),
    "PReLU": (lambda: nn.PReLU(4), [IMAGE]),
    "RNN": (lambda: nn.RNN(4, 3, batch_first=True), [SEQUENCE]),
    "LSTM": (lambda: nn.LSTM(4, 3, batch_first=True), [SEQUENCE]),
    "GRU": (lambda: nn.GRU(4, 3, batch_first=True), [SEQUENCE]),
    "RNNCell": (lambda: nn.RNNCell(4, 3), [VECTOR, (3,)]),
    "LSTMCell": (lambda: nn.LSTMCell(4, 3), [VECTOR]),
    "GRUCell": (lambda: nn.GRUCell(4, 3), [VECTOR, (3,)]),
    "MultiheadAttention": (
        lambda: nn.MultiheadAttention(4, 2, batch_first=True),
        [SEQUENCE, SEQUENCE, SEQUENCE],
    ),
    "TransformerEncoderLayer": (
        lambda: nn.TransformerEncoderLayer(4, 2, **ATTENTION),
        [SEQUENCE],
    ),
    "TransformerDecoderLayer": (
        lambda: nn.TransformerDecoderLayer(4, 2, **ATTENTION),
        [SEQUENCE, (3, 4)],
    ),
    "TransformerEncoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, **ATTENTION), 2),
        [SEQUENCE],
    ),
    "TransformerDecoder": (
        lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, **ATTENTION), 1),
        [SEQUENCE, (3, 4)],
    ),
    "Transformer": (
        lambda: nn.Transformer(4, 2, 1, 1, **ATTENTION),
        [SEQUENCE, (3, 4)],
    ),
}
# Its parts see the rows of one cluster each: no row of theirs belongs to a known record.
UNSERVED = {"AdaptiveLogSoftmaxWithLoss"}
# Not called, or not on a batch of records: holders of others, bases, a loss of the whole batch.
OTHERS = {
    *("ParameterDict", "ParameterList", "Container", "Module", "ModuleDict", "ModuleList"),
    *("Sequential", "Unflatten", "RNNBase", "RNNCellBase", "LinearCrossEntropyLoss"),
}


def with_weights():
    """Names in torch.nn of modules that own weights: their code makes a Parameter, or has parts."""
    found = set()
    for name in dir(nn):
        kind = getattr(nn, name)
        if not (isinstance(kind, type) and issubclass(kind, nn.Module)) or name in OTHERS:
            continue
        if issubclass(kind, _BatchNorm) or name.startswith(("Lazy", "_")):
            continue  # mixes records; or becomes another kind when it is first called
        source = "".join(
            inspect.getsource(base)
            for base in kind.__mro__
            if base.__module__.startswith("torch.nn.modules") and base is not nn.Module
        )
        words = ("Parameter(", "Linear(", "_get_clones(", "TransformerEncoderLayer(")
        if any(word in source for word in words):
            found.add(name)
    return found


def test_the_walk_knows_every_layer_with_weights():
    kinds = with_weights()
    assert kinds <= MADE.keys() | UNSERVED
    assert len(MADE.keys() & kinds) / len(kinds) >= 0.95


def first(out):
    return first(out[0]) if isinstance(out, tuple) else out


@pytest.mark.parametrize("name", MADE)
def test_its_gradients_are_those_of_a_loop(name):
    torch.manual_seed(0)
    make, shapes = MADE[name]
    model = make()
    exact = copy.deepcopy(model).double()
    given = [
        torch.randint(0, 9, (3, s)) if isinstance(s, int) else torch.randn(3, *s) for s in shapes
    ]
    collector = Collector(model)
    out = first(model(*given))
    slopes = torch.randn(out.shape)
    (out * slopes).sum().backward()
    found = collector.per_sample(3, mean=False)
    for row in range(3):
        exact.zero_grad()
        alone = [x[row : row + 1] for x in given]
        alone = [x.double() if x.is_floating_point() else x for x in alone]
        (first(exact(*alone)) * slopes[row : row + 1].double()).sum().backward()
        known = torch.cat(
            [(p.grad if p.grad is not None else p * 0).reshape(-1) for p in exact.parameters()]
        )
        assert (found[row] - known).norm() <= 1e-5 * known.norm()
