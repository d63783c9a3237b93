"""Parameters that a module uses itself, against a loop in double precision."""

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
from recondite.gradients.layers import rules_for
from recondite.gradients.layers.bare import BareRule
from recondite.gradients.layers.shared import Pass, is_shared, shared
from recondite.gradients.layers.slow import Formed

torch.set_num_threads(1)
SIZES = {"max_examples": 6, "deadline": None, "derandomize": True}


class Patches(nn.Module):
    """A vision transformer's bare parameters, a list of more, and layers with fast rules."""

    def __init__(self, width=4, places=6, shared=False):
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, places, width))
        self.scales = nn.ParameterList([torch.randn(width), torch.randn(())])
        self.mix, self.unused = nn.Linear(width, width), nn.Parameter(torch.randn(2))
        self.shared = shared

    def forward(self, x):
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1)
        x = x + self.places[:, : x.shape[1]]
        if self.shared:  # a part gets what all records share
            x = x + self.mix(self.token)
        return (torch.tanh(self.mix(x)) * self.scales[0])[:, 0] * self.scales[1].exp()


def test_parts_keep_their_own_rules():
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        collector = agree(nn.Sequential(Patches(), nn.Linear(4, 2)), torch.randn(3, 5, 4))
    kinds = [type(layer).__name__ for layer in collector.rules]
    assert kinds == ["Patches", "Linear", "Linear"]
    assert collector.layer_sizes == (4 + 24 + 4 + 1 + 2, 20, 10)
    assert not any(rule.slow or rule.redraws for rule in collector.rules.values())


@settings(**SIZES)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(2, 6))
def test_shapes(width, length, rows):
    torch.manual_seed(width)
    agree(Patches(width, length + 1), torch.randn(rows, length, width))


HOW = {
    "added": lambda m, x: x + m.a,
    "times": lambda m, x: m.b * x * m.a,
    "less": lambda m, x: m.a - x / (m.b.exp() + 1),
    "product": lambda m, x: (x @ m.w).tanh(),
    "linear": lambda m, x: functional.linear(x, m.w.T, m.a),
    "einsum": lambda m, x: torch.einsum("ntc,cd->ntd", x, m.w),
    "low rank": lambda m, x: x @ m.w[:, :2] @ m.w[:2],
    "norm": lambda m, x: functional.layer_norm(x, (4,), m.a, m.w[0]),
    "repeated": lambda m, x: torch.cat([x, m.a.repeat(len(x), 1, 1)], 1),
    "broadcast": lambda m, x: torch.cat([x, m.a.broadcast_to(x.shape[0], 1, 4)], 1),
    "chosen": lambda m, x: torch.where(x > 0, x, m.a),
    "gated": lambda m, x: x * m.b.sigmoid() + (1 - m.b.sigmoid()) * m.a,
    "softmax": lambda m, x: m.w.softmax(-1)[0] * x,
    "tiled": lambda m, x: x + m.a[None].repeat(1, 1)[0] * m.w.expand(1, 4, 4)[0, 0],
    "heads": lambda m, x: (x[:, :, None] * m.a.expand(7, 4)).mean(2),
}


class Doubled(torch.autograd.Function):
    """A function of somebody's own, which no operation of torch stands for."""

    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x, scale)
        return 2 * x * scale

    @staticmethod
    def backward(ctx, grad):
        x, scale = ctx.saved_tensors
        return 2 * grad * scale, (2 * grad * x).flatten(0, -2).sum(0)


class Own(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.randn(4)), nn.Parameter(torch.randn(()))
        self.w, self.how = nn.Parameter(torch.randn(4, 4)), how

    def forward(self, x):
        return self.how(self, x)


@pytest.mark.parametrize("name", HOW)
def test_ways_to_use_a_parameter(name):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = nn.Sequential(nn.Linear(4, 4), Own(HOW[name]), nn.Linear(4, 2))
        collector = agree(model, torch.randn(3, 5, 4))
        agree(model, torch.randn(5, 3, 4))
    assert isinstance(collector.rules[model[1]], BareRule)


def in_place(m, x):
    x = x * 1.0
    x += m.a
    return x


def in_parts(m, x):
    first, second = m.w.chunk(2)
    return x * first[0] + second[1]


OTHERS = {
    "in place": in_place,
    "in parts": in_parts,
    "shared": lambda m, x: x + m.a * torch.ones(4),
    "by a function of one's own": lambda m, x: Doubled.apply(x, m.a),
    "returned": lambda m, x: (x * m.a, m.b.reshape(1)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_ways_run_record_by_record_and_say_so(name):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), Own(OTHERS[name]))
    with pytest.warns(UserWarning, match="Own uses its own parameters in a way"):
        agree(Called(model, lambda m, x: m(x)), torch.randn(3, 5, 4))


