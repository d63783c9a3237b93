"""Membership inference: was this record in the training set?

Pure score functions of losses and confidences, and thin attack classes over them.
"""

from recondite.attacks.membership.base import MembershipAttack
from recondite.attacks.membership.lira import Lira, lira_offline_scores, lira_online_scores
from recondite.attacks.membership.recipe import PRESETS, Recipe
from recondite.attacks.membership.reference import Reference, reference_scores
from recondite.attacks.membership.references import References, train_references
from recondite.attacks.membership.rmia import Rmia, rmia_scores
from recondite.attacks.membership.threshold import Threshold, threshold_scores
from recondite.attacks.membership.white_box import WhiteBox
from recondite.metrics.membership import EpsilonLower, MembershipResult
from recondite.metrics.one_run import (
    OneRunBound,
    one_run_lower_bound,
    one_run_p_value,
)

__all__ = [
    "ATTACKS",
    "PRESETS",
    "EpsilonLower",
    "Lira",
    "MembershipAttack",
    "MembershipResult",
    "OneRunBound",
    "Recipe",
    "Reference",
    "References",
    "Rmia",
    "Threshold",
    "WhiteBox",
    "lira_offline_scores",
    "lira_online_scores",
    "one_run_lower_bound",
    "one_run_p_value",
    "reference_scores",
    "rmia_scores",
    "threshold_scores",
    "train_references",
]

ATTACKS: dict[str, type[MembershipAttack]] = {
    attack.name: attack for attack in (Threshold, Reference, Lira, Rmia, WhiteBox)
}
