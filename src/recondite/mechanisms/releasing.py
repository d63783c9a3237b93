"""One release, drawn and checked: what leaves a mechanism is what its contract says."""

from __future__ import annotations

import math
from typing import Any

from recondite.mechanisms.base import Mechanism

__all__ = ["draw"]


def draw(
    mechanism: Mechanism, gradient: Any, generator: Any, state: dict[str, Any] | None = None
) -> Any:
    """A release of the shape that the contract promises, all of it finite.

    Args:
      mechanism: Configured for the model.
      gradient: In units of one record's bound: a vector; rows of records at stage "record".
      generator: Where noise comes from.
      state: What a mechanism with memory keeps; it is changed in place.

    Raises:
      ValueError: The release has another shape, is no array of real numbers, or is not finite. It
        is then nothing that the account speaks of.
    """
    if mechanism.stateful:
        if state is None:
            raise ValueError(
                f"{mechanism.name} keeps a state over steps, and nothing here keeps it: choose "
                "another mechanism"
            )
        made: Any = mechanism  # the one signature that differs
        release = made.perturb(gradient, generator, state)
    else:
        release = mechanism.release(gradient, generator)
    shape = tuple(gradient.shape)
    wanted = (*shape[:-2], shape[-1]) if mechanism.stage == "record" else shape
    found = getattr(release, "shape", None)
    if found is None or tuple(found) != wanted:
        said = "no array" if found is None else f"shape {tuple(found)}"
        raise ValueError(f"{mechanism.name} must release shape {wanted}, got {said}")
    if mechanism.stateful:
        # What training does to its gradients must not reach what the mechanism remembers.
        release = release + 0.0
    # A sum is finite only if every number is, and quick; it may overflow, so look again.
    if not math.isfinite(float(release.sum())) and not _finite(release):
        raise ValueError(f"{mechanism.name} released numbers that are not finite: nothing is used")
    return release


def _finite(release: Any) -> bool:
    # Overflow and NaN alike fail this comparison, in NumPy and in torch.
    return bool((abs(release) < math.inf).all())
