"""Runs that Opacus counted, as a composition that ours can be added to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recondite import _validate
from recondite.accounting.composition import Composition
from recondite.accounting.schedules import Poisson
from recondite.mechanisms import Gaussian

__all__ = ["from_opacus"]


def from_opacus(history: Any) -> Composition:
    """The composition behind the history of one of Opacus' accountants.

    Guarantee: its ε is that of Gaussian noise under Poisson sampling, add-or-remove-one, with the
    multipliers, rates and steps of the history. Assumes that batches were really drawn by Poisson
    sampling: Opacus writes the same history with ``poisson_sampling=False``, for which it is too
    good, and nothing in the history tells.

    Args:
      history: [(noise_multiplier, sample_rate, steps), …], an accountant, or its state_dict().

    Returns:
      A composition; add those of other runs on the same records to it.

    >>> from recondite.accounting.pld import pld_epsilon
    >>> past = from_opacus([(1.23, 128 / 60_000, 1407), (1.0, 256 / 60_000, 500)])
    >>> round(pld_epsilon(past, 1 / 60_000), 3)
    0.57
    """
    found = history
    if isinstance(history, Mapping):
        if "history" not in history:
            raise ValueError("history: this state_dict has no history: give that of an accountant")
        found = history["history"]
    elif hasattr(history, "history"):
        found = history.history
    try:
        entries = [(float(sigma), float(rate), steps) for sigma, rate, steps in found]
    except (TypeError, ValueError):
        raise ValueError(
            "history must be (noise_multiplier, sample_rate, steps) for each part of a run"
        ) from None
    counts: dict[tuple[float, float], int] = {}
    for sigma, rate, steps in entries:
        if sigma <= 0:
            raise ValueError("history has steps without noise: no finite epsilon covers them")
        _validate.probability("sample_rate", rate, closed_at_one=True)
        key = sigma, rate
        counts[key] = counts.get(key, 0) + _validate.at_least("steps", steps, 0)
    total = Composition(())
    for (sigma, rate), steps in counts.items():
        if steps:
            total = total + Poisson(rate, steps).composition(Gaussian(noise_multiplier=sigma))
    return total
