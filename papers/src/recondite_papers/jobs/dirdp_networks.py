"""The networks of Faustini et al.: what their papers leave open, and how it is read here."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise

from torch import nn

from recondite.models.weights import seeded

__all__ = [
    "ACTIVATIONS",
    "CHOSEN",
    "PaperNetwork",
    "lenet",
    "mlp",
    "usual",
    "usual_lenet",
    "usual_mlp",
]

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid,
}  # fmt: skip


@dataclass(frozen=True)
class PaperNetwork:
    """A reading of what the paper trains.

    Attributes:
      model: "lenet" or "mlp2".
      activation: One of ``ACTIVATIONS``.
      pooling: "max" or "average", of LeNet.
      hidden: Widths, of the MLP.
      pixels: "half" ((x - .5)/.5) or "unit" (x).
      optimizer: Another than the printed one, or None.
      first: How weights are drawn: by torch's own law, by Glorot's ("xavier"), or uniformly in
        ±0.5, biases too, as the authors of DLG have it ("dlg").
    """

    model: str
    activation: str
    pooling: str = "max"
    hidden: tuple[int, ...] = (1024,)
    pixels: str = "half"
    optimizer: str | None = None
    first: str = "torch"

    @property
    def name(self) -> str:
        """For blocks and tables."""
        shape = self.pooling if self.model == "lenet" else "-".join(map(str, self.hidden))
        parts = [self.model, self.activation, shape, self.pixels, self.optimizer or "as-is"]
        return "/".join(parts if self.first == "torch" else [*parts, self.first])

    def build(self, shape: tuple[int, int, int], classes: int, seed: int | None) -> nn.Module:
        """The network with its initial weights, from a seed or torch's own generator."""
        with seeded(seed):
            net = self._layers(shape, classes)
            for weight in net.parameters() if self.first != "torch" else ():
                if self.first == "dlg":
                    nn.init.uniform_(weight, -0.5, 0.5)
                elif weight.ndim > 1:
                    nn.init.xavier_uniform_(weight)
            return net

    def _layers(self, shape: tuple[int, int, int], classes: int) -> nn.Module:
        act = ACTIVATIONS[self.activation]
        if self.model == "lenet":
            pool = nn.MaxPool2d if self.pooling == "max" else nn.AvgPool2d
            padding = 2 if shape[1] == 28 else 0
            return nn.Sequential(
                nn.Conv2d(shape[0], 6, 5, padding=padding), act(), pool(2),
                nn.Conv2d(6, 16, 5), act(), pool(2), nn.Flatten(),
                nn.Linear(400, 120), act(), nn.Linear(120, 84), act(), nn.Linear(84, classes),
            )  # fmt: skip
        widths = (math.prod(shape), *self.hidden, classes)
        layers: list[nn.Module] = [nn.Flatten()]
        for one, other in pairwise(widths):
            layers += [nn.Linear(one, other), act()]
        return nn.Sequential(*layers[:-1])


# Picked after the fact among what was tried (job "dirdp-variants"): LeNet "the original", with
# tanh and average pooling, the hidden layers of 50 and 15 units that the same authors use in 2025,
# and the initial weights of DLG's program, on which the attacks of this field are built.
CHOSEN = {
    "lenet": PaperNetwork("lenet", "tanh", pooling="average", first="dlg"),
    "mlp2": PaperNetwork("mlp2", "tanh", hidden=(50, 15), first="dlg"),
}


def usual(model: str) -> PaperNetwork:
    """The chosen network with torch's own initial weights, as Table 3 and older searches have."""
    return replace(CHOSEN[model], first="torch")


def lenet(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """The chosen LeNet, for ``model:`` of a study file."""
    return CHOSEN["lenet"].build(shape, classes, None)


def mlp(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """The chosen MLP, for ``model:`` of a study file."""
    return CHOSEN["mlp2"].build(shape, classes, None)


def usual_lenet(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """The same with torch's own initial weights."""
    return usual("lenet").build(shape, classes, None)


def usual_mlp(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """The same with torch's own initial weights."""
    return usual("mlp2").build(shape, classes, None)
