"""Gradients that are not those of the loss, and forward passes that mix or store records."""

import copy

import pytest
import torch
from opacus.layers import DPMultiheadAttention
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import recondite as rc
from recondite.gradients.clipping import Clip
from recondite.gradients.collector import Collector
from recondite.mechanisms.none import NoNoise
from recondite.training import PrivacyEngine

torch.set_num_threads(1)


def one_line(error):
    return "\n" not in str(error.value)


STORING = [
    (nn.Embedding(5, 3, max_norm=1.0), "max_norm"),
    (nn.EmbeddingBag(5, 3, max_norm=1.0), "max_norm"),
    (nn.Embedding(5, 3, scale_grad_by_freq=True), "scale_grad_by_freq"),
    (nn.InstanceNorm1d(3, track_running_stats=True), "track_running_stats"),
    (nn.InstanceNorm2d(3, track_running_stats=True), "track_running_stats"),
    (nn.InstanceNorm3d(3, affine=True, track_running_stats=True), "track_running_stats"),
    (nn.LazyInstanceNorm1d(track_running_stats=True), "track_running_stats"),
    (nn.BatchNorm1d(3), "group"),
    (nn.BatchNorm3d(3, affine=False), "group"),
    (nn.SyncBatchNorm(3), "group"),
    (nn.LazyBatchNorm2d(), "group"),
]


@pytest.mark.parametrize(("layer", "words"), STORING)
@pytest.mark.parametrize("frozen", [True, False])
def test_layers_that_store_or_mix_records_are_refused(layer, words, frozen):
    if not any(isinstance(p, nn.UninitializedParameter) for p in layer.parameters()):
        layer.requires_grad_(not frozen)
    with pytest.raises(ValueError, match=words) as error:
        Collector(nn.Sequential(nn.Linear(3, 3), layer))
    assert one_line(error)
    assert "layer 1" in str(error.value)


class Storing(nn.Module):
    """Keeps something of what it sees in a buffer, in one of several ways."""

    def __init__(self, how):
        super().__init__()
        self.how, self.layer = how, nn.Linear(3, 3)
        self.register_buffer("kept", torch.zeros(3))
        self.register_buffer("scale", torch.ones(3))

    def forward(self, x):
        if self.training and self.how == "in place":
            self.kept.copy_(x[0].detach())
        if self.training and self.how == "anew":
            self.kept = x.detach().mean(0)
        if self.how == "kernel":
            x = functional.batch_norm(x, self.kept, self.scale, training=self.training)
        if self.training and self.how == "weight":
            with torch.no_grad():
                self.layer.bias.add_(x.detach().mean(0))
        return self.layer(x)


def test_a_part_that_trains_within_a_model_that_does_not_is_watched():
    model = nn.Sequential(Storing("in place"), nn.Linear(3, 2)).eval()
    model[0].train()
    Collector(model)
    with pytest.raises(ValueError, match=r"changes 0\.kept"):
        model(torch.randn(4, 3))


@pytest.mark.parametrize("how", ["in place", "anew", "kernel", "weight"])
def test_what_is_stored_in_forward_is_noticed(how):
    model = nn.Sequential(Storing(how), nn.Linear(3, 2))
    Collector(model)
    with pytest.raises(ValueError, match=r"model changes 0\.\w") as error:
        for _ in range(2):
            model(torch.randn(4, 3))
    assert one_line(error)
    model.eval()(torch.randn(4, 3))


def test_storing_is_noticed_without_clipping_too():
    model = Storing("in place")
    _, _, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(TensorDataset(torch.randn(20, 3)), batch_size=5),
        mechanism=rc.VonMisesFisher(5.0),
        clipping="none",
    )
    with pytest.raises(ValueError, match="changes kept"):
        model(next(iter(loader))[0])


def test_spectral_normalisation_of_frozen_weights_is_no_data():
    fixed = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3)).requires_grad_(False)
    model = nn.Sequential(fixed, nn.Linear(3, 2))
    collector = Collector(model)
    model(torch.randn(4, 3)).sum().backward()
    assert torch.isfinite(collector.bounded_sum(Clip(1.0), 4, mean=False, keep=True)).all()


