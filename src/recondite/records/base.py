"""What every kind of records can do, and the little that a kind must say itself.

A kind is a class with its features as one float tensor, records along the first axis. It says what
its numbers mean, what a typical record is, how close a reconstruction comes to its original and
what a page may show of it. Splitting, blind guesses, matching and digests follow from that.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from recondite._validate import at_least, choice, probability
from recondite.metrics.floors import Metric, VictimScores
from recondite.metrics.images import assignment
from recondite.records.arrays import stratified
from recondite.records.blind import BlindGuess, blind_guess, duplicates

__all__ = ["Records", "Shown"]


@dataclass(frozen=True)
class Shown:
    """One victim as a page may show it.

    Attributes:
      victim: Its position among the originals.
      media: The media type of both contents, such as image/png.
      original: The original, or None where it is not to be seen.
      rebuilt: The reconstruction; where the original is not to be seen, without what it would give
        away of it, or None.
      scores: By the metrics' keys.
    """

    victim: int
    media: str
    original: bytes | None
    rebuilt: bytes | None
    scores: Mapping[str, float]


class Records(Dataset[tuple[Tensor, float]], ABC):
    """Labelled records in memory: a torch dataset of (features, label).

    Attributes:
      kind: What such records are called, in the plural.
      metrics: How reconstructions are scored.
      exposure: The key of the metric by which victims are ranked, the most exposed first.
      media: The media type of what is shown: one that ``records/display.py`` knows, which is how
        every page shows an original beside its reconstruction.
      typical_name: What ``typical`` returns, in words.
      amounts: Whether features are amounts, which noise can be added to; false for names.
      labels: (n,), int64, positions in ``classes``; float32 where they are amounts.
      classes: The name of each class; none where labels are amounts.
      name: What the set is called.
      source: Where it was found.
      mean: What ``normalised`` subtracted; None on the natural scale.
      std: What it divided by; None on the natural scale.
      public: Whether the records are known to be public; what is not is not shown.
    """

    kind: ClassVar[str]
    metrics: ClassVar[tuple[Metric, ...]]
    exposure: ClassVar[str]
    media: ClassVar[str]
    typical_name: ClassVar[str] = "mean"
    amounts: ClassVar[bool] = True
    labels: Tensor
    classes: tuple[str, ...]
    name: str
    source: str
    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None
    public: bool

    # What a kind says itself.

    @property
    @abstractmethod
    def features(self) -> Tensor:
        """(n, …), float32: what a model gets."""

    @property
    @abstractmethod
    def scale(self) -> str:
        """What a number of the features means, in words; equal for sets that can be mixed."""

    @abstractmethod
    def replaced(self, features: Tensor, labels: Tensor) -> Self:
        """Returns a set of the same kind and scale with these records."""

    @abstractmethod
    def normalised(self, mean: Sequence[float], std: Sequence[float]) -> Self:
        """Returns the set with (natural value - mean) / std."""

    @abstractmethod
    def statistics(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Returns the means and standard deviations, exact and thus not private."""

    @abstractmethod
    def natural(self, features: Tensor | None = None) -> Tensor:
        """Returns features of this set's scale, by default its own, on their natural scale."""

    @abstractmethod
    def typical(self) -> Tensor:
        """Returns the one record, in this set's scale, that is guessed without knowing more."""

    @abstractmethod
    def compare(self, rebuilt: Tensor, originals: Tensor) -> Mapping[str, Tensor]:
        """Returns the scores of pairs, (n,) for each metric's key; both in this set's scale."""

    @abstractmethod
    def rendered(
        self, rebuilt: Tensor, original: Tensor, *, reveal: bool
    ) -> tuple[bytes | None, bytes | None]:
        """Returns one original and its reconstruction as ``media``.

        Args:
          rebuilt: One reconstruction, in this set's scale.
          original: Its original.
          reveal: Where false, neither content may give away anything of the original but scores.
        """

    # What a kind may say too.

    @property
    def unit_range(self) -> bool:
        """Whether natural values are known, without looking at them, to lie in [0, 1]."""
        return False

    @property
    def outputs(self) -> int:
        """How many numbers a model returns for a record: one a class, or one for an amount."""
        return len(self.classes) or 1

    def right(self, rebuilt: Tensor, originals: Tensor) -> Tensor:
        """Returns (n, parts), bool: which parts of a record are right; a whole one by default."""
        found, true = (self.natural(part).flatten(1) for part in (rebuilt, originals))
        return torch.isclose(found, true, rtol=1e-5, atol=1e-6).all(1, keepdim=True)

    @property
    def one_hot(self) -> tuple[tuple[int, int], ...]:
        """Features that are one category together: the first and the one after the last of each."""
        return ()

    @property
    def caveats(self) -> tuple[str, ...]:
        """What the features say of the records before any training, which no account covers."""
        return ()

    def parts(self) -> tuple[str, ...]:
        """Returns what a record consists of, one line each, as it was read; none by default."""
        return ()

    def prepared(self, how: str, *, required: bool = True) -> Self:
        """Returns the set cropped or resized: images are; others refuse, or stay as they are.

        Args:
          how: Such as "crop16" or "resize32".
          required: Whether it was asked for; otherwise it is what a network has images of.
        """
        if required:
            raise ValueError(f"prepare {how} is for images: {self.name} holds {self.kind}")
        return self

    # What follows from it.

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, float]:
        return self.features[index], self.labels[index].item()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one record's features."""
        return tuple(self.features.shape[1:])

    @property
    def tensors(self) -> tuple[Tensor, Tensor]:
        """Features and labels: loaders index them at once instead of record by record."""
        return self.features, self.labels

    def subset(self, indices: Sequence[int] | Tensor | slice) -> Self:
        """Returns the records at these positions, in this order (or where a mask is true)."""
        if isinstance(indices, slice):
            indices = range(len(self))[indices]
        chosen = torch.as_tensor(indices if isinstance(indices, Tensor) else list(indices))
        if chosen.ndim != 1 or not chosen.numel():
            raise ValueError("indices must be a list of at least one position")
        if chosen.dtype == torch.bool:
            if len(chosen) != len(self):
                raise ValueError(f"a mask must have {len(self)} entries, got {len(chosen)}")
            chosen = chosen.nonzero().reshape(-1)
            if not chosen.numel():
                raise ValueError("the mask chooses no record")
        if chosen.dtype.is_floating_point:
            raise ValueError("indices must be whole numbers")
        if int(chosen.min()) < -len(self) or int(chosen.max()) >= len(self):
            raise ValueError(f"indices must lie below {len(self)}, got {int(chosen.max())}")
        chosen = torch.where(chosen < 0, chosen + len(self), chosen).to(self.features.device)
        return self.replaced(self.features[chosen], self.labels[chosen])

    def spread(self, count: int) -> Self:
        """Returns ``count`` records, evenly spaced: sets that lie sorted by class keep them all."""
        if count >= len(self):
            return self
        return self.subset([index * len(self) // count for index in range(count)])

    def split(self, share: float, *, seed: int = 0) -> tuple[Self, Self]:
        """Returns two sets without a record in common, every class in both by its share.

        Args:
          share: Of the first set.
          seed: Of the draw.
        """
        probability("share", share)
        count = round(share * len(self))
        if not 0 < count < len(self):
            raise ValueError(f"share {share} of {len(self)} records leaves one set empty")
        rng = np.random.default_rng(at_least("seed", seed, 0))
        strata = self.labels if self.classes else torch.zeros(len(self), dtype=torch.int64)
        first, second = stratified(strata.cpu().numpy(), count, rng)
        return self.subset(torch.from_numpy(first)), self.subset(torch.from_numpy(second))

    def standardised(self) -> Self:
        """Returns the set with mean 0 and standard deviation 1, as ``statistics`` counts them.

        They are computed from these records. Use those of the training set for the test set.

        No guarantee: they are an exact function of the records. Accounting of a private training
        run does not cover them; for that, pass constants that do not come from the data to
        ``normalised``.
        """
        mean, std = self.statistics()
        return self.normalised(mean, std)

    def sides(self) -> Tensor:
        """Returns, for one record's features in this scale, how far apart two values can be.

        Infinite where natural values have no range that is known without looking at them.
        """
        if not self.unit_range:
            return torch.full(self.shape, math.inf, dtype=torch.float64)
        ends = torch.stack([torch.zeros(self.shape), torch.ones(self.shape)]).double()
        low, high = self.natural(ends.to(self.features.device)).double()
        sides: Tensor = 1 / (high - low).cpu()
        return sides

    def summary(self) -> dict[str, object]:
        """Returns what the set is, in plain types."""
        counts: list[int] = []
        if self.classes:
            counts = torch.bincount(self.labels.cpu(), minlength=len(self.classes)).tolist()
        return {
            "name": self.name,
            "source": self.source,
            "kind": self.kind,
            "records": len(self),
            "shape": list(self.shape),
            "classes": len(self.classes),
            "records_per_class": dict(zip(self.classes, counts, strict=True)),
            "mean": None if self.mean is None else list(self.mean),
            "std": None if self.std is None else list(self.std),
        }

    def to(self, device: torch.device | str) -> Self:
        """Returns the set on a device."""
        return self.replaced(self.features.to(device), self.labels.to(device))

    def digest(self) -> str:
        """SHA-256 of the features, the labels and what they mean.

        It identifies the records and hides nothing: who can guess a set can check the guess.
        """
        told = [type(self).__name__, self.scale, *self.classes, *map(str, self.features.shape)]
        found = hashlib.sha256("\0".join(told).encode())
        for part in (self.features, self.labels):
            found.update(np.ascontiguousarray(part.detach().cpu().numpy()).tobytes())
        return found.hexdigest()

    def without(self, others: Self) -> Self:
        """Returns the records that are no exact duplicate of one of the others."""
        self.check_alike(others)
        shared = {mine for mine, _ in duplicates(self.natural(), others.natural())}
        kept = [index for index in range(len(self)) if index not in shared]
        if not kept:
            raise ValueError(f"every record of {self.name} is one of {others.name}")
        return self.subset(kept)

    def check_alike(self, others: Records) -> None:
        """Refuses records of another kind, shape, scale or with other classes."""
        for what, mine, theirs in (
            ("are", type(self).__name__, type(others).__name__),
            ("have the shape", self.shape, others.shape),
            ("have the scale", self.scale, others.scale),
            ("have the classes", self.classes, others.classes),
        ):
            if mine != theirs:
                raise ValueError(
                    f"{self.name} and {others.name} must be alike: they {what} {mine} and {theirs}"
                )

    def blind(self, public: Self, labels: Tensor | None = None) -> BlindGuess:
        """What is reached at these victims without an attack: see :class:`BlindGuess`.

        Args:
          public: Records of the same kind and scale that hold none of the victims; an exact
            duplicate is refused.
          labels: The victims' classes where the attacker knows them, (n,); None where not.
        """
        return blind_guess(self, public, labels)

    def distances(self, rebuilt: Tensor, originals: Tensor) -> Tensor:
        """(originals, reconstructions): how ill each fits, to find the order of a batch."""
        rows, columns = (self.natural(part).flatten(1).double() for part in (originals, rebuilt))
        return torch.cdist(rows, columns).square()

    def score(
        self, rebuilt: Tensor, originals: Tensor | None = None, *, matched: bool = True
    ) -> VictimScores:
        """Scores reconstructions against their originals, victim by victim.

        Args:
          rebuilt: (n, …) in this set's scale.
          originals: As many in the same scale; by default this set's own records.
          matched: Find the order first: a gradient says nothing about the order of a batch. Give
            the records of one batch at a time then: matching a whole data set would credit an
            attack with likenesses that it did not find. False where the order is known.
        """
        true = self.features if originals is None else originals.detach()
        found = rebuilt.detach().to(true)
        if found.shape != true.shape or tuple(true.shape[1:]) != self.shape or not len(true):
            raise ValueError(
                f"reconstructions and originals must both be (n, {', '.join(map(str, self.shape))})"
                f", got {tuple(found.shape)} and {tuple(true.shape)}"
            )
        order = torch.arange(len(true))
        if matched and len(true) > 1:
            order = assignment(self.distances(found, true))
        values = self.compare(found[order.to(found.device)], true)
        as_arrays = {key: value.cpu().double().numpy() for key, value in values.items()}
        return VictimScores(self.metrics, as_arrays, order.numpy())

    def show(
        self,
        rebuilt: Tensor,
        originals: Tensor | None = None,
        *,
        reveal: bool | None = None,
        most: int = 8,
        matched: bool = True,
    ) -> tuple[Shown, ...]:
        """What a page shows of reconstructions, the most exposed victim first.

        Args:
          rebuilt: As for ``score``.
          originals: As for ``score``.
          reveal: Whether originals may be seen; by default only those of public records.
          most: How many victims.
          matched: As for ``score``.
        """
        true = self.features if originals is None else originals.detach()
        scores = self.score(rebuilt, true, matched=matched)
        seen = self.public if reveal is None else choice("reveal", reveal, (True, False))
        shown = []
        for victim in scores.most_exposed(self.exposure, most):
            found = rebuilt.detach()[int(scores.order[victim])]
            first, second = self.rendered(found.to(true), true[victim], reveal=seen)
            values = {key: float(value[victim]) for key, value in scores.values.items()}
            shown.append(Shown(victim, self.media, first, second, values))
        return tuple(shown)
