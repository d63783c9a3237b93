"""One release, drawn and checked: what leaves a mechanism is what its contract says."""

from __future__ import annotations

import math
from typing import Any

from recondite.mechanisms.base import Mechanism
from recondite.numerics.random import is_torch

__all__ = ["Late", "draw"]


class Late:
    """Answers of a device that nobody waits for: looked at when they are there.

    A release that is not finite has become zeros by then, so that nothing of it was used.
    """

    def __init__(self) -> None:
        self._asked: list[tuple[Any, Any, str]] = []

    def ask(self, good: Any, otherwise: str) -> None:
        """Has :meth:`check` raise ``ValueError`` with a line where a flag on a GPU is not set."""
        import torch

        answer = torch.empty((), dtype=torch.bool, pin_memory=True)
        answer.copy_(good, non_blocking=True)
        arrived: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
        arrived.record()
        self._asked.append((answer, arrived, otherwise))

    def check(self, *, wait: bool = False) -> None:
        """Looks at what has arrived, or at everything."""
        while self._asked:
            answer, arrived, otherwise = self._asked[0]
            if wait:
                arrived.synchronize()
            elif not arrived.query():
                return
            self._asked.pop(0)
            if not bool(answer):
                raise ValueError(otherwise)


def draw(
    mechanism: Mechanism,
    gradient: Any,
    generator: Any,
    state: dict[str, Any] | None = None,
    late: Late | None = None,
) -> Any:
    """A release of the shape that the contract promises, all of it finite.

    Args:
      mechanism: Configured for the model.
      gradient: In units of one record's bound: a vector; rows of records at stage "record".
      generator: Where noise comes from.
      state: What a mechanism with memory keeps; it is changed in place.
      late: Where to ask whether a release on a GPU is finite, instead of waiting for the answer.

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
    otherwise = f"{mechanism.name} released numbers that are not finite: nothing is used"
    if late is not None and is_torch(release) and release.is_cuda:
        good = release.sum(dtype=_double()).isfinite()  # overflows for no finite float32
        late.ask(good, otherwise)
        # In place where it can be: a pass over every parameter less.
        fill = release.masked_fill_ if release.is_contiguous() else release.masked_fill
        return fill(~good, 0.0)
    # A sum is finite only if every number is, and quick; it may overflow, so look again.
    if not math.isfinite(float(release.sum())) and not _finite(release):
        raise ValueError(otherwise)
    return release


def _double() -> Any:
    import torch

    return torch.float64


def _finite(release: Any) -> bool:
    # Overflow and NaN alike fail this comparison, in NumPy and in torch.
    return bool((abs(release) < math.inf).all())
