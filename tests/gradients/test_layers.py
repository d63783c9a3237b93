"""Every layer's per-sample gradients against a loop over records in double precision."""

import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from record_loops import Called, agree
from torch import nn
from torch.nn import functional

import recondite as rc
from recondite.gradients.clipping import Clip
from recondite.gradients.collector import Collector
from recondite.gradients.layers import norms, rules_for
from recondite.gradients.layers.formed import RMSNormRule
from recondite.gradients.layers.listing import list_layers
from recondite.gradients.layers.slow import SlowRule
from recondite.gradients.layers.tied import TiedRule
from recondite.gradients.tape import Entry

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore:no fast per-sample rule")


class Conv1D(nn.Module):
    """The layout of GPT-2's linear layers."""

    def __init__(self, nf, nx):
        super().__init__()
        self.nf, self.nx = nf, nx
        self.weight, self.bias = nn.Parameter(torch.randn(nx, nf)), nn.Parameter(torch.zeros(nf))

    def forward(self, x):
        return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(
            *x.shape[:-1], self.nf
        )


class OtherRMSNorm(nn.Module):
    """As Transformers has it for Llama; ``plus`` is Gemma's 1."""

    def __init__(self, width, plus=0.0, power=1):
        super().__init__()
        self.weight, self.variance_epsilon = nn.Parameter(torch.randn(width)), 1e-5
        self.plus, self.power = plus, power

    def forward(self, x):
        even = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return (self.plus + self.weight) ** self.power * even


FAST = {
    "linear": lambda a, b, n: (nn.Linear(a, b), (n, a)),
    "sequence": lambda a, b, n: (nn.Linear(a, b, bias=False), (3, n, a)),
    "conv1d": lambda a, b, n: (nn.Conv1d(2 * a, 2 * b, 2, groups=2, dilation=2), (2 * a, n + 3)),
    "conv2d": lambda a, b, n: (nn.Conv2d(a, b, (1, 3), stride=2, padding=1), (a, n, 5)),
    "conv3d": lambda a, b, n: (nn.Conv3d(a, b, (2, 1, 2)), (a, 2, n, 3)),
    "transposed 1d": lambda a, b, n: (nn.ConvTranspose1d(a, b, 3, stride=2), (a, n)),
    "transposed 2d": lambda a, b, n: (
        nn.ConvTranspose2d(2 * a, 2 * b, 3, 2, 1, output_padding=1, groups=2),
        (2 * a, n, 2),
    ),
    "transposed 3d": lambda a, b, n: (nn.ConvTranspose3d(a, b, 2, bias=False), (a, 2, n, 1)),
    "layer norm": lambda a, b, n: (nn.LayerNorm(a + 1), (n, a + 1)),
    "rms norm": lambda a, b, n: (nn.RMSNorm(a + 1), (n, a + 1)),
    "group norm": lambda a, b, n: (nn.GroupNorm(2, 2 * a), (2 * a, n + 1)),
    "instance norm": lambda a, b, n: (nn.InstanceNorm1d(a, affine=True), (a, n + 1)),
    "instance norm 2d": lambda a, b, n: (nn.InstanceNorm2d(a, affine=True), (a, n + 1, b)),
    "instance norm 3d": lambda a, b, n: (nn.InstanceNorm3d(a, affine=True), (a, n + 1, b, 2)),
    "Llama's norm": lambda a, b, n: (OtherRMSNorm(a + 1), (n, a + 1)),
    "Gemma's norm": lambda a, b, n: (OtherRMSNorm(a + 1, 1.0), (b, n, a + 1)),
    "prelu": lambda a, b, n: (nn.PReLU(), (a, n)),
    "prelu of channels": lambda a, b, n: (nn.PReLU(a), (a, n, 2)),
    "GPT-2": lambda a, b, n: (Conv1D(b, a), (n, a)),
}


@pytest.mark.parametrize("name", FAST)
@settings(max_examples=5, deadline=None, derandomize=True)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 4), st.integers(2, 5))
def test_fast_rules_equal_a_loop_in_double_precision(name, a, b, n, rows):
    torch.manual_seed(a + 10 * b)
    layer, shape = FAST[name](a, b, n)
    assert not any(rule.slow for rule in rules_for(layer).values())
    agree(nn.Sequential(layer), torch.randn(rows, *shape))


