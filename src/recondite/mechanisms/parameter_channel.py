"""The controlled parameter channel: noise on gradients, solved anew at every step."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from recondite import _validate
from recondite.laws import InfiniteLoss, LossLaw
from recondite.mechanisms.base import (
    Mechanism,
    MetricPrivacy,
    Neighbouring,
    Setting,
    Stage,
    UndefinedNotionError,
)
from recondite.numerics.random import is_torch, random_source
from recondite.numerics.roots import last_true

__all__ = ["ParameterChannel"]

# Variance that may be nothing but rounding of single precision: next to the largest eigenvalue,
# and next to the squared norm of the average.
_ROUNDING, _EQUAL = 1e-6, 1e-12


@dataclass(frozen=True)
class ParameterChannel(Mechanism):
    """Averages gradients and adds N(0, σI), with σ from the covariance of the step's gradients.

    The noise is what a Gaussian channel of this capacity needs: ½·Σ ln(1 + λ_i/(Bσ)) = capacity,
    λ_i the eigenvalues of the covariance of the B per-record gradients at hand. Eigenspace
    compression removes the average's components along the largest eigenvectors instead of
    covering them with noise.

    Guarantee: none. There is no finite ε, for the noise follows from the data and gradients are
    not bounded; the capacity is an estimate, of an average record and not of the worst one, from
    a covariance estimated on one batch. A batch cut into physical pieces shares its capacity
    among them by their sizes, so that independent records' pieces add up to it. A piece of one
    record, or without variance, has no covariance to solve for: its release is zero.

    Attributes:
      capacity: What one release may tell of its batch, in nats; larger is less noise.
      dim: Number of coordinates.
      drop: How many of the largest eigenvectors are removed (0: no compression).
      batch_size: Records of a whole batch; without it every release is one.
      max_batch_size: The largest batch that can be drawn.
    """

    capacity: float
    dim: int | None = None
    drop: int = 0
    batch_size: int | None = None
    max_batch_size: int | None = None

    name: ClassVar[str] = "parameter-channel"
    parameter: ClassVar[str] = "capacity"
    weaker: ClassVar[Literal["larger", "smaller"]] = "larger"
    title: ClassVar[str] = "parameter channel"
    symbol: ClassVar[str] = "capacity"
    explanation: ClassVar[str] = (
        "What each single record teaches the model gets noise before it is summed."
    )
    search_range: ClassVar[tuple[float, float]] = (1e-2, 1e6)
    stage: ClassVar[Stage] = "record"
    bounded: ClassVar[bool] = False
    subject: ClassVar[str] = "one record's gradient (an estimate)"

    def __post_init__(self) -> None:
        _validate.positive("capacity", self.capacity)
        object.__setattr__(self, "drop", _validate.at_least("drop", self.drop, 0))
        for name in ("batch_size", "max_batch_size"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _validate.at_least(name, getattr(self, name), 1))
        self._check_dim(1)

    def loss(self, relation: Neighbouring) -> LossLaw:
        """Infinite: noise that follows from the data promises nothing to one record."""
        del relation
        return InfiniteLoss()

    def configured(self, setting: Setting) -> ParameterChannel:
        """With the run's batch sizes."""
        return replace(
            self,
            dim=setting.dim,
            batch_size=setting.batch_size,
            max_batch_size=setting.max_batch_size,
        )

    def perturb(self, gradient: Any, generator: Any = None) -> Any:
        """The average over records (axis -2), compressed and noised."""
        return self._noised(gradient, generator, refuse=True)

    def release(self, gradient: Any, generator: Any = None) -> Any:
        """As ``perturb``; records without a covariance release zero."""
        return self._noised(gradient, generator, refuse=False)

    def _noised(self, gradient: Any, generator: Any, *, refuse: bool) -> Any:
        centre, deviation = self._steps(gradient, refuse=refuse)
        noise = random_source(centre, generator).normal_like(centre)
        noise *= deviation[..., None]
        noise += centre
        return noise

    def log_likelihood(self, release: Any, gradient: Any) -> Any:
        """Log-density of a release given the per-record gradients (records on axis -2)."""
        centre, deviation = self._steps(gradient, refuse=True)
        squared = (((release - centre) / deviation[..., None]) ** 2).sum(-1)
        logs = deviation.log() if is_torch(deviation) else np.log(deviation)
        return -0.5 * squared - gradient.shape[-1] * (logs + 0.5 * math.log(2 * math.pi))

    def _steps(self, gradient: Any, *, refuse: bool) -> tuple[Any, Any]:
        """Compressed averages and standard deviations of the noise, over the leading axes."""
        if gradient.ndim < 2:
            raise ValueError("gradient must have one row a record, got a single vector")
        self.gradient_dim(gradient)
        *lead, records, dim = gradient.shape
        batches = gradient.reshape(math.prod(lead), records, dim)
        found = [self._step(rows) for rows in batches]
        if refuse and not all(variance > 0.0 for _, variance in found):
            raise ValueError("gradient must have 2 or more records that differ: no covariance")
        centres, deviations = [c for c, _ in found], [math.sqrt(v) for _, v in found]
        if is_torch(gradient):
            import torch

            spread = torch.tensor(deviations, dtype=torch.float64).to(gradient)
            return torch.stack(centres).reshape(*lead, dim), spread.reshape(lead)
        joined: Any = np.stack(centres).reshape(*lead, dim)
        return joined, np.array(deviations, gradient.dtype).reshape(lead)

    def _step(self, rows: Any) -> tuple[Any, float]:
        """The compressed average of one batch and its noise variance; zeros without variance."""
        records = rows.shape[0]
        if records < 2:
            return 0.0 * rows.sum(0), 0.0
        # Noise and directions are constants to whoever differentiates the likelihood.
        still = rows.detach() if is_torch(rows) else rows
        mean = still.mean(0)
        values, vectors = _spectrum((still - mean) / math.sqrt(records - 1), self.drop)
        least = max(_ROUNDING * values[0], _EQUAL * float((mean * mean).sum()))
        centre = rows.mean(0)
        if len(values) <= self.drop or not values[self.drop] > least:
            return 0.0 * centre, 0.0
        if self.drop:
            centre = centre - vectors.T @ (vectors @ centre)
        share = self.capacity * (records / self.batch_size if self.batch_size else 1.0)
        return centre, _variance(values[self.drop :] / records, share)

    def log_bayes_capacity(self) -> float:
        """Not defined."""
        raise UndefinedNotionError("gradients of the parameter channel are not bounded")

    def mutual_information(self) -> float:
        """The capacity, of the largest batch: about the batch, so at most that about one record.

        An estimate.
        """
        if self.batch_size is None or self.max_batch_size is None:
            return float(self.capacity)
        return float(self.capacity) * max(1.0, self.max_batch_size / self.batch_size)

    def metric_privacy(self) -> MetricPrivacy:
        """Not defined."""
        raise UndefinedNotionError("the parameter channel's noise follows from the data")

    def fisher_information(self) -> float:
        """Not defined."""
        raise UndefinedNotionError("the parameter channel's noise is solved anew at every step")

    def assumptions(self) -> tuple[str, ...]:
        """That the capacity is an estimate."""
        return (
            "information is an estimate, not a bound: the gradients' covariance is estimated from "
            "the batch itself, and speaks of the average record",
            "one release tells at most this of its whole batch; the run's figure is for one record",
        )


