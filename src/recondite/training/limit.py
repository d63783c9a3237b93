"""How long training may go on within a budget."""

from __future__ import annotations

from recondite.accounting import epsilon
from recondite.mechanisms import Mechanism
from recondite.training.sampling import PrivateLoader

__all__ = ["most_steps"]


def most_steps(
    mechanism: Mechanism, loader: PrivateLoader, max_epsilon: float, delta: float
) -> int:
    """Steps of the longest schedule that keeps within ``max_epsilon``; shuffled epochs are whole.

    Raises:
      ValueError: There is none.
    """
    unit = loader.batches if loader.sampling == "shuffled" else 1

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
