"""What can stand on an axis: notions of privacy, what attacks reached, and utility."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["AXES", "JUDGES", "NOTIONS", "Axis", "attack_name", "axis", "defence_name"]


@dataclass(frozen=True)
class Axis:
    """One quantity.

    Attributes:
      key: Its name in the data.
      label: Its name on an axis.
      short: Its name in the head of a table.
      kind: ``notion`` (an upper bound that holds), ``attack`` (what was seen) or ``utility``.
      log: Whether it spans orders of magnitude.
      success: +1 where larger means that the attacker got more, -1 the reverse, 0 for neither.
      about: One sentence for the reader.
    """

    key: str
    label: str
    short: str
    kind: str
    log: bool
    success: int
    about: str


NOTIONS = (
    Axis("epsilon", "ε of the run, tight", "ε", "notion", True, 1,
         "How well anyone can tell whether one record took part, at the δ of the run."),
    Axis("epsilon_rdp", "ε of the run, by Rényi accounting", "ε (Rényi)", "notion", True, 1,
         "The same promise through Rényi divergences: never smaller than the tight one."),
    Axis("log_bayes_capacity_release", "log Bayes’ capacity, one release (nats)",
         "log capacity, release", "notion", True, 1,
         "How much one release can raise the success of a single best guess, for any prior."),
    Axis("log_bayes_capacity_run", "log Bayes’ capacity, whole run (nats)",
         "log capacity, run", "notion", True, 1,
         "The same for everything that was released."),
    Axis("mutual_information_release", "mutual information, one release (nats)",
         "information, release", "notion", True, 1,
         "What one release can tell about the data, on average."),
    Axis("mutual_information_run", "mutual information, whole run (nats)",
         "information, run", "notion", True, 1,
         "The same for everything that was released."),
    Axis("rero_bound", "reconstruction success, at most (ReRo)", "ReRo", "notion", False, 1,
         "The chance that any attack rebuilds a record, where a blind guess has the stated one."),
)  # fmt: skip

MEASURES = (
    Axis("accuracy", "test accuracy", "accuracy", "utility", False, 0,
         "Share of test records the model gets right."),
    Axis("mse", "MSE of the reconstruction, mean image", "MSE", "attack", True, -1,
         "Mean squared error per pixel of what the strongest attack rebuilt. Larger is safer."),
    Axis("ssim", "SSIM of the reconstruction, mean image", "SSIM, mean image", "attack", False, 1,
         "Structural similarity of what the strongest attack rebuilt. 1 is a perfect copy."),
    Axis("ssim_worst", "SSIM of the reconstruction, worst image", "SSIM, worst image", "attack",
         False, 1,
         "The image an attack rebuilt best: the person most at risk."),
    Axis("auc", "AUC of the membership attack", "AUC", "attack", False, 1,
         "How well the strongest membership attack tells members from others. 0.5 is guessing."),
    Axis("gdc", "general defence capability (GDC)", "GDC", "attack", False, -1,
         "Mean of both improvements over no defence (Tan et al. 2024). Larger is safer."),
)  # fmt: skip

IMPROVEMENTS = (
    Axis("imp_dra", "IMP against reconstruction", "IMP, reconstruction", "attack", False,
         -1, "1 − MSE without a defence over MSE with it (Tan et al. 2024). Larger is safer."),
    Axis("imp_mia", "IMP against membership", "IMP, membership", "attack", False,
         -1, "1 − AUC with a defence over AUC without it (Tan et al. 2024). Larger is safer."),
)  # fmt: skip

AXES = (*NOTIONS, *MEASURES, *IMPROVEMENTS)

# What a recommendation may minimise, best first: the person most at risk before the mean.
JUDGES = ("ssim_worst", "ssim", "auc")

_BY_KEY = {quantity.key: quantity for quantity in AXES}

_DEFENCES = {
    "none": "Undefended",
    "clip": "Clipping only",
    "compression": "Compression",
    "vmf": "VMF",
    "gaussian": "Gaussian (DP-SGD)",
    "directional": "Directional, per record",
    "partitioned": "Partitioned VMF",
    "natural-channel": "Natural channel",
    "white-channel": "White channel",
    "personalized-channel": "Personalized channel",
    "minimum-power-channel": "Minimum-power channel",
}

_ATTACKS = {
    "dlg": "DLG",
    "idlg": "iDLG",
    "inverting-gradients": "Inverting Gradients",
    "see-through-gradients": "See Through Gradients",
    "analytic": "Analytic",
    "mean-image": "Mean image",
    "multi-step": "Multi-step inversion",
    "adaptive": "Adaptive inversion",
    "model-inversion": "Model inversion",
    "looking": "Looking at the released record",
    "membership-threshold": "Membership: loss threshold",
    "membership-reference": "Membership: reference model",
    "membership-lira": "Membership: LiRA",
    "membership-rmia": "Membership: RMIA",
    "membership-white-box": "Membership: white box",
}


def axis(key: str) -> Axis:
    """The quantity of that name."""
    return _BY_KEY[key]


def defence_name(key: str) -> str:
    """A defence in words; a third party's own name as it is."""
    return _DEFENCES.get(key, key.replace("-", " ").replace("_", " ")) or "unnamed"


def attack_name(key: str) -> str:
    """An attack in words; a third party's own name as it is."""
    return _ATTACKS.get(key, key.replace("-", " ").replace("_", " ")) or "unnamed"
