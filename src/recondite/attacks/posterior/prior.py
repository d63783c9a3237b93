"""What public records say of a record before any release is seen, and after.

In the coordinates of the public records' largest principal components the prior of a class is a
mixture of Gaussians. Its centres are the class's public records (and, of few images, copies moved
by one pixel), its covariance a share h of the class's own: h = 1 is one Gaussian around the class's
mean, h → 0 the public records themselves. Every h is tried, and each counts as much as the release
makes it likely: nothing has to be chosen by hand, and nothing is chosen by the victims' truth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from recondite import _validate
from recondite.records import ImageSet

__all__ = ["Posterior", "PublicPrior"]

_RANK = 150  # principal components kept at most
_EXACT = 1_024  # features up to which they are computed exactly
_SHARES = (1.0, 0.5, 0.25, 0.1)  # h
_FEW = 4_000  # public records up to which moved copies are added
_RIDGE = 1e-3  # of the components' variance
_EVEN = 0.05  # share of what the basis leaves out that is taken to be alike in every direction
_OWN = 0.5  # weight of a class's own covariance beside the one that all classes share


@dataclass(frozen=True, eq=False)
class Posterior:
    """What is believed of one record after its releases.

    Attributes:
      mean: Coordinates, (rank,).
      variance: Expected squared error of the mean, summed over the record's features.
      log_evidence: Of the releases, up to a constant that does not depend on the prior.
      labels: Probability of each class.
    """

    mean: Tensor
    variance: float
    log_evidence: float
    labels: dict[int, float]


@dataclass(frozen=True, eq=False)
class _Component:
    """A class's mixture with one h: centres with the precision that all of them share."""

    log_weight: float
    precision: Tensor
    pulled: Tensor  # precision @ centre, (rank, centres)
    squares: Tensor  # centreᵀ precision centre
    log_det: float


