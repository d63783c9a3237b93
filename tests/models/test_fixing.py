"""Models without layers that mix records."""

import copy

import pytest
import torch
from torch import nn

import recondite as rc
from recondite.gradients.collector import Collector
from recondite.models import build


def test_batch_normalisation_is_replaced_in_a_copy_that_says_so():
    model = build("resnet10", norm="batch", seed=0)
    before = copy.deepcopy(model.state_dict())
    with pytest.warns(UserWarning, match=r"fix replaced .*\(BatchNorm2d by GroupNorm\)"):
        fixed = rc.fix(model)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not any(isinstance(part, nn.BatchNorm2d) for part in fixed.modules())
    assert [tuple(p.shape) for p in fixed.parameters()] == [
        tuple(p.shape) for p in model.parameters()
    ]
    Collector(fixed)
    assert fixed(torch.randn(2, 3, 32, 32)).shape == (2, 10)


@pytest.mark.filterwarnings("ignore:fix replaced")
def test_scales_frozen_or_not_are_kept_and_vectors_are_not_wiped_out():
    layer = nn.BatchNorm1d(4)
    nn.init.constant_(layer.weight, 3.0)
    layer.bias.requires_grad_(False)
    fixed = rc.fix(nn.Sequential(nn.Linear(4, 4), layer))
    assert torch.equal(fixed[1].weight, layer.weight)
    assert not fixed[1].bias.requires_grad
    assert fixed(torch.randn(5, 4)).abs().max() > 0.1
    alone = rc.fix(nn.BatchNorm2d(6, affine=False, eps=0.1))
    assert alone.weight is None
    assert alone.eps == 0.1
    assert alone(torch.randn(2, 6, 3, 3)).shape == (2, 6, 3, 3)


@pytest.mark.filterwarnings("ignore:fix replaced")
def test_shared_layers_stay_shared_and_running_statistics_go():
    shared = nn.BatchNorm2d(4)
    stored = nn.InstanceNorm2d(4, affine=True, track_running_stats=True)
    fixed = rc.fix(nn.Sequential(shared, nn.Conv2d(4, 4, 1), shared, stored))
    assert fixed[0] is fixed[2]
    assert not list(fixed.buffers())
    Collector(fixed)
    assert fixed(torch.randn(2, 4, 3, 3)).isfinite().all()


def test_lazy_layers_are_refused_and_nothing_is_said():
    with pytest.raises(ValueError, match="0.weight belongs to a lazy layer"):
        rc.fix(nn.Sequential(nn.LazyBatchNorm1d()))
    with pytest.warns(UserWarning, match="fix replaced nothing"):
        rc.fix(nn.Linear(2, 2))
