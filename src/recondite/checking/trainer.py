"""What a check is given: one step of a training, and how its batches are drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from recondite import _validate

__all__ = ["Trainer", "as_arrays"]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Trainer:
    """A training as a check sees it. Whatever wrote it: Opacus, Flower's client, a person, us.

    Attributes:
      records: The training set, each record as ``step`` takes it.
      step: Takes a list of records, none among them, as the whole batch; makes one step from the
        same initial weights every time; gives all that leaves: an array, several, or a mapping of
        names to arrays (changes of parameters, buffers, counters, the loss if that is published).
        Its parts must be linear in the noised gradient: plain SGD, or the gradient itself.
      batches: One pass of the loader, as places of records for each batch. None where batches are
        not drawn, or cannot be seen: sampling is then not checked.
      unit: How far one record may move what leaves: the learning rate times the clipping norm over
        the divisor of sums. Only for the words of the evidence.
      canaries: Records to try beside those that are made from ``records``: unusual ones.
      step_at: Gives the step that the run makes after so many others: as ``step``, which is that of
        0, from the same weights, with the learning rate, the clipping norm and the noise that a
        schedule has come to. None where every step is alike.
    """

    records: Sequence[Any]
    step: Callable[[Sequence[Any]], Any]
    batches: Callable[[], Iterable[Sequence[int]]] | None = None
    unit: float | None = None
    canaries: Sequence[Any] = ()
    step_at: Callable[[int], Callable[[Sequence[Any]], Any]] | None = None

    def __post_init__(self) -> None:
        if len(self.records) < 2:
            raise ValueError("records must hold two records or more, to tell one from another")
        if self.unit is not None:
            _validate.positive("unit", self.unit)


def as_arrays(update: Any) -> dict[str, Array]:
    """What a step gave, as vectors by name.

    Raises:
      ValueError: It is no array, sequence or mapping of arrays, or holds a NaN.
    """
    if isinstance(update, Mapping):
        parts = {str(name): value for name, value in update.items()}
    elif isinstance(update, Sequence) and not isinstance(update, str) and len(update) > 0:
        several = any(np.ndim(_plain(value)) > 0 for value in update)
        parts = {f"part {i}": v for i, v in enumerate(update)} if several else {"update": update}
    else:
        parts = {"update": update}
    out = {}
    for name, value in parts.items():
        try:
            array = np.asarray(_plain(value), dtype=np.float64).reshape(-1)
        except (TypeError, ValueError):
            raise ValueError(f"step must give arrays of numbers: {name} is none") from None
        if not np.isfinite(array).all():
            raise ValueError(f"step gave a NaN or an infinity in {name}: train with a smaller rate")
        if array.size:
            out[name] = array
    if not out:
        raise ValueError("step gave nothing: return the change of the parameters")
    return out


def _plain(value: Any) -> Any:
    """Tensors of torch as arrays, without importing it."""
    return value.detach().cpu().numpy() if hasattr(value, "detach") else value
