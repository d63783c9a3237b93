"""Privacy-loss laws: what every notion of privacy reads from a mechanism.

A law describes the worst-case pair (P, Q) of one release: P with a person's records, Q without
(or with them replaced), through the law of the loss L = log dP/dQ. Sampling turns one law into
another; accounting composes them. Nothing here knows which mechanism a law came from.
"""

from recondite.losses.allocated import AllocatedLoss
from recondite.losses.base import LossLaw
from recondite.losses.errors import GridTooFineError
from recondite.losses.gaussian import GaussianLoss
from recondite.losses.infinite import InfiniteLoss
from recondite.losses.pair import DiscretePair
from recondite.losses.product import ProductLoss
from recondite.losses.sampled import FoldedLoss, RevealedLoss, without_replacement
from recondite.losses.sphere import SphereLoss

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