class TimeFirst(nn.Module):
    """Sees (positions, records, features) inside, as a recurrent network would."""

    def __init__(self):
        super().__init__()
        self.inner, self.head = nn.Linear(4, 4), nn.Linear(4, 2)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.head(torch.tanh(self.inner(self.drop(x.transpose(0, 1)))).mean(0))


class Centred(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        return self.layer(x - 0.1 * x.mean(0, keepdim=True))


class Attention(nn.Module):
    def __init__(self, batch_first):
        super().__init__()
        self.attention = DPMultiheadAttention(4, 2, batch_first=batch_first)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.attention(x, x, x)[0].mean(1))


@pytest.mark.parametrize("model", [TimeFirst(), Centred(), Attention(False)])
def test_rows_that_are_not_records_are_refused(model):
    """Sequences as long as the batch: the number of rows tells nothing."""
    model = copy.deepcopy(model)
    Collector(model)
    shape = (6, 4) if isinstance(model, Centred) else (6, 6, 4)
    for _ in range(2):  # whoever tries again is refused again
        with pytest.raises(ValueError, match="first axis") as error:
            model(torch.randn(*shape))
        assert one_line(error)


class Split(nn.Module):
    """Swin's windows: each record becomes several rows."""

    def __init__(self):
        super().__init__()
        self.inside, self.head = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.inside(x.reshape(-1, 2, 4)).reshape(len(x), -1, 4).mean(1))


class Relative(nn.Module):
    """T5's biases: a table that is looked up for places alone."""

    def __init__(self):
        super().__init__()
        self.bias, self.head = nn.Embedding(9, 1), nn.Linear(4, 2)

    def forward(self, x):
        return self.head(x + self.bias(torch.arange(x.shape[1]))).mean(1)


@pytest.mark.parametrize(
    ("model", "part", "remedy"),
    [
        (Split(), "inside", "each record has 3 .*windows"),
        (Relative(), "bias", "same for any batch"),
    ],
)
def test_what_has_no_row_for_each_record_says_what_to_do_and_that_works(model, part, remedy):
    x = torch.randn(5, 6, 4)
    with pytest.raises(ValueError, match=f"layer {part} .*{remedy}.*freeze that layer") as error:
        Collector(model)
        model(x)
    assert one_line(error)
    frozen = type(model)()
    frozen.get_submodule(part).requires_grad_(False)
    collector = Collector(frozen)
    frozen(x).sum().backward()
    assert len(collector.per_sample(5, mean=False)) == 5


class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.places = nn.Embedding(9, 4), nn.Embedding(7, 4)

    def forward(self, tokens):
        return self.table(tokens) + self.places(torch.arange(tokens.shape[1])[None])


def test_a_layer_that_is_called_once_for_the_whole_batch_is_called_for_each_record():
    model = Positions()
    collector = Collector(model)
    out = model(torch.zeros(5, 7, dtype=torch.long))
    (out * torch.arange(5.0)[:, None, None]).sum().backward()
    found = collector.per_sample(5, mean=False)[:, 36:]
    assert torch.equal(found, torch.arange(5.0)[:, None].expand(5, 28))
    model.eval()
    assert model.places(torch.arange(7)[None]).shape == (1, 7, 4)


def test_attention_with_the_batch_first_is_accepted():
    model = Attention(True)
    collector = Collector(model)
    model(torch.randn(6, 6, 4)).sum().backward()
    assert collector.bounded_sum(Clip(1.0), 6, mean=False, keep=True).isfinite().all()


class Dropped(nn.Module):
    """Nothing is mixed here, and no two passes are the same."""

    def __init__(self):
        super().__init__()
        self.table, self.drop = nn.Embedding(9, 4), nn.Dropout(0.5)
        self.mix, self.norm = nn.Linear(4, 4), nn.LayerNorm(4)
        self.head = nn.Linear(4, 2)

    def forward(self, tokens, mask=None):
        x = self.drop(self.table(tokens))
        x = self.norm(self.drop(self.mix(x)).relu_())
        return self.head((x * mask[..., None]).sum(1))


