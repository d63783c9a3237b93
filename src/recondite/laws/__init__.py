"""Privacy-loss laws: what every notion of privacy reads from a mechanism.

A law describes the worst-case pair (P, Q) of one release: P with a person's records, Q without
(or with them replaced), through the law of the loss L = log dP/dQ. Sampling turns one law into
another; accounting composes them. Nothing here knows which mechanism a law came from.
"""

from recondite.laws.allocated import AllocatedLoss
from recondite.laws.base import LossLaw
from recondite.laws.closed_form import GaussianLoss, InfiniteLoss
from recondite.laws.pair import DiscretePair, GridTooFineError
from recondite.laws.product import ProductLoss
from recondite.laws.sampled import FoldedLoss, RevealedLoss, without_replacement
from recondite.laws.sphere import SphereLoss

__all__ = [
    "AllocatedLoss",
    "DiscretePair",
    "FoldedLoss",
    "GaussianLoss",
    "GridTooFineError",
    "InfiniteLoss",
    "LossLaw",
    "ProductLoss",
    "RevealedLoss",
    "SphereLoss",
    "without_replacement",
]