def test_a_norm_of_that_name_that_does_something_else_has_not_its_rule():
    collector = agree(nn.Sequential(OtherRMSNorm(3, power=2)), torch.randn(4, 2, 3))
    assert not any(isinstance(rule, RMSNormRule) for rule in collector.rules.values())


def test_every_norm_of_transformers_is_fast(transformer):
    from recondite.models import resolve

    model = resolve(transformer("llama"), (8,), 2, seed=0)
    rules = rules_for(model)
    assert sum(type(layer).__name__ == "LlamaRMSNorm" for layer in rules) == 5
    assert not any(rule.slow for rule in rules.values())


@settings(max_examples=5, deadline=None, derandomize=True)
@given(st.integers(1, 5), st.integers(1, 6), st.integers(2, 5), st.booleans())
def test_embeddings_equal_a_loop(width, length, rows, padding):
    layer = nn.Embedding(7, width, padding_idx=2 if padding else None)
    agree(layer, torch.randint(0, 7, (rows, length)))


SLOW = {
    "projected": (
        lambda: Called(nn.LSTM(4, 3, 2, proj_size=2, bidirectional=True, batch_first=True)),
        (5, 4),
    ),
    "time first": (
        lambda: Called(
            nn.LSTM(4, 3, proj_size=2), lambda layer, x: layer(x.movedim(1, 0))[0].movedim(1, 0)
        ),
        (5, 4),
    ),
    "zero attention": (
        lambda: Called(
            nn.MultiheadAttention(4, 2, batch_first=True, add_bias_kv=True, add_zero_attn=True),
            lambda m, x: m(x, x, x),
        ),
        (5, 4),
    ),
    "bilinear": (lambda: Called(nn.Bilinear(4, 4, 3), lambda m, x: m(x, x)), (4,)),
    "reflected": (lambda: nn.Conv1d(3, 3, 2, padding=1, padding_mode="reflect"), (3, 6)),
    "uneven": (lambda: nn.Conv2d(3, 3, 2, padding="same"), (3, 6, 5)),
    "weight norm": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)), (4,)),
}


@pytest.mark.parametrize("name", SLOW)
def test_the_slow_rule_equals_a_loop(name):
    torch.manual_seed(0)
    make, shape = SLOW[name]
    model = make()
    collector = agree(model, torch.randn(4, *shape))
    assert any(isinstance(rule, SlowRule) for rule in collector.rules.values())


def test_recurrent_weights_are_the_layers_own_afterwards():
    model = nn.LSTM(4, 3, batch_first=True)
    agree(model, torch.randn(4, 5, 4))
    assert all(a is b for a, b in zip(model._flat_weights, model.parameters(), strict=True))


class Language(nn.Module):
    """Positions once for the batch, and an output that shares the table of the input."""

    def __init__(self):
        super().__init__()
        self.table, self.places = nn.Embedding(9, 4, padding_idx=1), nn.Embedding(7, 4)
        self.mix, self.head = Conv1D(4, 4), nn.Linear(4, 9)
        self.head.weight = self.table.weight

    def forward(self, tokens):
        x = self.table(tokens) + self.places(torch.arange(tokens.shape[1])[None])
        return self.head(torch.tanh(self.mix(x)))


def test_shared_weights_and_positions_once_for_the_batch():
    collector = agree(Language(), torch.randint(0, 9, (5, 6)))
    assert sum(isinstance(rule, TiedRule) for rule in collector.rules.values()) == 1
    assert sum(collector.layer_sizes) == collector.dim == 36 + 28 + 20 + 9


def test_slow_layers_are_named_once_with_their_cost():
    with pytest.warns(
        UserWarning, match=r"layer 0 \(Bilinear\), 1 \(LSTM\).*, 128 numbers"
    ) as told:
        Collector(
            nn.ModuleList([nn.Bilinear(3, 3, 4), nn.LSTM(1, 4, proj_size=2), nn.Linear(2, 2)])
        )
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Collector(nn.Linear(2, 2))