def test_the_check_leaves_no_trace():
    tokens, mask = torch.randint(0, 9, (5, 5)), torch.ones(5, 5)
    torch.manual_seed(0)
    model = Dropped()
    other = copy.deepcopy(model)
    collector = Collector(model)
    torch.manual_seed(1)
    found = model(tokens, mask=mask)
    torch.manual_seed(1)
    assert torch.equal(found, other(tokens, mask=mask))
    assert all(part.training for part in model.modules())
    assert len(collector.tape.entries) == 4
    found.sum().backward()
    other(tokens, mask=mask)
    assert collector.bounded_sum(Clip(1.0), 5, mean=False, keep=True).isfinite().all()


def test_a_pass_that_failed_is_forgotten():
    model = Dropped()
    collector = Collector(model)
    with pytest.raises(TypeError):
        model(torch.zeros(5, 2, dtype=torch.long))  # no mask
    model(torch.zeros(5, 2, dtype=torch.long), torch.ones(5, 2)).sum().backward()
    assert collector._watch._depth == 0
    assert len(collector.bounded_sum(Clip(1.0), 5, mean=False, keep=True)) == collector.dim


class Tied(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.how = how
        self.table, self.head = nn.Embedding(9, 4), nn.Linear(4, 4)

    def forward(self, tokens):
        x = torch.tanh(self.head(self.table(tokens).mean(1)))
        if self.how == "linear":
            return functional.linear(x, self.head.weight)
        if self.how == "matrix":
            return x @ self.table.weight.T
        if self.how == "eval":
            self.head.eval()
        return x


def penalised(model, out):
    return out.square().sum() + 0.1 * sum(p.square().sum() for p in model.parameters())


@pytest.mark.parametrize("how", ["linear", "matrix", "penalty", "eval"])
@pytest.mark.parametrize("zero", [True, False, None])
@pytest.mark.parametrize("mechanism", [NoNoise(), rc.VonMisesFisher(5.0), rc.Directional(5.0)])
def test_weights_that_are_reached_otherwise_are_refused(how, zero, mechanism):
    model = Tied(how)
    data = TensorDataset(torch.randint(0, 9, (12, 3)))
    _, optimizer, loader = PrivacyEngine(seed=0).make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(data, batch_size=6),
        mechanism=mechanism,
        sampling="fixed-size",
    )
    with pytest.raises(ValueError, match="otherwise than by a call of its layer") as error:
        for (tokens,) in loader:
            if zero is not None:
                optimizer.zero_grad(set_to_none=zero)
            out = model(tokens)
            (penalised(model, out) if how == "penalty" else out.square().sum()).backward()
            optimizer.step()
    assert one_line(error)
    assert "weight" in str(error.value)


def test_gradients_in_evaluation_mode_are_no_ones_business():
    model = nn.Sequential(nn.Linear(3, 3), nn.GroupNorm(1, 3), nn.Linear(3, 2))
    collector = Collector(model)
    model.eval()
    model(torch.randn(4, 3)).sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    model.train()
    model(torch.randn(4, 3)).sum().backward()
    collector.bounded_sum(Clip(1.0), 4, mean=False, keep=True)


@pytest.mark.parametrize("layer", [nn.Linear(3, 3), nn.LayerNorm(3)])
def test_gradients_of_gradients_and_second_passes_are_refused(layer):
    model = nn.Sequential(copy.deepcopy(layer), nn.Tanh(), nn.Linear(3, 1))
    Collector(model)
    x = torch.randn(4, 3, requires_grad=True)
    with pytest.raises(ValueError, match="create_graph") as error:
        torch.autograd.grad(model(x).sum(), x, create_graph=True)
    assert one_line(error)
    loss = model(x).sum()
    loss.backward(retain_graph=True)
    with pytest.raises(ValueError, match="second backward pass") as error:
        loss.backward()
    assert one_line(error)


