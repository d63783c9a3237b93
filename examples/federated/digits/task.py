"""The model and the records: nothing here knows of privacy."""

import torch
from flwr.app import ArrayRecord
from torch import nn
from torch.utils.data import DataLoader

from recondite.federated import iid
from recondite.records import load


def model() -> nn.Module:
    """A small network, the same at every call."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def loader(part: int, parts: int, batch_size: int) -> DataLoader:
    """The share of one client."""
    digits = load("digits")
    return DataLoader(digits.subset(iid(len(digits), parts)[part]), batch_size, shuffle=True)


def read(net: nn.Module, arrays: ArrayRecord) -> nn.Module:
    """Weights of the server in a network."""
    net.load_state_dict(arrays.to_torch_state_dict())
    return net