def test_dropout_within_a_slow_layer_is_that_of_the_pass():
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(4, 2, dropout=0.5, batch_first=True, add_bias_kv=True)
    model = nn.Sequential(Called(layer, lambda m, x: m(x, x, x)[0]), nn.Linear(4, 1))
    collector = Collector(model)
    out = model(torch.randn(6, 5, 4))
    # The last bias's gradient is known whatever was dropped; attention's is where out depends.
    out.sum().backward()
    with pytest.warns(UserWarning, match="not checked"):
        found = collector.per_sample(6, mean=False)
    assert torch.allclose(found[:, -1], torch.full((6,), 5.0))
    assert found.isfinite().all()


def test_an_argument_as_long_as_the_batch_is_refused_where_it_is_no_record():
    layer = nn.MultiheadAttention(4, 2, batch_first=True, add_zero_attn=True)
    mask = torch.ones(5, 5).triu(1).bool()
    model = Called(layer, lambda m, x: m(x, x, x, attn_mask=mask)[0])
    Collector(model)
    with pytest.raises(ValueError, match="where a record is alone"):
        model(torch.randn(5, 5, 4))


class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 3))

    def forward(self, x):
        (weight,) = self.weight.chunk(1)
        return (x @ weight).sum()


def test_results_without_records_are_refused_in_one_line():
    model = Pooled()
    Collector(model)
    with pytest.raises(ValueError, match="no axis of it holds the records") as error:
        model(torch.randn(4, 3))
    assert "\n" not in str(error.value)
    recurrent = nn.LSTM(3, 2)
    Collector(recurrent)
    packed = nn.utils.rnn.pack_sequence([torch.randn(4, 3), torch.randn(2, 3)])
    with pytest.raises(ValueError, match="PackedSequence"):
        recurrent(packed)


def test_a_private_run_with_slow_and_shared_layers_is_its_bounded_sum():
    model = nn.Sequential(Language(), nn.Flatten(), nn.Linear(54, 3))
    tokens, labels = torch.randint(0, 9, (8, 6)), torch.randint(0, 3, (8,))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine = rc.PrivacyEngine(seed=0)
        _, optimizer, loader = engine.make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=torch.utils.data.DataLoader(
                torch.utils.data.TensorDataset(tokens, labels), batch_size=4
            ),
            mechanism=rc.Gaussian(1.0),
            clipping="per-layer",
        )
        for x, y in loader:
            optimizer.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    assert engine.steps >= 1
    assert all(p.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("drop", [0.0, 0.5])
def test_the_first_step_refuses_a_rule_that_is_wrong(drop, monkeypatch):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Dropout(drop), nn.Linear(5, 3))
    collector, x = Collector(model), torch.randn(4, 6)
    rule = collector.rules[model[0]]
    right = type(rule).per_sample
    wrong = lambda self, entry: {p: 1.05 * g for p, g in right(self, entry).items()}  # noqa: E731
    monkeypatch.setattr(type(rule), "per_sample", wrong)
    for _ in range(2):  # it is refused again until it is right
        model(x).square().sum().backward()
        with pytest.raises(ValueError, match=r"gradient of \d.\w+ is not that of its") as error:
            collector.bounded_sum(Clip(1.0), 4, mean=False, keep=True)
        assert "\n" not in str(error.value)
        collector.tape.clear()
    monkeypatch.undo()
    model(x).square().sum().backward()
    assert collector.bounded_sum(Clip(1.0), 4, mean=False, keep=True).isfinite().all()
    assert collector._watch.first_step.done
    assert not collector.tape.calls


