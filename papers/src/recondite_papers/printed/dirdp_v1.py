"""Faustini et al., the first version (2022), as printed."""

from __future__ import annotations

from recondite_papers.printed.text import pairs, singles

__all__ = [
    "ASSUMPTIONS",
    "CLAIMS",
    "TABLE_1",
    "TABLE_2",
    "TABLE_3",
    "TABLE_4",
    "TABLE_5",
    "TABLE_6",
]

ASSUMPTIONS = (
    "LeNet is that of the gradient-leakage papers (sigmoid, strides; 15,826 parameters): DLG "
    "does not work on ReLU and max pooling",
    "noise of the attacks: N(0, ε²) on the raw gradient, as Section 4.4 says; turned gradients "
    "keep their length, or DLG could not match them",
    "labels of CIFAR-10 where CIFAR-100's were used (CIFAR-100 is not here)",
    "trained victims: five epochs",
    "accuracies (Tables 1 and 2): the networks of the 2023 version, δ = 1e-5 and tight accounting; "
    "VMF noise on clipped gradients, by single weights and by rows",
)
# Accuracy in per cent: (model, defence, ε): MNIST, CIFAR-10, CIFAR-100.
_ACCURACY = """
lenet none 0 96.2 57.0 28.3
mlp2 none 0 97.0 47.5 18.5
lenet gaussian .8 88.7 33.3 4.2
lenet gaussian 1 88.0 34.9 5.2
lenet gaussian 2 86.5 39.1 9.8
lenet gaussian 3 84.8 41.1 11.3
lenet gaussian 8 83.3 46.1 14.9
lenet gaussian 80 81.4 50.1 19.9
lenet vmf 5 50.2 51.9 23.3
lenet vmf 10 58.5 53.5 24.5
lenet vmf 50 65.7 54.9 27.1
lenet vmf 500 76.7 57.0 29.1
lenet vmf 300000 81.8 57.2 29.5
mlp2 gaussian .8 91.9 35.9 9.0
mlp2 gaussian 1 92.0 36.6 9.4
mlp2 gaussian 2 92.1 38.3 10.9
mlp2 gaussian 3 91.9 40.2 11.6
mlp2 gaussian 8 91.8 47.3 12.3
mlp2 gaussian 80 91.6 21.3 2.5
mlp2 vmf 5 89.7 45.3 15.2
mlp2 vmf 10 89.9 45.4 15.7
mlp2 vmf 50 90.2 46.0 16.6
mlp2 vmf 500 91.1 47.3 18.2
mlp2 vmf 300000 91.8 47.9 18.6
"""
# LFW: Top-1, Top-5, Top-10.
_FACES = """
lenet none 0 5.4 19.4 31.0
mlp2 none 0 14.0 32.1 41.5
lenet gaussian .8 .3 2.7 6.2
lenet gaussian 1 .3 2.7 5.1
lenet gaussian 2 .3 2.7 4.9
lenet gaussian 3 .3 2.2 4.3
lenet gaussian 8 .3 1.6 3.0
lenet gaussian 80 .3 .8 3.5
lenet vmf 5 0 2.2 4.9
lenet vmf 10 0 2.4 4.6
lenet vmf 50 0 2.7 5.1
lenet vmf 500 8.4 24.5 39.4
lenet vmf 300000 10.8 27.8 42.0
mlp2 gaussian .8 .3 5.1 9.4
mlp2 gaussian 1 .3 5.1 9.4
mlp2 gaussian 2 .3 5.1 8.1
mlp2 gaussian 3 .3 3.5 6.7
mlp2 gaussian 8 .3 .8 4.6
mlp2 gaussian 80 .5 1.9 5.1
mlp2 vmf 5 1.9 8.9 15.4
mlp2 vmf 10 2.2 9.7 14.8
mlp2 vmf 50 3.0 9.7 18.9
mlp2 vmf 500 3.5 15.6 23.2
mlp2 vmf 300000 8.6 24.8 39.4
"""
# DLG: SSIM on MNIST, CIFAR, LFW; then MSE.
_DLG = """
lenet none 0 .820 .840 .939 0 0 0
mlp2 none 0 1.000 .760 .820 0 0 0
lenet gaussian .8 0 0 0 3636 787.6 991.5
lenet gaussian 1 0 0 0 4948 102e5 169e6
lenet gaussian 2 0 0 0 109e8 154e8 143e7
lenet gaussian 3 0 0 0 401e7 102e7 84e7
lenet gaussian 8 0 0 0 384e7 119e7 89e7
lenet gaussian 80 0 0 0 142e11 177e8 1906e7
lenet vmf 5 0 0 0 242e11 317e13 658e13
lenet vmf 10 0 0 0 163e9 1076 1132
lenet vmf 50 0 0 0 248e6 429.9 412.5
lenet vmf 500 0 .001 .001 2566 92.2 137.9
lenet vmf 300000 .801 .688 .745 .001 .009 .009
mlp2 gaussian .8 0 0 0 229e8 178e8 147e8
mlp2 gaussian 1 0 0 0 211e8 817e7 256e8
mlp2 gaussian 2 0 0 0 332e8 838e7 66e8
mlp2 gaussian 3 0 0 0 381e8 135e8 164e8
mlp2 gaussian 8 0 0 0 17e11 973e8 736e9
mlp2 gaussian 80 0 0 0 421e9 439e9 296e10
mlp2 vmf 5 0 0 0 119e8 69e12 17e13
mlp2 vmf 10 0 0 0 223e8 80e14 529e11
mlp2 vmf 50 0 0 0 728e8 216e4 158e6
mlp2 vmf 500 0 0 0 211e6 547 197e5
mlp2 vmf 300000 .767 .596 .644 .006 .008 .008
"""
_IGA = """
lenet none 0 .065 .015 .188 .778 1.015 .086
mlp2 none 0 .321 .479 .528 .445 .076 .036
lenet gaussian .8 0 .001 0 3.583 2.218 2.341
lenet gaussian 1 -.004 .001 0 3.345 2.275 2.402
lenet gaussian 2 -.002 0 0 3.283 2.265 2.469
lenet gaussian 3 -.005 0 .001 3.277 2.365 2.487
lenet gaussian 8 -.004 -.001 .001 3.315 2.433 2.515
lenet gaussian 80 -.001 0 -.001 3.303 2.433 1.916
lenet vmf 5 -.001 0 0 3.397 2.797 2.935
lenet vmf 10 -.002 0 .001 3.356 2.806 2.872
lenet vmf 50 .008 .001 0 3.138 2.659 2.417
lenet vmf 500 .049 .003 .006 1.380 1.724 .626
lenet vmf 300000 .075 .014 .225 .740 1.042 .076
mlp2 gaussian .8 .003 -.001 .001 3.813 3.890 3.677
mlp2 gaussian 1 .002 -.001 0 3.845 3.848 3.657
mlp2 gaussian 2 .004 -.001 0 3.853 3.873 3.687
mlp2 gaussian 3 -.001 -.001 .001 3.839 3.831 3.694
mlp2 gaussian 8 -.002 -.001 0 3.933 3.883 3.707
mlp2 gaussian 80 .003 0 0 3.909 3.869 3.610
mlp2 vmf 5 .003 .001 0 3.845 3.802 3.613
mlp2 vmf 10 .009 .002 0 3.926 3.845 3.595
mlp2 vmf 50 .003 0 0 3.677 3.749 3.575
mlp2 vmf 500 .007 0 0 3.487 3.650 3.362
mlp2 vmf 300000 .138 0 .046 .879 1.985 .703
"""
_NAMES = ("mnist", "cifar10", "lfw")

