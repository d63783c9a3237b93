"""Cost of a whole run: schedules, Rényi and tight (ε, δ) accounting, calibration."""

from recondite.accounting.account import Account, account
from recondite.accounting.calibration import Calibration, calibrate, match
from recondite.accounting.composition import Composition
from recondite.accounting.epsilon import compose, delta, epsilon, epsilon_bracket, renyi_epsilon
from recondite.accounting.schedules import FixedSize, Poisson, Schedule, Shuffled

__all__ = [
    "Account",
    "Calibration",
    "Composition",
    "FixedSize",
    "Poisson",
    "Schedule",
    "Shuffled",
    "account",
    "calibrate",
    "compose",
    "delta",
    "epsilon",
    "epsilon_bracket",
    "match",
    "renyi_epsilon",
]
