"""LeNet-5, and the network that the gradient-leakage papers call LeNet."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

__all__ = ["lenet", "lenet_dlg"]


def lenet(shape: tuple[int, int, int], classes: int, norm: str) -> nn.Module:
    """LeNet-5: 62,006 parameters on 3x32x32 and 44,426 on 1x28x28, with 10 classes."""
    del norm
    channels, height, width = shape
    rows, columns = (((side - 4) // 2 - 4) // 2 for side in (height, width))
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(channels, 6, 5),
            act1=nn.ReLU(),
            pool1=nn.MaxPool2d(2),
            conv2=nn.Conv2d(6, 16, 5),
            act2=nn.ReLU(),
            pool2=nn.MaxPool2d(2),
            flatten=nn.Flatten(),
            fc1=nn.Linear(16 * rows * columns, 120),
            act3=nn.ReLU(),
            fc2=nn.Linear(120, 84),
            act4=nn.ReLU(),
            fc3=nn.Linear(84, classes),
        )
    )


def lenet_dlg(shape: tuple[int, int, int], classes: int, norm: str) -> nn.Module:
    """Zhu et al., "Deep leakage from gradients" (2019): strided, sigmoid, smooth throughout.

    15,826 parameters on 3x32x32 with 10 classes. Weights and biases start uniform in (-0.5, 0.5),
    as in that paper's code.
    """
    del norm
    channels, height, width = shape
    rows, columns = (((side + 1) // 2 + 1) // 2 for side in (height, width))
    model = nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(channels, 12, 5, stride=2, padding=2),
            act1=nn.Sigmoid(),
            conv2=nn.Conv2d(12, 12, 5, stride=2, padding=2),
            act2=nn.Sigmoid(),
            conv3=nn.Conv2d(12, 12, 5, padding=2),
            act3=nn.Sigmoid(),
            flatten=nn.Flatten(),
            fc=nn.Linear(12 * rows * columns, classes),
        )
    )
    for parameter in model.parameters():
        nn.init.uniform_(parameter, -0.5, 0.5)
    return model
