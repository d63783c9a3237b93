"""Means over a random number of records, in halves: what rounding does to the sensitivity."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from recondite import Gaussian, PrivacyEngine
from recondite.training.private_run import HALVES

COUNT = 512


def moved(reduction, autocast, sampling="poisson"):
    """How far one record moves the sum of many equal ones, in units, and the account."""
    torch.manual_seed(0)
    x = torch.randn(1, 20).expand(COUNT + 1, 20).clone()
    x[-1] *= -3.0
    y = torch.tensor([0] * COUNT + [3])
    model = nn.Sequential(nn.Linear(20, 32), nn.Tanh(), nn.Linear(32, 5))
    engine = PrivacyEngine(seed=1)
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
        data_loader=DataLoader(TensorDataset(x, y), batch_size=COUNT),
        mechanism=Gaussian(1.0),
        sampling=sampling,
        loss_reduction=reduction,
    )
    totals = []
    engine.observe(lambda turn: totals.append(turn.total.double()))
    for count in (COUNT + 1, COUNT):
        for inputs, labels in loader.present(list(zip(x, y, strict=True))[-count:]):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                out = model(inputs)
            functional.cross_entropy(out.float(), labels, reduction=reduction).backward()
            optimizer.step()
    return float((totals[0] - totals[1]).norm()), engine.report(1e-5).assumptions


def test_a_mean_in_halves_is_warned_of_and_stands_in_the_account():
    with pytest.warns(UserWarning, match="the mean over a batch rounds every gradient"):
        _, assumptions = moved("mean", autocast=True)
    assert HALVES in assumptions


@pytest.mark.filterwarnings("error:.*rounds every gradient")
@pytest.mark.parametrize(
    ("reduction", "autocast", "sampling"),
    [("sum", True, "poisson"), ("mean", False, "poisson"), ("mean", True, "fixed-size")],
)
def test_sums_single_precision_and_fixed_sizes_are_not(reduction, autocast, sampling):
    far, assumptions = moved(reduction, autocast, sampling)
    assert HALVES not in assumptions
    if sampling == "poisson":
        assert far <= 1.0 + 1e-4
