"""What can stand on an axis: notions of privacy, what attacks reached, and utility."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from recondite.defences import defences
from recondite.notions import figures, format_bound
from recondite.notions.bounds import Direction
from recondite.report.words import figure

__all__ = [
    "JUDGES",
    "Axis",
    "attack_name",
    "axes",
    "axis",
    "bound",
    "defence_name",
    "notion_axes",
    "notion_of",
    "promises",
    "worst",
]


@dataclass(frozen=True)
class Axis:
    """One quantity. Those of notions come from the notions themselves.

    Attributes:
      key: Its name in the data.
      label: Its name on an axis.
      short: Its name in the head of a table.
      kind: ``notion`` (an upper bound that holds), ``attack`` (what was seen) or ``utility``.
      log: Whether it spans orders of magnitude.
      success: +1 where larger means that the attacker got more, -1 the reverse, 0 for neither.
      about: One sentence for the reader.
      unit: Of its numbers, for the heads of tables; "" for a pure number.
      plain: Its name for whoever does not know the field.
      share: Whether it is a share, shown in percent.
    """

    key: str
    label: str
    short: str
    kind: str
    log: bool
    success: int
    about: str
    unit: str = ""
    plain: str = ""
    share: bool = False


MEASURES = (
    Axis("accuracy", "test accuracy", "accuracy", "utility", False, 0,
         "Share of test records the model gets right.", "%",
         "how often the model is right", True),
    Axis("mse", "MSE of the reconstruction, mean image", "MSE", "attack", True, -1,
         "Mean squared error per pixel of what the strongest attack rebuilt. Larger is safer.",
         "pixel²", "how far off what was rebuilt is"),
    Axis("ssim", "SSIM of the reconstruction, mean image", "SSIM, mean image", "attack", False, 1,
         "Structural similarity of what the strongest attack rebuilt. 1 is a perfect copy.",
         "1 is a copy", "likeness of what was rebuilt, average person"),
    Axis("ssim_worst", "SSIM of the reconstruction, worst image", "SSIM, worst image", "attack",
         False, 1,
         "The image an attack rebuilt best: the person most at risk.", "1 is a copy",
         "likeness of what was rebuilt, person most at risk"),
    Axis("auc", "AUC of the membership attack", "AUC", "attack", False, 1,
         "How well the strongest membership attack tells members from others. 0.5 is guessing.",
         "0.5 is guessing", "how well it shows who took part (0.5: not at all)"),
    Axis("identification", "picked out of 10 candidates, over the training", "picked of 10",
         "attack", False, 1,
         "How often an intruder who sees the whole training picks the record out of 10.", "%",
         "how often a record is picked out of 10", True),
    Axis("gain", "share of the blind guess’s error removed", "gain over a guess", "attack", False,
         1, "What the strongest attack adds to a guess that sees no release. 0 is guessing.", "%",
         "how much better than a guess", True),
    Axis("gdc", "general defence capability (GDC)", "GDC", "attack", False, -1,
         "Mean of both improvements over no defence (Tan et al. 2024). Larger is safer.",
         "1 is best"),
)  # fmt: skip

IMPROVEMENTS = (
    Axis("imp_dra", "IMP against reconstruction", "IMP, reconstruction", "attack", False,
         -1, "1 − MSE without a defence over MSE with it (Tan et al. 2024). Larger is safer.",
         "1 is best"),
    Axis("imp_mia", "IMP against membership", "IMP, membership", "attack", False,
         -1, "1 − AUC with a defence over AUC without it (Tan et al. 2024). Larger is safer.",
         "1 is best"),
)  # fmt: skip

_MEASURED = {quantity.key: quantity for quantity in (*MEASURES, *IMPROVEMENTS)}

# What the chart shows first, where it is there: a chance with a proof before a likeness.
JUDGES = ("identification", "gain", "ssim_worst", "ssim", "auc")

_ATTACKS = {
    "dlg": "DLG",
    "idlg": "iDLG",
    "inverting-gradients": "Inverting Gradients",
    "see-through-gradients": "See Through Gradients",
    "analytic": "Analytic",
    "mean-image": "Mean image",
    "multi-step": "Multi-step inversion",
    "crafted-weights": "Crafted weights (active server)",
    "strongest": "Portfolio",
    "importance-weights": "Importance weights",
    "gauss-newton": "Gauss–Newton",
    "adaptive": "Gauss–Newton (as adaptive)",
    "model-inversion": "Model inversion",
    "released-record": "The released record itself",
    "looking": "The released record itself",  # as rows of 0.1.0 call it
    "channel-posterior": "Posterior behind a channel",
    "membership-threshold": "Membership: loss threshold",
    "membership-reference": "Membership: reference model",
    "membership-lira": "Membership: LiRA",
    "membership-rmia": "Membership: RMIA",
    "membership-white-box": "Membership: white box",
    "identification": "Identification",
}


def notion_axes() -> tuple[Axis, ...]:
    """The notions of privacy that are installed, ours first."""
    return tuple(
        Axis(
            key,
            one.label,
            one.short,
            "notion",
            one.log,
            1 if notion.direction == "upper" else -1,
            one.about,
            notion.unit,
            notion.promise,
        )
        for key, (notion, one) in figures().items()
        if one.axis
    )


def axes() -> tuple[Axis, ...]:
    """Every quantity, notions first."""
    return (*notion_axes(), *_MEASURED.values())


def axis(key: str) -> Axis:
    """The quantity of that name."""
    if key in _MEASURED:
        return _MEASURED[key]
    return next(quantity for quantity in notion_axes() if quantity.key == key)


def bound(key: str, value: float | None, digits: int = 3) -> str:
    """A notion's value, rounded to the side that does not flatter it."""
    return format_bound(value, digits, _direction(key), show=figure)


def promises(key: str, value: float | None) -> bool:
    """Whether a bound says anything; of a notion that is not installed, whether it is finite."""
    known = figures().get(key)
    if value is None or known is None:
        return value is not None and math.isfinite(value)
    return known[0].promises(known[1], value)


def worst(key: str, values: Sequence[float]) -> float:
    """Of several bounds the one that promises least."""
    return max(values) if _direction(key) == "upper" else min(values)


def notion_of(key: str) -> str:
    """The key in an account of the notion behind an axis."""
    known = figures().get(key)
    return key if known is None else known[0].key


def _direction(key: str) -> Direction:
    known = figures().get(key)
    return "upper" if known is None else known[0].direction


def defence_name(key: str) -> str:
    """A defence in words; one that is not installed here by its name."""
    known = defences(unproven=True).get(key)
    return (known.heading if known else key.replace("-", " ").replace("_", " ")) or "unnamed"


def attack_name(key: str) -> str:
    """An attack in words; a third party's own name as it is."""
    return _ATTACKS.get(key, key.replace("-", " ").replace("_", " ")) or "unnamed"