def test_a_part_that_gets_what_is_shared_runs_record_by_record_on_its_own_account():
    torch.manual_seed(0)
    model = nn.Sequential(Patches(shared=True), nn.Linear(4, 2))
    with pytest.warns(UserWarning, match="Patches uses its own parameters in a way"):
        collector = agree(model, torch.randn(3, 5, 4))
    assert collector.layer_sizes == (4 + 24 + 4 + 1 + 2, 20, 10)
    collector = Collector(model)
    with pytest.warns(UserWarning, match="Patches uses"):
        model(torch.randn(3, 5, 4)).sum().backward()
    entries = [entry for found in collector.tape.finished().values() for entry in found]
    assert sum(isinstance(entry, Formed) for entry in entries) == 2


class Everything(nn.Module):
    """Parts of every kind within a module that must run record by record."""

    def __init__(self):
        super().__init__()
        self.table, self.places = nn.Embedding(9, 4), nn.Parameter(torch.randn(2, 4))
        self.look = nn.MultiheadAttention(4, 2, batch_first=True)
        self.past, self.even = nn.LSTM(4, 4, batch_first=True), nn.LayerNorm(4)
        self.out = nn.Linear(4, 9)
        self.out.weight = self.table.weight

    def forward(self, tokens):
        first, second = self.places.chunk(2)
        x = self.even(self.table(tokens) * first + second)
        return self.out(self.past(x + self.look(x, x, x)[0])[0].mean(1))


def test_parts_of_every_kind_take_what_was_found_record_by_record():
    torch.manual_seed(0)
    with pytest.warns(UserWarning, match="Everything uses its own parameters in a way"):
        agree(Called(Everything(), lambda m, x: m(x)), torch.randint(0, 9, (4, 5)))


def test_a_length_that_happens_to_be_the_batch_s_is_none_of_its_records():
    """Eight heads and eight records: a scale for each head is no scale for each record."""
    torch.manual_seed(0)

    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale, self.out = nn.Parameter(torch.randn(1, 2)), nn.Linear(2, 2)

        def forward(self, x):
            return self.out((x[:, None] * self.scale.expand(8, 2)[None]).tanh().sum(1))

    with pytest.warns(UserWarning, match="Heads uses its own parameters in a way"):
        agree(Heads(), torch.randn(8, 2))
    model = Heads()
    exact = Heads()
    exact.load_state_dict(model.state_dict())
    collector = Collector(model)
    for rows in (5, 8, 8, 3):
        x = torch.randn(rows, 2)
        model(x).square().sum().backward()
        found = collector.per_sample(rows, mean=False).clone()
        for row in range(rows):
            exact.zero_grad()
            exact(x[row : row + 1]).square().sum().backward()
            known = torch.cat([p.grad.reshape(-1) for p in exact.parameters()])
            assert torch.allclose(found[row], known, atol=1e-5)


class Mixed(nn.Module):
    """As batch normalisation does, with a scale of its own."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return (x - x.mean(0)) * self.scale


def test_records_that_are_mixed_before_a_parameter_are_refused():
    model = nn.Sequential(Mixed(), nn.Flatten())
    Collector(model)
    with pytest.raises(ValueError, match="has another input where a record is alone"):
        model(torch.randn(4, 4))


def test_one_record_moves_a_bounded_sum_by_no_more_than_the_bound():
    torch.manual_seed(0)
    model = nn.Sequential(Patches(), nn.Linear(4, 2))
    collector = Collector(model)
    x = torch.randn(6, 5, 4)
    x[2] *= 1e4
    sums = []
    for rows in (x, torch.cat([x[:2], x[3:]])):
        (model(rows) * 100).square().sum().backward()
        sums.append(collector.bounded_sum(Clip(0.5), len(rows), mean=False, keep=True))
    assert float((sums[0] - sums[1]).norm()) <= 0.5 * (1 + 1e-4)


def test_a_private_run_with_bare_parameters_is_checked_and_takes_steps_of_any_size():
    torch.manual_seed(0)
    model = nn.Sequential(Patches(), nn.Linear(4, 2))
    data = torch.utils.data.TensorDataset(torch.randn(30, 5, 4), torch.randint(0, 2, (30,)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, optimizer, loader = rc.PrivacyEngine(seed=0).make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=torch.utils.data.DataLoader(data, batch_size=4),
            mechanism=rc.Gaussian(1.0),
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x, y in loader:  # Poisson: of any number of records
            optimizer.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    assert all(p.isfinite().all() for p in model.parameters())


def test_a_torch_module_s_own_kind_stays_slow():
    assert any(rule.slow for rule in rules_for(nn.Bilinear(2, 2, 2)).values())


def test_what_is_made_of_parameters_alone_is_shared_until_it_meets_records():
    given = torch.arange(4.0)
    value = shared(given, given.expand(3, 4), Pass(3, None, None))
    assert is_shared(value.exp()[None])
    assert value.shape == (4,)
    assert not is_shared(value + torch.ones(3, 4))
    assert not is_shared(value.detach())