class PublicPrior:
    """The prior, fitted on public records; all computations are in double precision.

    Attributes:
      mean: Of the public records, (features,).
      basis: (rank, features), orthogonal rows, as long as the standard deviation along them.
      outside: Variance of the features that the basis leaves out, summed.
      shape: Of a record.
    """

    def __init__(self, public: ImageSet, *, rank: int = _RANK) -> None:
        rank = _validate.at_least("rank", rank, 1)
        if len(public) < 3:
            raise ValueError(f"public must hold three records or more, got {len(public)}")
        self.shape = public.shape
        rows = public.images.detach().flatten(1).double()
        self.mean = rows.mean(0)
        vectors, variances, total = _principal(rows - self.mean, rank)
        self.basis = variances.sqrt()[:, None] * vectors
        self.outside = max(0.0, total - float(variances.sum()))
        self._inverse = vectors / variances.sqrt()[:, None]
        self._labels = public.labels.to(rows.device)
        self._records = public.images.detach()
        self._public = self.coordinates(public.images)
        moved = public.images[:0]
        if len(public) <= _FEW:
            moved = _moved(public.images.detach())
        self._moved = self.coordinates(moved)
        self._moved_labels = self._labels.repeat(len(moved) // len(public))
        self.classes = [int(label) for label in torch.unique(self._labels)]
        self._shared = self._within()
        self._made: dict[int | None, list[_Component]] = {}

    @property
    def rank(self) -> int:
        """Coordinates of a record."""
        return len(self.basis)

    @cached_property
    def remainder(self) -> Tensor:
        """Covariance of what the basis leaves out of a record, (features, features).

        A small share of it is alike in all directions: few public records span few of them, and a
        direction in which nothing was seen to vary would be believed to carry no record at all.
        """
        rows = self._records.flatten(1).to(self.mean) - self.mean
        rows -= rows @ self._inverse.T @ self.basis
        count, features = rows.shape
        even = _EVEN * self.outside / features
        own = (1.0 - _EVEN) / (count - 1) * (rows.T @ rows)
        return own + even * torch.eye(features, dtype=own.dtype, device=own.device)

    def coordinates(self, images: Tensor) -> Tensor:
        """(n, c, h, w) to (n, rank)."""
        rows = images.detach().flatten(1).to(self.mean)
        return (rows - self.mean) @ self._inverse.T

    def images(self, coordinates: Tensor) -> Tensor:
        """(…, rank) to (…, c, h, w), in double precision."""
        flat = self.mean + coordinates @ self.basis
        return flat.reshape(*coordinates.shape[:-1], *self.shape)

    def start(self, label: int | None) -> Tensor:
        """The mean of a class; of all where it is unknown, or no public record has it."""
        return self._members(label)[0].mean(0)

    def covariance(self, label: int | None) -> Tensor:
        """Of a class's coordinates, drawn towards the one that all classes share."""
        points, known = self._members(label)
        spread = torch.eye(self.rank, dtype=torch.float64, device=points.device)
        if not known:
            return spread
        own = self._shared
        if len(points) > 2:
            centred = points - points.mean(0)
            own = _OWN * centred.T @ centred / (len(points) - 1) + (1 - _OWN) * self._shared
        return own + _RIDGE * spread

    def posterior(self, vector: Tensor, precision: Tensor, label: int | None) -> Posterior:
        """After releases whose log-likelihood is vectorᵀz − ½ zᵀ·precision·z, up to a constant.

        Exact for the prior where that is exact (Gaussian noise on the record itself); where a
        release is linearised it is as good as the linearisation.

        Args:
          vector: (rank,).
          precision: (rank, rank), positive semi-definite.
          label: The class where it is known; all classes are tried where it is None.
        """
        tried = [label] if label is not None else [*self.classes]
        means, spreads, evidence, owners = [], [], [], []
        for one in tried:
            share = 0.0
            if label is None:
                share = math.log(int((self._labels == one).sum()) / len(self._labels))
            for part in self._components(one):
                mean, spread, likely = _updated(part, vector, precision, self._power)
                means.append(mean)
                spreads.append(spread)
                evidence.append(likely + share)
                owners.append(one)
        logs = torch.stack(evidence)
        weights = torch.softmax(logs, 0)
        stacked = torch.stack(means)
        mean = weights @ stacked
        apart = ((stacked - mean).square() * self._power).sum(1)
        variance = float(weights @ (torch.stack(spreads) + apart)) + self.outside
        labels: dict[int, float] = {}
        for owner, weight in zip(owners, weights.tolist(), strict=True):
            labels[owner] = labels.get(owner, 0.0) + weight
        return Posterior(mean, variance, float(torch.logsumexp(logs, 0)), labels)

    def squared(self, coordinates: Tensor) -> float:
        """The squared length of a difference of two records, in squared features."""
        return float((coordinates.square() * self._power).sum())

    @property
    def _power(self) -> Tensor:
        """What a squared coordinate is in squared features."""
        return self.basis.square().sum(1)

    def _members(self, label: int | None) -> tuple[Tensor, bool]:
        if label is None or label not in self.classes:
            return self._public, False
        return self._public[self._labels == label], True

    def _within(self) -> Tensor:
        total = torch.zeros(self.rank, self.rank, dtype=torch.float64, device=self.mean.device)
        for label in self.classes:
            points = self._public[self._labels == label]
            centred = points - points.mean(0)
            total += centred.T @ centred
        return total / max(1, len(self._public) - len(self.classes))

    def _components(self, label: int) -> list[_Component]:
        key = label if label in self.classes else None
        if key not in self._made:
            points, known = self._members(label)
            more = self._moved[self._moved_labels == label] if known else self._moved[:0]
            middle, covariance = points.mean(0), self.covariance(label)
            made = []
            for share in _SHARES:
                sets = [middle[None]] if share == 1.0 else [points]
                if share < 1.0 and len(more):
                    sets.append(torch.cat([points, more]))
                for centres in sets:
                    # Drawn together, so that the mixture's covariance is the class's for every h.
                    drawn = middle + math.sqrt(1.0 - share) * (centres - middle)
                    made.append(_component(drawn, share * covariance))
            self._made[key] = made
        return self._made[key]


def _component(centres: Tensor, covariance: Tensor) -> _Component:
    factor = torch.linalg.cholesky(covariance)
    precision = torch.cholesky_inverse(factor)
    pulled = precision @ centres.T
    return _Component(
        -math.log(len(centres)),
        precision,
        pulled,
        (centres.T * pulled).sum(0),
        -2.0 * float(factor.diagonal().log().sum()),
    )


def _updated(
    part: _Component, vector: Tensor, precision: Tensor, power: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, expected squared error and log-evidence of one component's posterior."""
    factor = torch.linalg.cholesky(part.precision + precision)
    right = vector[:, None] + part.pulled
    half = torch.linalg.solve_triangular(factor, right, upper=False)
    scores = 0.5 * half.square().sum(0) - 0.5 * part.squares
    likely = torch.logsumexp(scores, 0) + part.log_weight
    likely = likely + 0.5 * part.log_det - factor.diagonal().log().sum()
    weights = torch.softmax(scores, 0)
    kept = weights > 1e-9 * weights.max()
    centres = torch.linalg.solve_triangular(factor.T, half[:, kept], upper=True)
    mean = centres @ weights[kept]
    covariance = torch.cholesky_inverse(factor).diagonal()
    among = (centres - mean[:, None]).square() @ weights[kept]
    return mean, ((covariance + among) * power).sum(), likely


def _principal(centred: Tensor, rank: int) -> tuple[Tensor, Tensor, float]:
    """Principal directions (rank, features), variances along them, and the total variance."""
    degrees = len(centred) - 1
    kept = max(1, min(rank, degrees, centred.shape[1]))
    total = float(centred.square().sum()) / degrees
    if total <= 0:
        raise ValueError("public records must differ: all of them are alike")
    if min(centred.shape) <= _EXACT:
        wide = len(centred) < centred.shape[1]
        gram = centred @ centred.T if wide else centred.T @ centred
        values, vectors = torch.linalg.eigh(gram)
        values, vectors = values.flip(0)[:kept], vectors.flip(1)[:, :kept]
        rows = (centred.T @ vectors if wide else vectors).T
        rows = rows / rows.norm(dim=1, keepdim=True).clamp_min(1e-300)
        variances = values / degrees
    else:
        devices = [] if centred.device.type == "cpu" else [centred.device]
        with torch.random.fork_rng(devices=devices):  # the caller's generator stays as it is
            torch.manual_seed(0)
            _, singular, right = torch.svd_lowrank(centred.float(), q=kept, niter=2)
        rows, variances = right.T.double(), singular.double().square() / degrees
    there = variances > 1e-6 * variances[0]
    return rows[there], variances[there], total


def _moved(images: Tensor) -> Tensor:
    """Copies moved by one pixel in eight directions, edges repeated, (8n, c, h, w)."""
    height, width = images.shape[-2:]
    padded = torch.nn.functional.pad(images, (1, 1, 1, 1), mode="replicate")
    return torch.cat(
        [
            padded[..., down : down + height, right : right + width]
            for down in range(3)
            for right in range(3)
            if (down, right) != (1, 1)
        ]
    )
