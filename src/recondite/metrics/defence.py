"""How much a defence helps: accuracy kept, and the improvements of Tan et al. (2024), section 6.1.

Both improvements compare an attack on the defended model with the same attack on the undefended
one. They say how one attack fared, and bound no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from recondite import _validate

__all__ = [
    "general_defence_capability",
    "improvement_membership",
    "improvement_reconstruction",
    "topk_accuracy",
]


def improvement_membership(auc: float, auc_undefended: float) -> float:
    """IMP_MIA = (AUC without defence − AUC) / AUC without defence.

    The defence that leaves nothing but chance reaches 1 − 0.5/AUC without defence, less than half:
    an area of 0 is an attack that is always wrong, and so always right when turned round. Negative
    when the defence helps the attack.

    Example:
      >>> improvement_membership(0.5, 0.8)
      0.37500000000000006
    """
    ours = _validate.probability("auc", auc, closed_at_one=True, closed_at_zero=True)
    before = _validate.probability("auc_undefended", auc_undefended, closed_at_one=True)
    return (before - ours) / before


def improvement_reconstruction(mse: float, mse_undefended: float) -> float:
    """IMP_DRA = (1/MSE without defence − 1/MSE) / (1/MSE without defence) = 1 − MSE without/MSE.

    1 when nothing like the image comes back, 0 when the defence changes nothing, negative when it
    helps. Computed in the second form: a perfect reconstruction without defence (MSE 0) gives 1.

    Example:
      >>> improvement_reconstruction(0.4, 0.1)
      0.75
    """
    ours = _validate.non_negative("mse", mse)
    before = _validate.non_negative("mse_undefended", mse_undefended)
    if ours == 0:
        if before == 0:
            raise ValueError("mse and mse_undefended are both 0: their ratio is not defined")
        return -float("inf")
    return 1 - before / ours


def general_defence_capability(
    auc: float, auc_undefended: float, mse: float, mse_undefended: float
) -> float:
    """GDC = (IMP_MIA + IMP_DRA) / 2; larger is a stronger defence against these two attacks.

    It cannot reach 1: see :func:`improvement_membership`.
    """
    membership = improvement_membership(auc, auc_undefended)
    return (membership + improvement_reconstruction(mse, mse_undefended)) / 2


def topk_accuracy(
    logits: ArrayLike, labels: ArrayLike, k: Sequence[int] = (1, 5, 10)
) -> dict[int, float]:
    """Share of records whose label is among the k highest logits, for each k.

    A tie at the k-th place counts as the chance of a random order, so that the result does not
    depend on the order of the classes: a constant model has accuracy k/classes, not 0 or 1.

    Args:
      logits: (n, classes): logits or probabilities.
      labels: (n,), whole numbers below classes.
      k: Whole numbers; 1.0 where k is at least the number of classes.

    Example:
      >>> topk_accuracy([[3, 1, 2], [1, 1, 1]], [0, 2], (1, 2))
      {1: 0.6666666666666666, 2: 0.8333333333333333}
    """
    values, truth = _array(logits).astype(np.float64), _array(labels)
    if values.ndim != 2 or truth.shape != values.shape[:1] or not values.size:
        raise ValueError(
            "logits must be (n, classes) with n labels, got "
            f"{values.shape} logits and {truth.shape} labels"
        )
    if np.isnan(values).any():
        raise ValueError("logits must be numbers: they have a NaN")
    if not np.issubdtype(truth.dtype, np.integer) or not (
        truth.min() >= 0 and truth.max() < values.shape[1]
    ):
        raise ValueError(f"labels must be whole numbers from 0 to {values.shape[1] - 1}")
    own = values[np.arange(len(truth)), truth][:, None]
    higher, equal = (values > own).sum(axis=1), (values == own).sum(axis=1)
    out = {}
    for places in k:
        allowed = _validate.at_least("k", places, 1)
        out[allowed] = float(np.mean(np.clip((allowed - higher) / equal, 0, 1)))
    return out


def _array(values: Any) -> Any:
    return values.detach().cpu().numpy() if hasattr(values, "detach") else np.asarray(values)
