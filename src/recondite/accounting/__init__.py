"""Cost of a whole run: schedules, Rényi and tight (ε, δ) accounting."""

from recondite.accounting.composition import Composition
from recondite.accounting.opacus import from_opacus
from recondite.accounting.run import compose, delta, epsilon, epsilon_bracket, renyi_epsilon
from recondite.accounting.schedules import FixedSize, Poisson, RandomAllocation, Schedule, Shuffled

__all__ = [
    "Composition",
    "FixedSize",
    "Poisson",
    "RandomAllocation",
    "Schedule",
    "Shuffled",
    "compose",
    "delta",
    "epsilon",
    "epsilon_bracket",
    "from_opacus",
    "renyi_epsilon",
]
