"""The papers' settings by name; what a paper leaves out is marked as an assumption."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from recondite._validate import choice

__all__ = ["PRESETS", "Preset", "preset"]


@dataclass(frozen=True)
class Preset:
    """Settings of an attack in a paper.

    Attributes:
      attack: Name of the attack.
      paper: Where they are printed.
      options: Settings of the attack's class.
      batch_size: Records behind a gradient.
      assumptions: What the paper does not print, and what was chosen.
    """

    attack: str
    paper: str
    options: Mapping[str, Any] = field(default_factory=dict)
    batch_size: int = 1
    assumptions: tuple[str, ...] = ()


_COMPARE = "Biswas et al., Comparing privacy notions … (2025)"
_DIRDP = "Faustini et al., Applying directional noise to deep learning (2023)"
_CHANNEL = "Tan et al., Defending against data reconstruction attacks in federated learning (2024)"
_RATE = "learning rate 0.1 with decay and total variation 1e-4, the attack's published defaults"
PRESETS: dict[str, Preset] = {
    "geiping-2020": Preset(
        "inverting-gradients",
        "Geiping et al., Inverting gradients (2020)",
        {"steps": 4800, "restarts": 1, "learning_rate": 0.1, "total_variation": 1e-4},
        assumptions=("total variation 1e-4, of the paper's range 1e-6 to 1e-1",),
    ),
    "breaching": Preset(
        "inverting-gradients",
        "the invertinggradients preset of the breaching library, 0.1.2",
        {"steps": 24000, "restarts": 1, "learning_rate": 0.1, "total_variation": 0.2},
    ),
    "compare-iga": Preset(
        "inverting-gradients",
        _COMPARE,
        {"steps": 10_000, "restarts": 1, "learning_rate": 0.1, "total_variation": 1e-4},
        batch_size=128,
        assumptions=(_RATE, "labels known to the attacker", "one start"),
    ),
    "compare-dlg": Preset(
        "dlg",
        _COMPARE,
        {"steps": 2500, "restarts": 1},
        assumptions=(
            "2,500 L-BFGS iterations (the published 300 steps are of up to 20 each)",
            "batch size 1",
        ),
    ),
    "dirdp-iga": Preset(
        "inverting-gradients",
        _DIRDP,
        {"steps": 7_000, "restarts": 1, "learning_rate": 0.1, "total_variation": 1e-4},
        assumptions=(_RATE, "7,000 iterations, after the set-up the paper follows"),
    ),
    "dirdp-v1-iga": Preset(
        "inverting-gradients",
        f"{_DIRDP}, first version",
        {"steps": 1000, "restarts": 1, "learning_rate": 0.1, "total_variation": 1e-4},
        assumptions=(_RATE,),
    ),
    "dirdp-v1-dlg": Preset(
        "dlg",
        f"{_DIRDP}, first version",
        {"steps": 1000, "restarts": 1},
        assumptions=("one start",),
    ),
    "channel-gradient": Preset(
        "inverting-gradients",
        _CHANNEL,
        {"steps": 4800, "restarts": 1, "learning_rate": 0.1, "total_variation": 1e-4},
        assumptions=("the settings of Geiping et al. (2020), as the paper says, without numbers",),
    ),
    "channel-mean-image": Preset(
        "mean-image",
        f"{_CHANNEL}, Appendix D",
        {"steps": 4800, "restarts": 1, "learning_rate": 0.1, "total_variation": 1e-4},
        batch_size=64,
        assumptions=("iterations and label of the one image are not printed",),
    ),
    "channel-model-inversion": Preset("model-inversion", _CHANNEL, {}),
}


def preset(name: str) -> Preset:
    """The preset of this name."""
    return PRESETS[choice("preset", name, tuple(PRESETS))]