def _spectrum(rows: Any, count: int) -> tuple[Any, Any]:
    """Eigenvalues of rowsᵀ·rows, descending, and the eigenvectors of the first, as rows.

    From the smaller of the two products; the eigenvalues are a float64 NumPy array.
    """
    wide = rows.shape[0] <= rows.shape[1]
    product = rows @ rows.T if wide else rows.T @ rows
    if is_torch(rows):
        import torch

        values, vectors = torch.linalg.eigh(product.double())
        values, vectors = values.cpu().numpy()[::-1], vectors.flip(-1)[:, :count].to(rows)
    else:
        values, vectors = np.linalg.eigh(product.astype(np.float64))
        values, vectors = values[::-1], vectors[:, ::-1][:, :count].astype(rows.dtype)
    first = vectors.T @ rows if wide else vectors.T
    if wide:
        first = first / ((first * first).sum(-1) ** 0.5)[:, None]
    return np.maximum(values, 0.0), first


def _variance(values: Any, capacity: float) -> float:
    """The σ with ½·Σ ln(1 + λ_i/σ) = capacity, from above."""
    scale = float(values.max())
    shares = values / scale

    def covered(sigma: float) -> bool:
        return 0.5 * float(np.log1p(shares / sigma).sum()) <= capacity

    enough = float(shares.sum()) / (2.0 * capacity)  # ln(1 + x) <= x
    short = 0.5 * enough
    while covered(short):
        short *= 0.5
    return scale * last_true(covered, enough, short)
