"""A copy of a model that is being trained privately is a model of its own."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import recondite as rc
from recondite.models import build


def private(model, shape):
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(24, *shape, generator=generator)
    loader = DataLoader(TensorDataset(images, torch.arange(24) % 10), batch_size=8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = rc.PrivacyEngine(seed=0).make_private(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        mechanism=rc.Gaussian(1.0),
        max_grad_norm=1.0,
    )
    return images, *found


@pytest.mark.parametrize(("name", "shape"), [("mlp", (1, 8, 8)), ("lenet-dlg", (1, 16, 16))])
def test_a_copy_uses_its_own_weights(name, shape):
    images, model, *_ = private(build(name, shape, seed=0), shape)
    own = copy.deepcopy(model).eval()
    with torch.no_grad():
        known = model.eval()(images)
        assert torch.equal(own(images), known)
        for parameter in own.parameters():
            parameter.zero_()
        assert not torch.equal(own(images), known)
        assert torch.equal(model(images), known)
    double = copy.deepcopy(model).double()
    assert torch.allclose(double(images.double()).float(), known, atol=1e-5)


def test_training_a_copy_leaves_the_model_and_its_steps_alone():
    shape = (1, 8, 8)
    images, model, optimizer, loader = private(build("mlp", shape, seed=0), shape)
    _, other, same, batches = private(build("mlp", shape, seed=0), shape)
    for mine, theirs in zip(loader, batches, strict=True):
        for module, step, (x, y) in ((model, optimizer, mine), (other, same, theirs)):
            step.zero_grad()
            nn.functional.cross_entropy(module(x), y).backward()
            if module is model:
                own = copy.deepcopy(model)
                nn.functional.cross_entropy(own(images), torch.arange(24) % 10).backward()
                assert all(p.grad is not None for p in own.parameters())
            step.step()
    for ours, known in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(ours, known)


@pytest.mark.parametrize("copied", [copy.deepcopy, pickle.dumps])
def test_a_private_optimizer_is_not_copied(copied):
    """The copy would have the step of its class, and go on without noise."""
    optimizer = private(build("mlp", (1, 8, 8), seed=0), (1, 8, 8))[2]
    with pytest.raises(ValueError, match="step without noise"):
        copied(optimizer)
    assert optimizer.state_dict()["param_groups"][0]["lr"] == 0.1
