"""Trainings of torch: Opacus', ours, and one by hand with a layer that keeps statistics."""

from __future__ import annotations

import random

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from recondite.checking import torch_trainer

RECORDS, BATCH = 64, 16
_own = torch.Generator().manual_seed(0)
INPUTS = torch.randn(RECORDS, 6, generator=_own)
DATA = TensorDataset(INPUTS, (INPUTS[:, 0] > 0).long())
DIM = 14
LOSS = nn.functional.cross_entropy


def parts(model=None):
    model = model or nn.Linear(6, 2)
    return {
        "module": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "data_loader": DataLoader(DATA, batch_size=BATCH),
    }


def opacus(**options):
    from opacus import PrivacyEngine

    settings = {"noise_multiplier": 1.0, "max_grad_norm": 0.5, **options}
    made = PrivacyEngine().make_private(**parts(), **settings)
    return torch_trainer(*made, LOSS, max_grad_norm=0.5, batch_size=BATCH)


def contrastive(outputs, labels):
    """Every record against all others of the batch."""
    del labels
    near = nn.functional.normalize(outputs, dim=1)
    return LOSS(near @ near.T / 0.1, torch.arange(len(near)))


def distance_to_the_mean(outputs, labels):
    del labels
    return ((outputs - outputs.mean(0)) ** 2).mean()


def ours(mechanism, loss=LOSS, **options):
    from recondite import PrivacyEngine

    engine = PrivacyEngine(seed=random.getrandbits(64))
    made = engine.make_private(**parts(), mechanism=mechanism, max_grad_norm=0.5, **options)
    return torch_trainer(*made, loss)


def normalised():
    """Clipped and noised by hand, and a batch norm whose statistics leave with the weights."""
    model = nn.Sequential(nn.BatchNorm1d(6, affine=False), nn.Linear(6, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    plain = optimizer.step

    def step():
        for p in model.parameters():
            p.grad = p.grad * min(1.0, 0.5 / p.grad.norm().item())
            p.grad += torch.randn_like(p.grad) * 4
        plain()

    optimizer.step = step
    return torch_trainer(model, optimizer, DataLoader(DATA, batch_size=BATCH), LOSS)
