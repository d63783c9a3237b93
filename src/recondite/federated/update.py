"""An update as one vector: what a client's arrays changed, bounded, noised and put back."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recondite.federated.ledger import Line
from recondite.mechanisms import Mechanism, Setting, Units
from recondite.mechanisms.releasing import draw

__all__ = [
    "Arrays",
    "bounded",
    "configured",
    "difference",
    "dumps",
    "is_statistic",
    "loads",
    "moved",
    "noised_names",
    "one_release",
    "release",
]

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


def one_release(mechanism: Mechanism) -> Line:
    """The part of a ledger's line that one noised update of a client is.

    Replace-one: the client's whole update by any other.
    """
    return {
        "mechanism": mechanism.name,
        "parameters": mechanism.parameters(),
        "schedule": {
            "sampling": "shuffled",
            "steps": 1,
            "passes": 1,
            "batch_size": 1,
            "records": 1,
        },
    }


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
    units = Units((max_norm,), length=max_norm)
    handed = units.of(bounded(update, max_norm))
    noised = draw(mechanism, handed[None] if mechanism.stage == "record" else handed, generator)
    released: Vector = units.released(np.asarray(noised, dtype=np.float64), mechanism)
    return released


def bounded(update: Vector, max_norm: float) -> Vector:
    """An update, shortened to a norm; zero where its own is not finite."""
    # The norm of a huge update must not overflow: scale by the largest entry first.
    peak = float(np.abs(update).max(initial=0.0))
    norm = peak * float(np.linalg.norm(update / peak)) if peak > 0 else 0.0
    if not math.isfinite(norm):
        return np.zeros_like(update)
    short: Vector = update / max(norm, max_norm) * max_norm
    return short


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


def dumps(arrays: Arrays) -> bytes:
    """Arrays as bytes that hold numbers and can run nothing."""
    buffer = io.BytesIO()
    names = np.array(list(arrays), dtype=np.str_)
    values = {str(index): array for index, array in enumerate(arrays.values())}
    np.savez(buffer, allow_pickle=False, names=names, **values)
    return buffer.getvalue()


def loads(content: bytes) -> dict[str, NDArray[Any]]:
    """The arrays of :func:`dumps`."""
    with np.load(io.BytesIO(content), allow_pickle=False) as found:
        return {str(name): found[str(index)] for index, name in enumerate(found["names"])}