LAYERS = [
    (nn.GroupNorm(2, 4), (5, 4, 6)),
    (nn.LayerNorm(6), (5, 4, 6)),
    (nn.RMSNorm(6), (5, 4, 6)),
    (nn.InstanceNorm1d(4, affine=True), (5, 4, 6)),
    (nn.InstanceNorm2d(4, affine=True), (5, 4, 6, 3)),
    (nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2), (5, 4, 9)),
    (nn.Conv3d(2, 3, 2, padding=1), (5, 2, 4, 3, 3)),
    (nn.Embedding(9, 4, padding_idx=2), (5, 7)),
    (nn.Embedding(9, 4), (5, 7)),
    *(
        (nn.Conv2d(4, 6, 3, padding=pad, padding_mode=mode, stride=step, groups=2), (5, 4, 6, 7))
        for mode in ("zeros", "reflect", "replicate", "circular")
        for pad, step in ((2, 1), ((1, 2), 2), ("same", 1))
    ),
]


@pytest.mark.parametrize(("layer", "shape"), LAYERS)
@pytest.mark.parametrize("first", [True, False])
def test_other_layers_have_their_gradients_and_leave_none_behind(layer, shape, first, monkeypatch):
    torch.manual_seed(0)
    layer = copy.deepcopy(layer)
    tokens = isinstance(layer, nn.Embedding)
    if tokens and not first:
        pytest.skip("an embedding comes first")
    x = torch.randint(0, 9, shape) if tokens else torch.randn(shape)
    front = nn.Identity() if first else nn.Linear(shape[-1], shape[-1])
    model = nn.Sequential(front, layer, nn.ReLU(inplace=True))
    double = copy.deepcopy(model).double()
    slopes = torch.randn(model(x).shape)
    known = []
    for row, slope in zip(x, slopes, strict=True):
        double.zero_grad()
        alone = row[None] if tokens else row[None].double()
        (double(alone) * slope.double()).sum().backward()
        known.append(torch.cat([p.grad.reshape(-1) for p in double.parameters()]))
    known = torch.stack(known)
    factors = (0.3 / known.norm(dim=1)).clamp(max=1.0)
    collector = Collector(model)
    for chunk in (1, 1 << 24):
        monkeypatch.setattr("recondite.gradients.layers.conv._CHUNK", chunk)
        (model(x) * slopes).sum().backward()
        assert all(p.grad is None for p in model.parameters())
        found = collector.bounded_sum(Clip(0.3), 5, mean=False, keep=True).double()
        expected = factors @ known
        assert (found - expected).norm() <= 1e-4 * expected.norm()
    (model(x) * slopes).sum().backward()
    every = collector.per_sample(5, mean=False).double()
    assert (every - known).norm() <= 1e-4 * known.norm()


REFUSED = [
    (nn.utils.spectral_norm(nn.Linear(3, 3)), "weight_orig"),
    (nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3)), "spectral"),
]


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize(("layer", "words"), REFUSED)
def test_layers_whose_gradient_would_be_another_are_refused(layer, words):
    with pytest.raises(ValueError, match=words) as error:
        Collector(nn.Sequential(layer))
    assert one_line(error)


def test_an_ordinary_optimizer_made_afterwards_finds_no_gradients():
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(16, 2))
    data = TensorDataset(torch.randn(12, 1, 4, 4), torch.zeros(12, dtype=torch.long))
    model, _, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(data, batch_size=4),
        mechanism=rc.Gaussian(1.0),
    )
    before = copy.deepcopy(model.state_dict())
    inputs, labels = next(iter(loader))
    functional.cross_entropy(model(inputs), labels).backward()
    torch.optim.SGD(model.parameters(), lr=1.0).step()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


class Relative(nn.Module):
    """Looks positions up once, and repeats what comes out for the batch (as DeBERTa does)."""

    def __init__(self):
        super().__init__()
        self.places, self.map = nn.Embedding(5, 3), nn.Linear(3, 3)

    def forward(self, x):
        once = self.map(self.places.weight.detach()[None])
        return torch.bmm(x, once.repeat(len(x), 1, 1).mT)


def test_one_row_for_the_batch_that_is_counted_on_is_told_in_one_line():
    model = Relative()
    Collector(model)
    with pytest.raises(ValueError, match="give it a row for every record") as error:
        model(torch.randn(4, 2, 3))
    assert "\n" not in str(error.value)
    with pytest.raises(RuntimeError, match="must match|size"):
        model(torch.randn(4, 2, 2))  # the model's own
