"""An update as one vector: what a client's arrays changed, bounded, noised and put back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recondite.mechanisms import Mechanism, Setting, Units
from recondite.mechanisms.releasing import draw

__all__ = ["Arrays", "configured", "difference", "is_statistic", "moved", "noised_names", "release"]

Arrays = Mapping[str, NDArray[Any]]
Vector = NDArray[np.float64]

_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


def is_statistic(name: str, array: NDArray[Any]) -> bool:
    """Whether an array is a batch-norm statistic or a counter, which no gradient explains."""
    return name.rsplit(".", 1)[-1] in _STATISTICS or array.dtype.kind != "f"


def noised_names(before: Arrays) -> tuple[str, ...]:
    """The arrays that are released: all floating-point ones but batch-norm statistics."""
    return tuple(name for name, array in before.items() if not is_statistic(name, array))


def difference(before: Arrays, after: Arrays, names: Sequence[str]) -> Vector:
    """What changed over the named arrays, joined; zero where anything is not finite.

    A client must release something whatever its training did: raising would tell the server.
    """
    parts = [
        (after[name].astype(np.float64) - before[name].astype(np.float64)).ravel() for name in names
    ]
    vector: Vector = np.concatenate(parts) if parts else np.zeros(0)
    return vector if bool(np.isfinite(vector).all()) else np.zeros_like(vector)


def configured(mechanism: Mechanism, before: Arrays, names: Sequence[str]) -> Mechanism:
    """The mechanism for one unit-bounded update of these arrays: a batch of one client."""
    shapes = tuple(tuple(before[name].shape) for name in names)
    return mechanism.configured(Setting(shapes, max_batch_size=1, batch_size=1))


def release(mechanism: Mechanism, update: Vector, max_norm: float, generator: Any) -> Vector:
    """One release of an update: bounded to ``max_norm``, noised, in the update's own scale.

    Guarantee: the mechanism's own, for updates of norm at most ``max_norm``. A mechanism that
    releases directions gives them the length ``max_norm``: a public constant, never the update's.

    Args:
      mechanism: Configured by :func:`configured`.
      update: The joined difference.
      max_norm: The bound.
      generator: Where noise comes from; None for the operating system.
    """
    # The norm of a huge update must not overflow: scale by the largest entry first.
    peak = float(np.abs(update).max(initial=0.0))
    norm = peak * float(np.linalg.norm(update / peak)) if peak > 0 else 0.0
    bounded = update / max(norm, max_norm) if math.isfinite(norm) else np.zeros_like(update)
    units = Units((max_norm,), length=max_norm)
    handed = units.of(bounded * max_norm)
    noised = draw(mechanism, handed[None] if mechanism.stage == "record" else handed, generator)
    released: Vector = units.released(np.asarray(noised, dtype=np.float64), mechanism)
    return released


def moved(before: Arrays, names: Sequence[str], update: Vector) -> dict[str, NDArray[Any]]:
    """The arrays with an update added to the named ones; the others as they were received."""
    out: dict[str, NDArray[Any]] = {}
    start = 0
    chosen = set(names)
    for name, array in before.items():
        if name not in chosen:
            out[name] = array
            continue
        piece = update[start : start + array.size].reshape(array.shape)
        out[name] = (array.astype(np.float64) + piece).astype(array.dtype)
        start += array.size
    return out
