"""Discrete channels: what a release with finitely many outcomes can reveal.

A channel is a row-stochastic matrix: row x is the law of the observation when the secret is x.
An attacker holds a prior over secrets and a gain function (rows are actions, columns secrets);
his vulnerability is the gain he expects from his best action, before (*prior*) or after
(*posterior*) he sees the observation. Alvim, Chatzikokolakis, McIver, Morgan, Palamidessi and
Smith, "The Science of Quantitative Information Flow" (2020), is the reference for every name here.

Rows and columns are counted from 1 in messages, as in the file a matrix was read from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recondite import _validate

__all__ = ["DiscreteChannel", "require_same_secrets"]

FloatArray = NDArray[np.float64]

# A row this far from 1 is a mistake; one that is nearer is rounding, and is rescaled when it is
# further off than sums of float64 usually are, so that long cascades do not drift out of range.
_SUM_TOLERANCE = 1e-9
_SUM_ROUNDING = 1e-12


def _array(name: str, value: ArrayLike, dimensions: int) -> FloatArray:
    kind = "a list of numbers" if dimensions == 1 else "a table of numbers with equal rows"
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be {kind}") from None
    if array.ndim != dimensions or array.size == 0:
        raise ValueError(f"{name} must be {kind}, got shape {array.shape}")
    rows = np.atleast_2d(array)
    bad = np.argwhere(~np.isfinite(rows))
    if bad.size:
        row, column = bad[0]
        place = f"row {row + 1}, column {column + 1}" if dimensions == 2 else f"entry {column + 1}"
        raise ValueError(f"{name} must be finite: {place} is {rows[row, column]}")
    return array


def _distributions(name: str, value: ArrayLike, dimensions: int) -> FloatArray:
    array = _array(name, value, dimensions)
    rows = np.atleast_2d(array)  # a view: rescaling it rescales the array
    for index, total in enumerate(rows.sum(axis=1)):
        label = f"row {index + 1} of the {name}" if dimensions == 2 else f"the {name}"
        least = float(rows[index].min())
        if least < 0:
            raise ValueError(f"{label} has the negative entry {least:g}; probabilities are 0 to 1")
        if abs(total - 1) > _SUM_TOLERANCE:
            raise ValueError(f"{label} sums to {total:.12g}, not 1; divide it by its sum")
        if abs(total - 1) > _SUM_ROUNDING:
            rows[index] /= total
    return array


@dataclass(frozen=True, repr=False, eq=False)
class DiscreteChannel:
    """A row-stochastic matrix: rows are secrets, columns observations.

    The matrix is copied, checked and made read-only. A row may miss 1 by at most 1e-9 (it is then
    rescaled); anything else is a ``ValueError``. Columns of zeros are allowed and change nothing.

    Attributes:
      matrix: The probabilities, float64, read-only.

    >>> coin = DiscreteChannel([[0.75, 0.25], [0.25, 0.75]])
    >>> coin.bayes_capacity()
    1.5
    >>> (coin @ coin).bayes_capacity()
    1.25
    """

    matrix: FloatArray

    def __init__(self, matrix: ArrayLike) -> None:
        checked = _distributions("channel", matrix, 2)
        checked.setflags(write=False)
        object.__setattr__(self, "matrix", checked)

    def __repr__(self) -> str:
        return f"DiscreteChannel({self.secrets} secrets, {self.observations} observations)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DiscreteChannel):
            return NotImplemented
        return bool(np.array_equal(self.matrix, other.matrix))

    def __hash__(self) -> int:
        return hash((self.matrix.shape, (self.matrix + 0.0).tobytes()))  # -0.0 equals 0.0

    @property
    def secrets(self) -> int:
        """Number of secrets (rows)."""
        return int(self.matrix.shape[0])

    @property
    def observations(self) -> int:
        """Number of observations (columns)."""
        return int(self.matrix.shape[1])

    def bayes_capacity(self) -> float:
        """Bayes' capacity: the sum over observations of the largest entry of the column.

        Guarantee (the Miracle theorem, Alvim et al. 2012): for every prior and every non-negative
        gain function the multiplicative leakage is at most this, and the uniform prior with the
        identity gain attains it. It lies between 1 (nothing leaks) and the number of secrets.
        """
        return max(1.0, math.fsum(self.matrix.max(axis=0)))

    def log_bayes_capacity(self) -> float:
        """Natural logarithm of the Bayes' capacity; releases of one secret add at most this."""
        return math.log(self.bayes_capacity())

    def prior_vulnerability(
        self, prior: ArrayLike | None = None, gain: ArrayLike | None = None
    ) -> float:
        """Expected gain of the best action before any observation.

        Args:
          prior: Probabilities of the secrets; uniform when left out.
          gain: Gains, rows actions and columns secrets; the identity (guess the secret exactly,
            in one try) when left out. Any finite numbers.
        """
        weights, gains = self._prior(prior), self._gain(gain)
        return float(weights.max() if gains is None else (gains @ weights).max())

    def posterior_vulnerability(
        self, prior: ArrayLike | None = None, gain: ArrayLike | None = None
    ) -> float:
        """Expected gain of the best action chosen after the observation; arguments as above."""
        joint = self._prior(prior)[:, None] * self.matrix
        gains = self._gain(gain)
        return math.fsum((joint if gains is None else gains @ joint).max(axis=0))

    def multiplicative_leakage(
        self, prior: ArrayLike | None = None, gain: ArrayLike | None = None
    ) -> float:
        """Posterior over prior vulnerability; at most the Bayes' capacity.

        Raises:
          ValueError: If a gain is negative (a ratio of such vulnerabilities means nothing), or no
            action gains anything under the prior.
        """
        gains = self._gain(gain)
        if gains is not None and gains.min() < 0:
            raise ValueError("gain must be 0 or more for multiplicative leakage; add a constant")
        before = self.prior_vulnerability(prior, gain)
        if before <= 0:
            raise ValueError("gain is 0 for every secret of the prior: leakage is not defined")
        return self.posterior_vulnerability(prior, gain) / before

    def additive_leakage(
        self, prior: ArrayLike | None = None, gain: ArrayLike | None = None
    ) -> float:
        """Posterior minus prior vulnerability, in units of the gain; 0 or more up to rounding."""
        return self.posterior_vulnerability(prior, gain) - self.prior_vulnerability(prior, gain)

    def shannon_mutual_information(self, prior: ArrayLike | None = None) -> float:
        """Mutual information of secret and observation, in nats; at most the log capacity."""
        joint = self._prior(prior)[:, None] * self.matrix
        law = np.broadcast_to(joint.sum(axis=0), joint.shape)
        seen = joint > 0  # where the joint underflows to 0 the term is 0, never 0·∞
        terms = joint[seen] * (np.log(self.matrix[seen]) - np.log(law[seen]))
        return max(0.0, math.fsum(terms))

    def cascade(self, other: DiscreteChannel) -> DiscreteChannel:
        """This channel, then ``other`` on its observation: the matrix product (also ``@``)."""
        if self.observations != other.secrets:
            raise ValueError(
                f"cascade needs {self.observations} rows in the second channel, one for each "
                f"observation of the first, got {other.secrets}"
            )
        return DiscreteChannel(self.matrix @ other.matrix)

    def __matmul__(self, other: DiscreteChannel) -> DiscreteChannel:
        return self.cascade(other)

    def parallel(self, other: DiscreteChannel) -> DiscreteChannel:
        """Both releases of the same secret, with independent randomness.

        Column ``i * other.observations + j`` is the pair (i, j). The capacity is at most the
        product of the two capacities.
        """
        require_same_secrets(self, other)
        pairs = self.matrix[:, :, None] * other.matrix[:, None, :]
        return DiscreteChannel(pairs.reshape(self.secrets, -1))

    def restrict(self, secrets: Sequence[int]) -> DiscreteChannel:
        """The channel on some of its secrets (indices from 0), in the order given."""
        kept = [_validate.at_least("secrets", index, 0) for index in secrets]
        if not kept or len(set(kept)) != len(kept) or max(kept) >= self.secrets:
            raise ValueError(f"secrets must be distinct indices from 0 to {self.secrets - 1}")
        return DiscreteChannel(self.matrix[kept])

    def _prior(self, prior: ArrayLike | None) -> FloatArray:
        if prior is None:
            return np.full(self.secrets, 1 / self.secrets)
        weights = _distributions("prior", prior, 1)
        if weights.size != self.secrets:
            raise ValueError(
                f"prior must have {self.secrets} entries (secrets), got {weights.size}"
            )
        return weights

    def _gain(self, gain: ArrayLike | None) -> FloatArray | None:
        if gain is None:
            return None
        gains = _array("gain", gain, 2)
        if gains.shape[1] != self.secrets:
            raise ValueError(
                f"gain must have {self.secrets} columns (secrets), got {gains.shape[1]}; "
                "its rows are actions"
            )
        return gains


def require_same_secrets(a: DiscreteChannel, b: DiscreteChannel) -> None:
    """Raises ``ValueError`` unless the two channels have equally many secrets."""
    if a.secrets != b.secrets:
        raise ValueError(
            f"both channels must have the same secrets, got {a.secrets} and {b.secrets} rows"
        )
