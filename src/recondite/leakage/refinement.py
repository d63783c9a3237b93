"""Comparing two discrete channels: by Bayes' capacity, and by refinement.

Capacity orders the worst case of each channel. Refinement orders their leakage to every attacker
at once, and is the stronger statement: it implies the order of capacities, not the reverse.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recondite.leakage.discrete import DiscreteChannel, require_same_secrets

__all__ = ["Comparison", "Refinement", "compare_channels", "refined_by"]

FloatArray = NDArray[np.float64]

# HiGHS drops coefficients below 1e-9; scaled, only probabilities below 1e-13 are lost, well
# inside the tolerance of the check that follows.
_SCALE = 1e4


@dataclass(frozen=True, eq=False)
class Refinement:
    """Whether ``b`` is ``a`` followed by some post-processing, with the evidence.

    Attributes:
      holds: True only if a witness was found and checked.
      witness: The row-stochastic R with ``a.matrix @ R = b.matrix``, or None.
      gain: When it does not hold, a gain function (entries 0 to 1) under which an attacker with a
        uniform prior gets more from ``b`` than from ``a``; None if the two are too near to tell.
      advantage: How much more he gets.
    """

    holds: bool
    witness: FloatArray | None = None
    gain: FloatArray | None = None
    advantage: float = 0.0


def _nearest_postprocessing(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """R that brings ``a @ R`` nearest to ``b`` in L1, and the gain that separates the two.

    The dual of the L1 distance is max <G, b> − max_R <G, a @ R> over G in [−1, 1]: exactly an
    attacker's advantage, since a strategy is a post-processing. Adding a constant to G adds it to
    both sides, so (1 + G)/2 is a gain function in [0, 1].
    """
    from scipy import sparse  # heavy, and only refinement needs it
    from scipy.optimize import linprog

    (secrets, inner), outer = a.shape, b.shape[1]
    slack = sparse.identity(secrets * outer)
    product = sparse.kron(sparse.csr_matrix(_SCALE * a), sparse.identity(outer))
    stochastic = sparse.kron(sparse.identity(inner), np.ones((1, outer)))
    equalities = sparse.bmat([[product, slack, -slack], [stochastic, None, None]], format="csr")
    found = linprog(
        np.concatenate([np.zeros(inner * outer), np.ones(2 * secrets * outer)]),
        A_eq=equalities,
        b_eq=np.concatenate([_SCALE * b.ravel(), np.ones(inner)]),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if found.x is None:
        raise RuntimeError(f"the linear programme of refinement was not solved: {found.message}")
    raw = np.maximum(found.x[: inner * outer].reshape(inner, outer), 0)
    separating = np.clip(found.eqlin.marginals[: secrets * outer], -1, 1)
    return raw / raw.sum(axis=1, keepdims=True), (1 + separating.reshape(secrets, outer).T) / 2


def refined_by(a: DiscreteChannel, b: DiscreteChannel, *, tolerance: float = 1e-9) -> Refinement:
    """Is ``b`` safer than ``a`` against every attacker: is there a stochastic R with a·R = b?

    Guarantee (the Coriaceous theorem, McIver et al. 2014): it holds exactly when no prior and no
    gain function let an attacker get more from ``b`` than from ``a``. The verdict is checked
    outside the solver: R is made stochastic and ``a @ R`` compared with ``b`` entry by entry
    (within ``tolerance``); a separating gain is reported only if its advantage is seen.

    A linear programme with observations(a) × observations(b) unknowns: meant for tens of
    secrets and observations, not thousands.
    """
    require_same_secrets(a, b)
    gain: FloatArray = np.eye(a.secrets)
    # A larger capacity rules refinement out at once, and exact guessing is the simplest evidence.
    if b.bayes_capacity() - a.bayes_capacity() <= tolerance:
        witness, gain = _nearest_postprocessing(a.matrix, b.matrix)
        if np.abs(a.matrix @ witness - b.matrix).max() <= tolerance:
            return Refinement(True, witness=witness)
    advantage = b.posterior_vulnerability(gain=gain) - a.posterior_vulnerability(gain=gain)
    if advantage <= 0:
        return Refinement(False)
    return Refinement(False, gain=gain, advantage=advantage)


@dataclass(frozen=True)
class Comparison:
    """Two channels on the same secrets, by Bayes' capacity and by refinement.

    Attributes:
      capacity_a: Bayes' capacity of the first.
      capacity_b: Bayes' capacity of the second.
      a_refined_by_b: b is a post-processing of a: b is safer against *every* attacker.
      b_refined_by_a: The reverse. Both hold when the two leak the same; neither, when which one
        is safer depends on the attacker.
    """

    capacity_a: float
    capacity_b: float
    a_refined_by_b: Refinement
    b_refined_by_a: Refinement

    @property
    def safer(self) -> str:
        """``"a"``, ``"b"`` or ``"equal"``: safer against reconstruction (Definition 6).

        Biswas et al., "Comparing privacy notions for protection against reconstruction
        attacks in machine learning": the smaller Bayes' capacity. It orders the largest possible
        leakage of each, not the leakage to every attacker; see ``safer_for_all``.
        """
        if math.isclose(self.capacity_a, self.capacity_b, rel_tol=1e-12):
            return "equal"
        return "a" if self.capacity_a < self.capacity_b else "b"

    @property
    def safer_for_all(self) -> str | None:
        """Safer for every prior and gain: ``"a"``, ``"b"``, ``"equal"``, or None if neither is."""
        b_safe, a_safe = self.a_refined_by_b.holds, self.b_refined_by_a.holds
        if a_safe and b_safe:
            return "equal"
        return "a" if a_safe else "b" if b_safe else None

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, ready for JSON."""
        return {
            "bayes_capacity": {"a": self.capacity_a, "b": self.capacity_b},
            "log_bayes_capacity": {"a": math.log(self.capacity_a), "b": math.log(self.capacity_b)},
            "safer": self.safer,
            "safer_for_all": self.safer_for_all,
            "a_refined_by_b": self.a_refined_by_b.holds,
            "b_refined_by_a": self.b_refined_by_a.holds,
        }


def compare_channels(a: DiscreteChannel, b: DiscreteChannel) -> Comparison:
    """Compares two channels on the same secrets by capacity and by refinement, both ways.

    >>> identity, coin = DiscreteChannel(np.eye(2)), DiscreteChannel([[0.5, 0.5], [0.5, 0.5]])
    >>> result = compare_channels(identity, coin)
    >>> result.safer, result.safer_for_all
    ('b', 'b')
    """
    return Comparison(a.bayes_capacity(), b.bayes_capacity(), refined_by(a, b), refined_by(b, a))


def __getattr__(name: str) -> Any:
    if name == "compare":  # of 0.1.0, for one version
        warnings.warn(
            "recondite.leakage.refinement.compare is now compare_channels",
            DeprecationWarning,
            stacklevel=2,
        )
        return compare_channels
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
