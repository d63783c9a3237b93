"""Which of n candidates took part? The attack that stands beside the reconstruction bound."""

from recondite.attacks.identification.attack import Identify
from recondite.attacks.identification.game import IdentificationGame, Turn
from recondite.metrics.identification import Identified, identified

__all__ = ["IdentificationGame", "Identified", "Identify", "Turn", "identified"]
