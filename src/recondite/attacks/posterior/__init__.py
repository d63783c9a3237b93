"""Posterior attackers: what a release adds to what public records say.

All of them need the defence's likelihood and public records of the same kind, and nothing else.
"""

from recondite.attacks.posterior.adaptive import Adaptive
from recondite.attacks.posterior.channel import ChannelPosterior
from recondite.attacks.posterior.gauss_newton import GaussNewton
from recondite.attacks.posterior.importance import ImportanceWeights
from recondite.attacks.posterior.prior import PublicPrior
from recondite.attacks.posterior.strongest import Strongest

__all__ = [
    "Adaptive",
    "ChannelPosterior",
    "GaussNewton",
    "ImportanceWeights",
    "PublicPrior",
    "Strongest",
]
