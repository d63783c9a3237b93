"""Attention, recurrent layers, embeddings and bags against a loop in double precision."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from record_loops import Called, agree
from torch import nn

from recondite.gradients.collector import Collector
from recondite.gradients.layers import rules_for
from recondite.gradients.layers.attention import AttentionRule, is_attention
from recondite.gradients.layers.lookup import BagRule, LookupRule
from recondite.gradients.layers.recurrent import CellRule, RecurrentRule, is_recurrent
from recondite.gradients.layers.sites import Site

torch.set_num_threads(1)
SIZES = {"max_examples": 12, "deadline": None, "derandomize": True}
small = st.integers(1, 4)


def fast(model, kind):
    rules = rules_for(model)
    assert any(isinstance(rule, kind) for rule in rules.values())
    assert not any(rule.slow for rule in rules.values())


def transposed(layer, *x):
    """Time first, as torch's default has it; records first again."""
    out = layer(*(each.transpose(0, 1) for each in x))
    return (out[0] if isinstance(out, tuple) else out).transpose(0, 1)


def everything(layer, x):
    """Sequence and last states, all of which the loss sees."""
    out, last = layer(x)
    states = last if isinstance(last, tuple) else (last,)
    flat = [state.movedim(1, 0).flatten(1) for state in states]
    return torch.cat([out.flatten(1), *flat], 1)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@settings(**SIZES)
@given(small, small, small, st.integers(2, 5), st.data())
def test_recurrent_layers(kind, inputs, hidden, length, rows, data):
    torch.manual_seed(inputs + 10 * hidden)
    yes = st.booleans()
    options = {
        "num_layers": data.draw(st.integers(1, 2)),
        "bidirectional": data.draw(yes),
        "bias": data.draw(yes),
        "batch_first": data.draw(yes),
    }
    if kind is nn.RNN:
        options["nonlinearity"] = data.draw(st.sampled_from(["tanh", "relu"]))
    layer = kind(inputs, hidden, **options)
    how = everything if options["batch_first"] else transposed
    model = nn.Sequential(nn.Linear(inputs, inputs), Called(layer, how))
    fast(model, RecurrentRule)
    agree(model, torch.randn(rows, length, inputs))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_states_that_are_given_have_gradients_of_their_own(kind):
    torch.manual_seed(0)

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.layer = kind(3, 4, batch_first=True), kind(2, 4, batch_first=True)

        def forward(self, x, y):
            return self.layer(y, self.before(x)[1])[0]

    agree(Decoder(), torch.randn(4, 5, 3), torch.randn(4, 3, 2))


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
@settings(**SIZES)
@given(small, small, st.integers(1, 3), st.integers(2, 5), st.booleans())
def test_cells_step_by_step(kind, inputs, hidden, steps, rows, bias):
    torch.manual_seed(inputs + 10 * hidden)

    class Steps(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = kind(inputs, hidden, bias=bias)

        def forward(self, x):
            state = None
            for step in x.unbind(1):
                state = self.cell(step, state)
            return torch.cat(state, 1) if isinstance(state, tuple) else state

    fast(Steps(), CellRule)
    agree(Steps(), torch.randn(rows, steps, inputs))


def test_a_part_of_a_recurrent_layer_can_be_frozen():
    torch.manual_seed(0)
    for name in ("weight_ih_l0", "weight_hh_l0", "bias_hh_l1"):
        layer = nn.GRU(3, 4, 2, batch_first=True)
        layer.requires_grad_(False)
        getattr(layer, name).requires_grad_(True)
        collector = Collector(layer)
        x, slopes = torch.randn(4, 5, 3), torch.randn(4, 5, 4)
        (layer(x)[0] * slopes).sum().backward()
        found = collector.per_sample(4, mean=False).clone()
        collector.remove()
        for row in range(4):
            (layer(x[row : row + 1])[0] * slopes[row : row + 1]).sum().backward()
            alone = getattr(layer, name).grad
            assert torch.allclose(found[row], alone.flatten(), atol=1e-5), name
            layer.zero_grad()


@settings(**SIZES)
@given(st.integers(1, 3), st.integers(1, 2), small, small, st.integers(2, 5), st.data())
def test_attention(heads, each, queries, keys, rows, data):
    torch.manual_seed(heads + 10 * each)
    width, yes = heads * each, st.booleans()
    first, weights, bias = data.draw(yes), data.draw(yes), data.draw(yes)
    other = data.draw(st.sampled_from([None, 3]))
    masked = data.draw(st.sampled_from([None, "bool", "float"]))
    layer = nn.MultiheadAttention(
        width, heads, bias=bias, kdim=other, vdim=other, batch_first=first
    )
    mask = None
    if masked == "bool":
        mask = torch.ones(queries, keys).triu(1).bool()
    elif masked == "float":
        mask = torch.randn(queries, keys)

    def how(layer, q, k, v, padding):
        given = (q, k, v) if first else (x.transpose(0, 1) for x in (q, k, v))
        hidden = (padding[:, :keys] > 0.5).bool()
        hidden[:, 0] = False  # something is left to attend to
        out, shares = layer(*given, key_padding_mask=hidden, need_weights=weights, attn_mask=mask)
        out = out if first else out.transpose(0, 1)
        return out if shares is None else torch.cat([out.flatten(1), shares.flatten(1)], 1)

    sizes = width, other or width
    model = Called(layer, how)
    fast(model, AttentionRule)
    agree(
        model,
        torch.randn(rows, queries, sizes[0]),
        torch.randn(rows, keys, sizes[1]),
        torch.randn(rows, keys, sizes[1]),
        torch.rand(rows, 7),
    )


def test_attention_is_what_torch_computes():
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(6, 3, dropout=0.4, batch_first=True)
    x = torch.randn(4, 5, 6)
    for weights in (True, False):
        torch.manual_seed(1)
        plain = layer(x, x, x, need_weights=weights)
        collector = Collector(layer)
        torch.manual_seed(1)
        ours = layer(x, x, x, need_weights=weights)
        collector.remove()
        assert torch.allclose(plain[0], ours[0], atol=1e-6)  # dropout of the same draws
        assert not weights or torch.allclose(plain[1], ours[1], atol=1e-6)


def test_attention_with_a_frozen_part_and_other_kinds_of_it():
    layer = nn.MultiheadAttention(4, 2, batch_first=True)
    layer.in_proj_weight.requires_grad_(False)
    layer.in_proj_bias.requires_grad_(False)
    collector = Collector(layer)
    x = torch.randn(3, 5, 4)
    layer(x, x, x)[0].square().sum().backward()
    assert collector.per_sample(3, mean=False).shape == (3, 20)
    assert not is_attention(nn.MultiheadAttention(4, 2, add_bias_kv=True))
    assert not is_attention(nn.MultiheadAttention(4, 2, add_zero_attn=True))


def test_a_transformer_has_no_slow_layer():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 2)
    fast(model, AttentionRule)
    agree(model, torch.randn(4, 5, 4))