TABLE_1 = singles(_ACCURACY, ("mnist", "cifar10", "cifar100"))
# (model, defence, ε, k): Top-k on LFW.
TABLE_2 = singles(_FACES, (1, 5, 10))
# (model, defence, ε, data): (SSIM, median MSE).
TABLE_3, TABLE_4 = pairs(_DLG, _NAMES), pairs(_IGA, _NAMES)
# (model, data): batch, learning rate, epochs, optimizer.
TABLE_5 = {
    ("lenet", "mnist"): (200, 0.1, 30, "SGD"),
    ("lenet", "cifar10"): (512, 0.001, 90, "AdamW"),
    ("lenet", "lfw"): (128, 0.001, 100, "AdamW"),
    ("mlp2", "mnist"): (128, 0.1, 30, "SGD"),
    ("mlp2", "cifar10"): (128, 0.1, 25, "AdamW"),
    ("mlp2", "lfw"): (128, 0.001, 30, "AdamW"),
}
# (attack, model, weights, data): (SSIM, MSE). The LFW cells of the two trained rows of DLG repeat.
TABLE_6 = {
    (attack, model, weights, name): pair
    for attack, model, weights, pairs in (
        ("dlg", "lenet", "untrained", ((0.820, 0.0), (0.840, 0.0), (0.939, 0.0))),
        ("dlg", "lenet", "trained", ((0.717, 0.0), (0.501, 0.017), (0.216, 107e4))),
        ("dlg", "mlp2", "untrained", ((1.0, 0.0), (0.760, 0.0), (0.820, 0.0))),
        ("dlg", "mlp2", "trained", ((0.040, 836e5), (0.0, 19e5), (0.216, 107e4))),
        ("iga", "lenet", "untrained", ((0.065, 0.778), (0.015, 1.015), (0.188, 0.086))),
        ("iga", "lenet", "trained", ((0.019, 1.211), (0.054, 1.117), (0.197, 0.079))),
        ("iga", "mlp2", "untrained", ((0.321, 0.445), (0.479, 0.076), (0.528, 0.036))),
        ("iga", "mlp2", "trained", ((0.128, 0.944), (0.024, 1.586), (0.564, 0.037))),
    )
    for name, pair in zip(_NAMES, pairs, strict=True)
}
CLAIMS = {
    "utility": "On CIFAR VMF noise costs 10 to 20 points less than Gaussian noise.",
    "defence": "Noise of either kind stops DLG and Inverting Gradients.",
    "dlg": "Without noise DLG rebuilds images nearly exactly.",
    "trained": "Trained victims are harder to attack than untrained ones.",
}
