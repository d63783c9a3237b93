"""The larger networks of Tan et al. (2024): AlexNet, VGG16, ResNet10, for images of 32x32.

The paper names them and prints their numbers of parameters (Table 2); these are the variants that
have those numbers.
"""

from __future__ import annotations

from collections import OrderedDict

from torch import Tensor, nn

from recondite.models.norms import norm_layer

__all__ = ["BasicBlock", "alexnet", "resnet10", "vgg16"]


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
