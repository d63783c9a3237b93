"""The networks of the papers: perceptrons, LeNet and its namesake, AlexNet, VGG16, ResNet10.

Tan et al. (2024) name the last three and print their numbers of parameters (Table 2); these are the
variants, for images of 32x32, that have those numbers.
"""

from __future__ import annotations

import math
from collections import OrderedDict

from torch import Tensor, nn

from recondite._validate import at_least

__all__ = [
    "NORMS",
    "BasicBlock",
    "alexnet",
    "lenet",
    "lenet_dlg",
    "mlp",
    "mlp2",
    "norm_layer",
    "resnet10",
    "vgg16",
]

NORMS = ("group", "batch", "none")


def norm_layer(norm: str, channels: int) -> nn.Module:
    """Returns the layer that normalises so many channels.

    "batch" mixes the records of a batch, so that no gradient belongs to one record: private
    training refuses it. "group" (at most 32 groups) has as many parameters and does not.
    """
    if norm == "batch":
        return nn.BatchNorm2d(channels)
    if norm == "group":
        return nn.GroupNorm(math.gcd(32, channels), channels)
    return nn.Identity()


def mlp(shape: tuple[int, ...], classes: int, norm: str) -> nn.Module:
    """Biswas et al. (2025): inputs-50-15-classes, sigmoid, no bias; 13,700 on 1x16x16."""
    del norm
    return nn.Sequential(
        OrderedDict(
            flatten=nn.Flatten(),
            fc1=nn.Linear(math.prod(shape), 50, bias=False),
            act1=nn.Sigmoid(),
            fc2=nn.Linear(50, 15, bias=False),
            act2=nn.Sigmoid(),
            fc3=nn.Linear(15, classes, bias=False),
        )
    )


def mlp2(shape: tuple[int, ...], classes: int, norm: str, *, hidden: int = 1024) -> nn.Module:
    """Faustini et al.: "a simple multilayer perceptron with 2 layers".

    Args:
      shape: Of a record.
      classes: How many.
      norm: It has none.
      hidden: The width of the hidden layer.
    """
    del norm
    width = at_least("hidden", hidden, 1)
    return nn.Sequential(
        OrderedDict(
            flatten=nn.Flatten(),
            fc1=nn.Linear(math.prod(shape), width),
            act1=nn.ReLU(),
            fc2=nn.Linear(width, classes),
        )
    )


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


def _classifier(features: int, classes: int) -> nn.Sequential:
    return nn.Sequential(
        OrderedDict(
            fc1=nn.Linear(features, 4096),
            act1=nn.ReLU(),
            fc2=nn.Linear(4096, 4096),
            act2=nn.ReLU(),
            fc3=nn.Linear(4096, classes),
        )
    )


def alexnet(shape: tuple[int, int, int], classes: int, norm: str) -> nn.Module:
    """AlexNet with 3x3 convolutions: 35,855,178 parameters (printed 3.59e7) on 3x32x32."""
    del norm
    channels, height, width = shape
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    before = channels
    for number, after in enumerate((64, 192, 384, 256, 256), start=1):
        layers[f"conv{number}"] = nn.Conv2d(before, after, 3, padding=1)
        layers[f"act{number}"] = nn.ReLU()
        if number in (1, 2, 5):
            layers[f"pool{number}"] = nn.MaxPool2d(2)
        before = after
    return nn.Sequential(
        OrderedDict(
            features=nn.Sequential(layers),
            flatten=nn.Flatten(),
            classifier=_classifier(before * (height // 8) * (width // 8), classes),
        )
    )


def vgg16(shape: tuple[int, int, int], classes: int, norm: str) -> nn.Module:
    """VGG16 (configuration D): 134,301,514 parameters plain, 134,309,962 with norms (1.34e8).

    The last map is averaged to 7x7, as if images were 224x224: without that, a 32x32 image leaves
    one pixel and the network has 3.4e7 parameters.
    """
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    before, number = shape[0], 0
    for stage, (width, depth) in enumerate(((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))):
        for _ in range(depth):
            number += 1
            layers[f"conv{number}"] = nn.Conv2d(before, width, 3, padding=1)
            if norm != "none":
                layers[f"norm{number}"] = norm_layer(norm, width)
            layers[f"act{number}"] = nn.ReLU()
            before = width
        layers[f"pool{stage + 1}"] = nn.MaxPool2d(2)
    model = nn.Sequential(
        OrderedDict(
            features=nn.Sequential(layers),
            pool=nn.AdaptiveAvgPool2d(7),
            flatten=nn.Flatten(),
            classifier=_classifier(512 * 7 * 7, classes),
        )
    )
    # Thirteen convolutions with torch's default weights let hardly any signal through.
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            assert module.bias is not None
            nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, 0, 0.01)
            nn.init.zeros_(module.bias)
    return model


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut (He et al., 2016)."""

    def __init__(self, before: int, after: int, stride: int, norm: str) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
        self.norm1 = norm_layer(norm, after)
        self.act1 = nn.ReLU()
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm2 = norm_layer(norm, after)
        self.act2 = nn.ReLU()
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(
                OrderedDict(
                    conv=nn.Conv2d(before, after, 1, stride=stride, bias=False),
                    norm=norm_layer(norm, after),
                )
            )

    def forward(self, images: Tensor) -> Tensor:
        """Returns the features."""
        inner = self.act1(self.norm1(self.conv1(images)))
        total: Tensor = self.norm2(self.conv2(inner)) + self.shortcut(images)
        result: Tensor = self.act2(total)
        return result


def resnet10(shape: tuple[int, int, int], classes: int, norm: str) -> nn.Module:
    """ResNet with one block a stage: 4,903,242 parameters (printed 4.90e6) on 3x32x32.

    The 3x3 stem for small images: with ImageNet's 7x7 it would be 4.91e6.
    """
    return nn.Sequential(
        OrderedDict(
            conv=nn.Conv2d(shape[0], 64, 3, padding=1, bias=False),
            norm=norm_layer(norm, 64),
            act=nn.ReLU(),
            stage1=BasicBlock(64, 64, 1, norm),
            stage2=BasicBlock(64, 128, 2, norm),
            stage3=BasicBlock(128, 256, 2, norm),
            stage4=BasicBlock(256, 512, 2, norm),
            pool=nn.AdaptiveAvgPool2d(1),
            flatten=nn.Flatten(),
            fc=nn.Linear(512, classes),
        )
    )
