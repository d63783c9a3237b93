"""What an engine leaves behind: nothing, in the model, in its copies or in its files."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import recondite as rc
from recondite.training import PrivacyEngine

torch.set_num_threads(1)


class Block(nn.Module):
    """A model with a part of its own and layers that are recorded in different ways."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten())
        self.head = nn.Linear(64, 3)

    def forward(self, x):
        return self.head(self.body(x))


def private(engine=None, scheduler=False):
    torch.manual_seed(0)
    net = Block()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    if scheduler:
        torch.optim.lr_scheduler.StepLR(optimizer, 1)
    data = TensorDataset(torch.randn(24, 1, 6, 6), torch.arange(24) % 3)
    engine = engine or PrivacyEngine()
    _, _, loader = engine.make_private(
        module=net,
        optimizer=optimizer,
        data_loader=DataLoader(data, batch_size=8),
        mechanism=rc.Gaussian(1.0),
        sampling="fixed-size",
    )
    return engine, net, optimizer, loader


def train(net, optimizer, loader):
    for inputs, labels in loader:
        optimizer.zero_grad()
        cross_entropy(net(inputs), labels).backward()
        optimizer.step()


def ours(net):
    return [
        layer
        for layer in net.modules()
        if type(vars(layer).get("forward")).__module__.startswith("recondite")
        or layer._forward_hooks
        or layer._forward_pre_hooks
        or layer._backward_hooks
    ]


def test_detaching_gives_the_model_and_the_optimizer_back():
    engine, net, optimizer, loader = private()
    kept = {key: set(vars(layer)) for key, layer in Block().named_modules()}
    plain = set(vars(torch.optim.SGD(net.parameters(), lr=0.1)))
    train(net, optimizer, loader)
    engine.detach()
    engine.detach()
    assert {key: set(vars(layer)) for key, layer in net.named_modules()} == kept
    assert all(parameter.grad is None for parameter in net.parameters())
    assert set(vars(optimizer)) == plain
    assert optimizer.step.__func__ is torch.optim.SGD.step
    assert engine.steps == 3
    assert engine.report(1e-3).epsilon["pld"] > 0
    copy.deepcopy(optimizer)
    inputs, labels = torch.randn(5, 1, 6, 6), torch.arange(5) % 3
    cross_entropy(net(inputs), labels).backward()
    before = net.head.bias.detach().clone()
    optimizer.step()
    assert not torch.equal(net.head.bias, before)
    with pytest.raises(ValueError, match="detached"):
        next(iter(loader))
    again = PrivacyEngine()
    train(
        *again.make_private(
            module=net,
            optimizer=optimizer,
            data_loader=DataLoader(loader.dataset, batch_size=8),
            mechanism=rc.Gaussian(1.0),
        )
    )
    assert again.steps == 3


def test_leaving_a_with_statement_detaches():
    with PrivacyEngine() as engine:
        _, net, optimizer, loader = private(engine)
        train(net, optimizer, loader)
        assert ours(net)
    assert not ours(net)
    assert engine.steps == 3
    with PrivacyEngine():
        pass  # nothing was made private


@pytest.mark.parametrize("before", [True, False])
def test_learning_rate_schedulers_stay_where_they_are(before):
    engine, net, optimizer, loader = private(scheduler=before)
    if not before:
        torch.optim.lr_scheduler.StepLR(optimizer, 1)
    train(net, optimizer, loader)
    engine.detach()
    assert hasattr(optimizer.step, "_wrapped_by_lr_sched")
    cross_entropy(net(torch.randn(4, 1, 6, 6)), torch.arange(4) % 3).backward()
    weights = net.head.weight.detach().clone()
    optimizer.step()
    assert not torch.equal(weights, net.head.weight)


def saved(net):
    file = io.BytesIO()
    torch.save(net, file)
    assert b"recondite" not in file.getvalue()
    file.seek(0)
    return torch.load(file, weights_only=False)


def sent(net):
    return pickle.loads(pickle.dumps(net))


# A model of torch's own: this file's classes have our name in their module's.
@pytest.mark.parametrize("copied", [copy.deepcopy, saved, sent])
def test_copies_and_files_of_a_private_model_carry_nothing_of_ours(copied):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Sequential(nn.Linear(5, 3)))
    data = TensorDataset(torch.randn(24, 6), torch.arange(24) % 3)
    engine = PrivacyEngine()
    _, optimizer, loader = engine.make_private(
        module=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=0.1),
        data_loader=DataLoader(data, batch_size=8),
        mechanism=rc.Gaussian(1.0),
    )
    other = copied(net)
    assert not ours(other)
    inputs, labels = data[:]
    assert torch.equal(other(inputs), net(inputs))
    cross_entropy(other(inputs), labels).backward()
    assert all(parameter.grad is not None for parameter in other.parameters())
    with torch.no_grad():
        other[0].weight.zero_()
    assert not torch.equal(other(inputs), net(inputs))
    train(net, optimizer, loader)
    assert engine.steps == 3


def test_a_model_that_was_refused_is_as_it_was():
    """Fails before: it stayed recorded, and the next engine took it for another's."""
    net = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3))
    data = TensorDataset(torch.randn(12, 6), torch.arange(12) % 3)
    given = {
        "module": net,
        "optimizer": torch.optim.SGD(net.parameters(), lr=0.1),
        "data_loader": DataLoader(data, batch_size=4),
        "mechanism": rc.Gaussian(1.0),
    }
    part = torch.optim.SGD(net[0].parameters(), lr=0.1)
    engine = PrivacyEngine(max_epsilon=1e-9, delta=1e-5)
    for wrong in ({"optimizer": part}, {"clipping": "none"}, {"clipping": "flatter"}, {}):
        with pytest.raises(
            ValueError, match="optimizer must|sensitivity|clipping must|single step"
        ):
            engine.make_private(**{**given, **wrong})
        assert all("forward" not in vars(layer) for layer in net.modules())
        assert not any(p._backward_hooks for p in net.parameters())
        assert "step" not in vars(given["optimizer"])
    PrivacyEngine().make_private(**given)
