"""What an attacker really rebuilds: gradient inversion, model inversion, membership inference."""

from recondite.attacks.audit import CanaryAudit
from recondite.attacks.base import Attack, AttackRequest
from recondite.attacks.gradient.analytic import Analytic
from recondite.attacks.gradient.base import GradientAttack, Reconstruction
from recondite.attacks.gradient.bounded import Bounding
from recondite.attacks.gradient.crafted import CraftedWeights
from recondite.attacks.gradient.dlg import DLG, IDLG
from recondite.attacks.gradient.inverting import InvertingGradients
from recondite.attacks.gradient.labels import infer_labels
from recondite.attacks.gradient.mean_image import MeanImage
from recondite.attacks.gradient.multi_step import MultiStep, update
from recondite.attacks.gradient.see_through import SeeThroughGradients
from recondite.attacks.identification.attack import Identify
from recondite.attacks.inversion import ModelInversion
from recondite.attacks.knowledge import THREATS, Knowledge, ThreatModel
from recondite.attacks.membership import Lira, Recipe, Reference, Rmia, Threshold, WhiteBox
from recondite.attacks.outcome import Claim, Outcome
from recondite.attacks.posterior import (
    Adaptive,
    ChannelPosterior,
    GaussNewton,
    ImportanceWeights,
    PublicPrior,
    Strongest,
)
from recondite.attacks.victim import RecordSets, Victim

__all__ = [
    "DLG",
    "IDLG",
    "THREATS",
    "Adaptive",
    "Analytic",
    "Attack",
    "AttackRequest",
    "Bounding",
    "CanaryAudit",
    "ChannelPosterior",
    "Claim",
    "CraftedWeights",
    "GaussNewton",
    "GradientAttack",
    "Identify",
    "ImportanceWeights",
    "InvertingGradients",
    "Knowledge",
    "Lira",
    "MeanImage",
    "ModelInversion",
    "MultiStep",
    "Outcome",
    "PublicPrior",
    "Recipe",
    "Reconstruction",
    "RecordSets",
    "Reference",
    "Rmia",
    "SeeThroughGradients",
    "Strongest",
    "ThreatModel",
    "Threshold",
    "Victim",
    "WhiteBox",
    "infer_labels",
    "update",
]
