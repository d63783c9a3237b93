"""Tan et al., "Defending against data reconstruction attacks in federated learning" (2024)."""

from __future__ import annotations

__all__ = ["ASSUMPTIONS", "CLAIMS", "DP", "EIGENVALUES", "FIGURE_14", "SETTING", "TABLE_2"]

SETTING = {
    "data": "CIFAR-10, CelebA, SVHN, Fashion-MNIST at 32×32",
    "models": "LeNet, AlexNet, VGG16, ResNet10",
    "steps": 10_000,
    "batch": 64,
    "capacities": "Natural 50, 100, 200, 300; White and Personalized 500, 800, 1000, 1500",
    "beta": "50 on rows 12-19 and columns 8-23, 1 elsewhere",
    "dp": "S = 1, δ = 1e-5, multipliers .8, .57, .46, .2066",
}
ASSUMPTIONS = (
    "pixels are (x - .5)/.5: the printed eigenvalues come out on that scale",
    "Adam with learning rate 0.001 (VGG16: 0.0001): no optimizer is named",
    "fresh noise at every step (per_step): the paper's n·κ needs it",
    "the attacked network of Figure 14 is untrained",
    "CelebA and SVHN were not run: their files are not here (`recondite data list` has the "
    "loaders); Figure 5's faces are LFW's",
    "DRA of Figures 10, 13, 15 and 16 is model inversion of trained networks; the white-box "
    "membership attack knows half of the records; the victim sees half of the training set",
)
# Parameters; seconds for 25 epochs: SGD, DP-SGD, ours.
TABLE_2 = {
    "lenet": (6.20e4, 283.43, 445.45, 312.99),
    "resnet10": (4.90e6, 624.23, 1397.34, 651.29),
    "alexnet": (3.59e7, 374.13, 1023.83, 406.02),
    "vgg16": (1.34e8, 581.69, 3402.91, 612.99),
}
# λ at places 0, 1, 10.
EIGENVALUES = {
    "cifar10": (222.21, 85.08, 9.91),
    "celeba": (346.21, 71.01, 12.82),
    "svhn": (313.0, 28.04, 4.67),
    "fashion-mnist": (101.88, 61.80, 3.21),
}
# Multiplier: ε and capacity as printed.
DP = {0.8: (1.705, 100), 0.57: (5.120, 200), 0.46: (12.026, 300), 0.2066: (331.668, 1500)}
_MODELS = ("lenet", "alexnet", "vgg16", "resnet10")
_ROWS = {
    "natural": (
        0.7166, 0.5407, 0.4006, 0.3337, 0.1448, 0.8304, 0.7292, 0.579, 0.4688, 0.2425,
        0.5091, 0.4128, 0.2968, 0.2623, 0.1955, 0.231, 0.2272, 0.2185, 0.2061, 0.08568,
    ),
    "white": (
        0.7496, 0.7083, 0.5276, 0.4704, 0.1448, 1.03, 0.9447, 0.8839, 0.751, 0.2425,
        0.4877, 0.4553, 0.3902, 0.3772, 0.1955, 0.2438, 0.2216, 0.2027, 0.1886, 0.08568,
    ),
    "personalized-paper": (
        0.7134, 0.7172, 0.686, 0.6544, 0.1448, 0.8062, 0.7923, 0.7581, 0.7444, 0.2425,
        0.4429, 0.453, 0.4424, 0.4241, 0.1955, 0.2338, 0.2338, 0.2329, 0.232, 0.08568,
    ),
}  # fmt: skip
# (model, channel, κ; 0 without defence): MSE of gradient inversion on CIFAR-10.
FIGURE_14 = {
    (model, channel, kappa): row[5 * number + place]
    for channel, row in _ROWS.items()
    for number, model in enumerate(_MODELS)
    for place, kappa in enumerate((50.0, 100.0, 200.0, 300.0, 0.0))
}
CLAIMS = {
    "capacity": "Accuracy rises and reconstruction error falls with κ.",
    "rounds": "Accuracy rises with n.",
    "stronger": "White and Personalized defend better than Natural at equal κ.",
    "natural": "Natural has the best trade-off of accuracy and defence.",
    "dp-batch": "Under DP a smaller batch defends better against reconstruction.",
    "constant": "Under constant noise a larger batch defends better.",
    "compress": "Compressing the largest eigenvalue defends best.",
    "embedding": "The same theory holds for embeddings.",
    "cost": "Noise on data costs little time, noise on gradients much.",
    "bound": "n rounds leak at most n·κ.",
}