def test_a_batch_that_is_not_there_is_refused_in_one_line():
    for model, x, said in (
        (nn.LSTM(3, 2), torch.randn(4, 3), "without a batch"),
        (nn.GRUCell(3, 2), torch.randn(3), "without a batch"),
        (Called(nn.MultiheadAttention(3, 1), lambda m, x: m(x, x, x)), torch.randn(4, 3), "batch"),
        (
            Called(nn.EmbeddingBag(9, 2), lambda m, x: m(x, torch.tensor([0, 2]))),
            torch.randint(0, 9, (4,)),
            "offsets",
        ),
    ):
        Collector(model)
        with pytest.raises(ValueError, match=said) as error:
            model(x)
        assert "\n" not in str(error.value)


def test_memory_does_not_grow_with_the_records_times_the_weights():
    rule = rules_for(nn.LSTM(3, 4))
    assert all(is_recurrent(layer) for layer in rule)
    site = Site(nn.Parameter(torch.randn(6, 2)), None, slice(2, 4))
    assert site.weight.shape == (2, 2)
    assert site.weight.is_meta


@settings(**SIZES)
@given(small, st.integers(1, 6), st.integers(2, 5), st.booleans(), st.data())
def test_embeddings_and_bags(width, length, rows, padding, data):
    torch.manual_seed(width)
    tokens = torch.randint(0, 5, (rows, length))
    pad = 2 if padding else None
    plain = nn.Embedding(5, width, padding_idx=pad)
    fast(plain, LookupRule)
    agree(plain, tokens)
    agree(nn.Embedding(5, width, padding_idx=pad), tokens[:, :, None])
    agree(nn.Embedding(5, width, padding_idx=pad), tokens[:, 0])
    mode = data.draw(st.sampled_from(["sum", "mean", "max"]))
    bag = nn.EmbeddingBag(5, width, mode=mode, padding_idx=pad)
    fast(bag, BagRule)
    agree(bag, tokens)


def test_bags_with_weights_that_are_learnt_too():
    class Weighted(nn.Module):
        def __init__(self):
            super().__init__()
            self.shares, self.bag = nn.Linear(5, 3), nn.EmbeddingBag(7, 4, mode="sum")

        def forward(self, x):
            tokens = (x[:, :3].abs() * 3).long().clamp(max=6)
            return self.bag(tokens, per_sample_weights=self.shares(x))

    torch.manual_seed(0)
    agree(Weighted(), torch.randn(4, 5))
