"""Losses whose normaliser the batch shares are refused; averages of records' own losses are not."""

import copy
from collections import OrderedDict

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import recondite as rc
from recondite.training import PrivacyEngine, loss_check
from recondite.training.loss_check import coefficients

torch.set_num_threads(1)
WORDS, LENGTH, PAD = 11, 7, -100


class Output(OrderedDict):
    """As the outputs of Transformers' models: keys that are attributes, too."""

    def __getattr__(self, name):
        return self[name]


class Language(nn.Module):
    """A causal language model that computes its loss itself, as those of Transformers do."""

    def __init__(self, loss):
        super().__init__()
        self.table, self.body = nn.Embedding(WORDS, 8), nn.Linear(8, 8)
        self.head = nn.Linear(8, WORDS)
        self.loss = loss

    def forward(self, input_ids, labels=None):
        logits = self.head(torch.tanh(self.body(self.table(input_ids))))
        loss = self.loss(logits[:, :-1], labels[:, 1:])
        return Output(loss=loss, logits=logits)


def token_average(logits, labels):
    return cross_entropy(logits.reshape(-1, WORDS), labels.reshape(-1), ignore_index=PAD)


def by_token(logits, labels):
    return cross_entropy(logits.mT, labels, reduction="none", ignore_index=PAD)


def record_average(logits, labels):
    return (by_token(logits, labels).sum(1) / (labels != PAD).sum(1)).mean()


def record_sum(logits, labels):
    return by_token(logits, labels).sum(1).mean()


def sentences(rows=48, *, padded):
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, WORDS, (rows, LENGTH), generator=generator)
    labels = tokens.clone()
    if padded:
        for row, length in enumerate(torch.randint(2, LENGTH + 1, (rows,), generator=generator)):
            labels[row, length:] = PAD
    return TensorDataset(tokens, labels)


def private(net, data, lr=0.1, batch=8, **options):
    engine = PrivacyEngine()
    net, optimizer, loader = engine.make_private(
        module=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=lr),
        data_loader=DataLoader(data, batch_size=batch),
        **{"mechanism": rc.Gaussian(1.0), **options},
    )
    return engine, net, optimizer, loader


def train_language(loss, *, padded, epochs=3, **options):
    torch.manual_seed(1)
    engine, net, optimizer, loader = private(
        Language(loss).train(), sentences(padded=padded), **options
    )
    for _ in range(epochs):
        for tokens, labels in loader:
            optimizer.zero_grad()
            net(input_ids=tokens, labels=labels)["loss"].backward()
            optimizer.step()
    return engine


def token_average_unshifted(logits, labels):
    """As the Trainer of Transformers divides: by the labels, of which one is shifted out."""
    return by_token(logits, labels).sum() / ((labels != PAD).sum() + len(labels))


@pytest.mark.parametrize("loss", [token_average, token_average_unshifted])
def test_a_loss_averaged_over_the_tokens_of_a_batch_is_refused_at_once(loss):
    with pytest.raises(ValueError, match="average over all tokens") as caught:
        train_language(loss, padded=True, epochs=1, sampling="fixed-size")
    assert "\n" not in str(caught.value)
    assert "average inside each record" in str(caught.value)


@pytest.mark.parametrize("sampling", ["poisson", "shuffled", "fixed-size"])
@pytest.mark.parametrize(
    ("loss", "padded"),
    [
        (record_average, True),
        (record_average, False),
        (record_sum, True),
        (token_average, False),  # equal lengths: the same thing
    ],
)
def test_averages_of_the_records_own_losses_pass(loss, padded, sampling):
    engine = train_language(loss, padded=padded, sampling=sampling)
    assert engine.steps == 18
    (line,) = [line for line in engine.report(1e-3).assumptions if "own loss" in line]
    assert "mean over records" in line
    assert "vouched" not in line


def test_a_person_can_vouch_for_a_loss_and_the_account_says_so():
    engine = train_language(token_average, padded=True, loss_reduction="per-record")
    assert any("vouched for" in line for line in engine.report(1e-3).assumptions)


def classifier(out=3):
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, out)).train()


def points(rows=60, classes=3):
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(rows) % classes
    return TensorDataset(torch.randn(rows, 6, generator=generator), labels)


def train(loss, net=None, data=None, epochs=3, **options):
    engine, net, optimizer, loader = private(net or classifier(), data or points(), **options)
    for _ in range(epochs):
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss(net(inputs), labels).backward()
            optimizer.step()
    return engine


WEIGHT = torch.tensor([1.0, 10.0, 100.0])


def own_weights(out, labels):
    return (cross_entropy(out, labels, reduction="none") * WEIGHT[labels]).mean()


def binary(reduction):
    def loss(out, labels):
        target = (labels > 0).to(out.dtype)[:, None].expand_as(out)
        return binary_cross_entropy_with_logits(out, target, reduction=reduction)

    return loss


def log_probabilities(reduction):
    return lambda out, labels: functional.nll_loss(out, labels, reduction=reduction)


LOG = nn.LogSoftmax(dim=-1)


@pytest.mark.parametrize(
    ("loss", "words", "options"),
    [
        (lambda o, y: cross_entropy(o, y, weight=WEIGHT), "class weights", {}),
        (lambda o, y: cross_entropy(o, y, ignore_index=0), "kept records", {}),
        (lambda o, y: cross_entropy(o, y, reduction="sum"), 'loss_reduction="sum"', {}),
        (cross_entropy, 'loss_reduction="mean"', {"loss_reduction": "sum"}),
        (own_weights, "vouch", {}),
        (binary("sum"), 'loss_reduction="sum"', {"net": classifier(1)}),
        (binary("mean"), 'loss_reduction="mean"', {"net": classifier(1), "loss_reduction": "sum"}),
        (log_probabilities("sum"), 'loss_reduction="sum"', {"net": classifier().append(LOG)}),
    ],
)
def test_other_normalisers_are_refused_at_the_first_step(loss, words, options):
    with pytest.raises(ValueError, match=words) as caught:
        train(loss, epochs=1, sampling="fixed-size", batch=12, **options)
    assert "\n" not in str(caught.value)


