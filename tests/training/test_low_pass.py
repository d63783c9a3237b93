"""The low-pass filter: its response, less noise, and the same account."""

import copy

import numpy as np
import pytest
import torch
from scipy.signal import lfilter
from torch import nn
from torch.utils.data import TensorDataset

import recondite as rc
from recondite.training.low_pass import LowPass


def steps_of(optimizer, parameter, gradients):
    """What the base optimizer, SGD of rate 1, is handed at each step."""
    out = []
    for gradient in gradients:
        before = parameter.detach().clone()
        parameter.grad = torch.tensor([gradient], dtype=torch.float64)
        optimizer.step()
        out.append(float(before - parameter.detach()))
    return np.array(out)


def filtered(**options):
    parameter = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    return LowPass(torch.optim.SGD([parameter], lr=1.0), **options), parameter


def test_it_is_the_filter_of_the_textbook_without_bias_at_the_start():
    gradients = np.random.default_rng(0).standard_normal(30)
    optimizer, parameter = filtered(feedback=(0.6, 0.2), forward=(0.15, 0.05))
    found = steps_of(optimizer, parameter, gradients)
    a, b = [1.0, -0.6, -0.2], [0.15, 0.05]
    told = lfilter(b, a, gradients) / lfilter(b, a, np.ones(30))
    assert found == pytest.approx(told)
    assert found[0] == pytest.approx(gradients[0])
    optimizer, parameter = filtered()
    assert steps_of(optimizer, parameter, np.full(5, 3.0)) == pytest.approx(3.0)


def test_white_noise_gets_smaller_and_a_copy_goes_on():
    noise = np.random.default_rng(1).standard_normal(400)
    optimizer, parameter = filtered()
    found = steps_of(optimizer, parameter, noise[:300])
    assert found[50:].std() < 0.4 * noise.std()
    other, twin = filtered()
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    rest = (steps_of(o, p, noise[300:]) for o, p in ((optimizer, parameter), (other, twin)))
    assert next(rest) == pytest.approx(next(rest))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"forward": ()}, "forward must begin"),
        ({"feedback": (1.2,), "forward": (-0.2,)}, "unstable"),
        ({"feedback": (0.9,), "forward": (0.2,)}, "add up to 1"),
    ],
)
def test_other_filters_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        filtered(**options)


def test_under_an_engine_the_account_is_the_same():
    torch.manual_seed(0)
    features, labels = torch.randn(40, 4), torch.arange(40) % 2
    spent = []
    for wrap in (lambda base: base, LowPass):
        model = nn.Linear(4, 2)
        optimizer = wrap(torch.optim.SGD(model.parameters(), lr=0.1))
        loader = torch.utils.data.DataLoader(TensorDataset(features, labels), batch_size=8)
        engine = rc.PrivacyEngine(seed=0)
        model, optimizer, loader = engine.make_private(
            module=model, optimizer=optimizer, data_loader=loader, mechanism=rc.Gaussian(1.0)
        )
        for x, y in loader:
            optimizer.zero_grad()
            torch.autograd.backward(nn.functional.cross_entropy(model(x), y))
            optimizer.step()
            assert all(p.grad is not None for p in model.parameters())
        spent.append(engine.get_epsilon(1e-2))
    assert spent[0] == spent[1]