class Squeezed(nn.Module):
    """Uses the one row of its positions in a way that more rows change."""

    def __init__(self):
        super().__init__()
        self.places, self.head = nn.Embedding(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.head(x) + self.head(self.places(torch.arange(4)[None]).sum((0, 1)) * x)


def test_a_row_that_is_not_broadcast_is_refused():
    model = Squeezed()
    Collector(model)
    with pytest.raises(ValueError, match="another input"):
        model(torch.randn(3, 4))


class WithLoss(nn.Module):
    def __init__(self, drop):
        super().__init__()
        self.layer, self.drop = nn.Linear(4, 3), nn.Dropout(drop)

    def forward(self, x, labels):
        out = self.layer(self.drop(x))
        return {"loss": functional.cross_entropy(out, labels), "logits": out}


def test_a_model_that_returns_its_mean_loss_is_checked_up_to_its_factor():
    model, x, labels = WithLoss(0.0), torch.randn(5, 4), torch.randint(0, 3, (5,))
    collector = Collector(model)
    model(x, labels=labels)["loss"].backward()
    assert collector.bounded_sum(Clip(1.0), 5, mean=True, keep=True).isfinite().all()
    model = WithLoss(0.5)
    collector = Collector(model)
    model(x, labels=labels)["loss"].backward()
    with pytest.warns(UserWarning, match="not checked: the model draws random numbers"):
        collector.bounded_sum(Clip(1.0), 5, mean=True, keep=True)


def test_parts_that_are_called_apart_are_checked_together():
    encoder, head = nn.Linear(4, 4), nn.Linear(4, 2)
    model = nn.ModuleDict({"encoder": encoder, "head": head})
    collector = Collector(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = head(torch.tanh(encoder(torch.randn(5, 4))))
    out.sum().backward()
    assert collector.bounded_sum(Clip(1.0), 5, mean=False, keep=True).isfinite().all()
    assert collector._watch.first_step.done


def test_shared_and_slow_layers_are_named():
    model = nn.ModuleDict(
        {
            "a": nn.Linear(3, 3),
            "b": nn.Linear(3, 3),
            "c": nn.LSTM(3, 3, proj_size=2),
            "d": nn.ReLU(),
        }
    )
    model["b"].weight = model["a"].weight
    found = {layer.name: layer for layer in list_layers(model)}
    assert list(found) == ["a", "c"]
    assert found["a"].parameters == 15
    assert found["a"].cost.endswith("shared with Linear")
    assert found["c"].rule == "slow"


@pytest.mark.parametrize(
    ("layers", "shape", "batch"),
    [
        ([nn.Linear(4, 3)], (4,), 5),
        ([nn.Linear(40, 30)], (6, 40), 5),
        ([nn.Linear(4, 3)], (9, 4), 5),
        ([nn.Conv2d(2, 3, 3), nn.Flatten(), nn.Linear(12, 2)], (2, 4, 4), 5),
        ([nn.Conv2d(64, 128, 3), nn.Flatten()], (64, 4, 4), 300),
        ([nn.Conv2d(64, 128, 3, padding=1), nn.Flatten()], (64, 16, 16), 300),
        ([nn.Conv2d(64, 128, 3, padding=1), nn.Flatten()], (64, 32, 32), 20),
    ],
)
def test_the_norms_that_are_listed_are_those_that_are_taken(layers, shape, batch, monkeypatch):
    model = nn.Sequential(*layers)
    listed = [x.norms for x in list_layers(model, torch.zeros(1, *shape), batch)]
    made, taken = [], []
    gram = norms.gram
    monkeypatch.setattr(norms, "gram", lambda *given: made.append(1) or gram(*given))
    rules = rules_for(model)
    for layer in layers:
        if layer not in rules:
            continue
        made.clear()
        given, grad = passed(model, layer, shape, batch)
        rules[layer].squared_norms(Entry(layer, given, grad))
        one = isinstance(layer, nn.Linear) and given.dim() == 2
        taken.append("products" if made or one else "gradients")
    assert listed == taken


def passed(model, module, shape, batch):
    """What goes into a layer, and a gradient of what comes out."""
    seen = []
    hook = module.register_forward_hook(lambda _, given, made: seen.extend((given[0], made)))
    with torch.no_grad():
        model(torch.randn(batch, *shape))
    hook.remove()
    return seen[0], torch.randn_like(seen[1])


def test_a_record_of_another_shape_leaves_the_norms_out():
    (found,) = list_layers(nn.Sequential(nn.Linear(3, 2)), torch.zeros(1, 5))
    assert found.norms == ""
    assert found.rule == "fast"
