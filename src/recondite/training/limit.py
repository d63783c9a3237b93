"""How long training may go on within a budget."""

from __future__ import annotations

import math
from dataclasses import dataclass

from recondite.accounting import epsilon
from recondite.channels.ledger import BudgetSpentError
from recondite.mechanisms import Mechanism
from recondite.training.ledger import Ledger
from recondite.training.sampling import PrivateLoader

__all__ = ["BudgetSpentError", "Limit", "most_steps"]


@dataclass
class Limit:
    """Whether one step more keeps within ``max_epsilon``.

    Attributes:
      loader: Whose schedule is accounted.
      ledger: Counts the steps and the epochs.
      max_epsilon: The budget; infinite without one.
      most: Steps of the longest schedule within it.
    """

    loader: PrivateLoader
    ledger: Ledger
    max_epsilon: float = math.inf
    most: float = math.inf

    def allows(self, *, new_epoch: bool = False) -> bool:
        """Whether one step more, in this epoch or a new one, keeps within the budget."""
        if self.most == math.inf:
            return True
        planned = self.loader.schedule(self.ledger.taken + 1, self.ledger.epochs + new_epoch)
        return planned.steps <= self.most

    def check(self) -> None:
        """Raises :class:`BudgetSpentError` where one step more would spend too much."""
        if not self.allows():
            raise BudgetSpentError(f"max_epsilon {self.max_epsilon:g} is spent: stop training")


def most_steps(
    mechanism: Mechanism, loader: PrivateLoader, max_epsilon: float, delta: float
) -> int:
    """Steps of the longest schedule within ``max_epsilon``; epochs that count whole are whole.

    Raises:
      ValueError: There is none.
    """
    unit = loader.batches if loader.whole_epochs else 1

    def inside(count: int) -> bool:
        return epsilon(mechanism, loader.schedule(count * unit), delta) <= max_epsilon

    low, high = 0, 1
    while high < 10**9 and inside(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if inside(middle) else (low, middle)
    if low == 0:
        raise ValueError(f"max_epsilon {max_epsilon:g} does not allow a single step: add noise")
    return low * unit