def test_a_normaliser_that_follows_the_batch_size_is_refused():
    def loss(out, labels):
        return cross_entropy(out, labels, reduction="sum") / 3.0

    with pytest.raises(ValueError, match="batch shares"):
        train(loss, sampling="poisson")


@pytest.mark.parametrize("sampling", ["poisson", "shuffled", "fixed-size"])
@pytest.mark.parametrize(
    ("loss", "options"),
    [
        (cross_entropy, {}),
        (cross_entropy, {"physical_batch_size": 3}),
        (cross_entropy, {"lr": 50.0}),  # sure of itself, and wrong
        (lambda o, y: 0.25 * cross_entropy(o, y), {}),
        (lambda o, y: cross_entropy(o, y, reduction="sum"), {"loss_reduction": "sum"}),
        (lambda o, y: cross_entropy(o, y, label_smoothing=0.1), {}),
        (own_weights, {"loss_reduction": "per-record"}),
        (lambda o, y: functional.mse_loss(o, o.detach() + y[:, None]), {}),
        (lambda o, y: o.square().mean(), {"net": classifier(1)}),
        (binary("mean"), {"net": classifier(1)}),
        (binary("mean"), {"net": classifier(3)}),
        (log_probabilities("mean"), {"net": classifier().append(LOG)}),
    ],
)
def test_ordinary_losses_pass(loss, options, sampling):
    options = {**options, "sampling": sampling, "net": copy.deepcopy(options.get("net"))}
    assert train(loss, **options).steps > 20


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_read_with_its_own_slack(dtype):
    def half(how):
        def loss(out, labels):
            return how(out.to(dtype).float(), labels)

        return loss

    # The model itself hands out half precision.
    class Half(nn.Sequential):
        def forward(self, x):
            return super().forward(x).to(dtype)

    net = Half(*classifier())
    assert train(lambda o, y: cross_entropy(o.float(), y), net=net, epochs=10).steps > 20
    with pytest.raises(ValueError, match="class weights"):
        train(lambda o, y: cross_entropy(o.float(), y, weight=WEIGHT), net=Half(*classifier()))
    assert train(half(cross_entropy)).steps > 20


def test_pixels_with_their_classes_on_the_second_axis():
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(40, 2, 4, 4, generator=generator)
    labels = torch.randint(0, 3, (40, 4, 4), generator=generator)
    assert train(cross_entropy, nn.Conv2d(2, 3, 1), TensorDataset(images, labels)).steps == 15
    labels[torch.rand(labels.shape, generator=generator) < 0.3] = PAD
    with pytest.raises(ValueError, match="average inside each record"):
        train(cross_entropy, nn.Conv2d(2, 3, 1), TensorDataset(images, labels))


def test_a_model_that_has_learnt_its_records_is_not_refused():
    """Tokens it is sure of have no readable coefficient: they count as an interval."""
    torch.manual_seed(0)
    logits = torch.randn(6, 5, WORDS) * 8
    labels = logits.argmax(-1)
    labels[torch.rand(labels.shape) < 0.3] = 1
    labels[0, 2:] = PAD
    check = loss_check.LossCheck(nn.Identity(), mean=True)
    for loss, fails in ((record_average, False), (token_average, True)):
        values = logits.clone().requires_grad_()
        loss(values, labels).backward()
        found = coefficients(logits, values.grad)
        assert bool(found.isnan().any())
        check.clear()
        check._seen = [((1, 0), found.double().numpy(), 2e-3)]
        if fails:
            with pytest.raises(ValueError, match="average"):
                check.judge(6)
        else:
            check.judge(6)


def test_coefficients_are_those_of_the_loss():
    torch.manual_seed(0)
    logits, labels = torch.randn(9, 4, requires_grad=True), torch.arange(9) % 4
    weights = torch.rand(9) + 0.5
    (cross_entropy(logits, labels, reduction="none") * weights).sum().backward()
    found = coefficients(logits.detach(), logits.grad)
    assert torch.allclose(found, weights, rtol=1e-4)


def test_later_passes_are_looked_at_by_chance(monkeypatch):
    monkeypatch.setattr(loss_check, "FIRST", 0)
    monkeypatch.setattr(loss_check, "EVERY", 2)
    with pytest.raises(ValueError, match="class weights"):
        train(lambda o, y: cross_entropy(o, y, weight=WEIGHT), epochs=10)


def test_an_output_that_was_written_to_is_not_judged():
    class Tempered(nn.Sequential):
        def forward(self, x):
            return super().forward(x) * 1.0

    def loss(out, labels):
        return cross_entropy(out.mul_(3.0), labels)

    assert train(loss, net=Tempered(*classifier())).steps > 20


class Whole(nn.Module):
    """Its parts are called from outside, as Lightning's ``training_step`` does."""

    def __init__(self):
        super().__init__()
        self.net = classifier()


def test_parts_of_the_model_are_watched_where_they_are_called():
    _, net, optimizer, loader = private(Whole().train(), points(), sampling="fixed-size")
    inputs, labels = next(iter(loader))
    cross_entropy(net.net(inputs), labels, weight=WEIGHT).backward()
    with pytest.raises(ValueError, match="class weights"):
        optimizer.step()
