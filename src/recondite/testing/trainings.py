"""An assertion for test suites: a training does what is claimed of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from recondite.accounting import Schedule
from recondite.checking import CheckResult, PrivacyClaim, Trainer, check
from recondite.mechanisms import Gaussian, Mechanism

__all__ = ["assert_private"]


def assert_private(
    make_trainer: Callable[[], Trainer],
    *,
    epsilon: float,
    delta: float,
    schedule: Schedule,
    mechanism: Mechanism | None = None,
    **options: Any,
) -> CheckResult:
    """Fails unless a training is consistent with what is claimed of it.

    Guarantee: as :func:`recondite.checking.check`; a right training fails with probability at most
    1 - ``confidence`` (0.999); with a ``seed`` that its noise follows it always passes, or never.

    Args:
      make_trainer: Makes a :class:`recondite.checking.Trainer` as the training would.
      epsilon: ε of the run.
      delta: δ of the run.
      schedule: How batches are said to be drawn, and how many steps there are.
      mechanism: The kind of noise that is told; Gaussian by default.
      **options: ``runs``, ``confidence``, ``skip`` and ``seed`` of the check.

    Raises:
      AssertionError: It violates the claim, or the check cannot tell: all lines of evidence.
    """
    claim = PrivacyClaim(epsilon, delta, schedule, mechanism or Gaussian(1.0))
    result = check(make_trainer, claim, **options)
    if result.verdict != "consistent":
        raise AssertionError(str(result))
    return result
