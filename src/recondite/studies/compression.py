"""Records without their components along some eigenvectors of the training set's covariance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from recondite.channels.spectrum import Spectrum
from recondite.records import Records
from recondite.studies.defences import kinds
from recondite.studies.shapes import DefenceConfig

__all__ = ["NOTE", "Compression", "places_of", "wrong_places"]

NOTE = (
    "records lack some components and are otherwise as they are: nothing bounds what they tell, "
    "and the removed directions were computed from the training records"
)


@dataclass(frozen=True, eq=False)
class Compression:
    """An orthogonal projection of records, after Tan et al. (2024), Appendix D.

    No guarantee: the map has no noise. What it keeps is released exactly, so that ε, Bayes'
    capacity and information are infinite however many components it removes; and a prior on
    images fills in part of what it removed.

    Attributes:
      places: Which eigenvectors are removed; 0 has the largest eigenvalue.
      eigenvalues: The variance of the training records along each.
      share: Their part of all variance.
      vectors: (features, places), orthonormal.
    """

    places: tuple[int, ...]
    eigenvalues: tuple[float, ...]
    share: float
    vectors: Tensor

    @classmethod
    def fit(cls, records: Records, places: Sequence[int]) -> Compression:
        """Finds the eigenvectors of some records' covariance.

        Raises:
          ValueError: In one line, where there are fewer eigenvectors with a variance.
        """
        known = Spectrum.of(records.features.flatten(1).cpu().numpy(), vectors=True)
        chosen = list(places)
        if max(chosen) >= known.rank:
            raise ValueError(
                f"remove must be below {known.rank}, the eigenvectors of {len(records)} records, "
                f"got {max(chosen)}"
            )
        values = [float(known.eigenvalues[place]) for place in chosen]
        vectors = torch.from_numpy(known.eigenvectors[:, chosen].copy()).to(records.features)
        share = sum(values) / known.trace if known.trace else 0.0
        return cls(tuple(chosen), tuple(values), share, vectors)

    def __call__(self, images: Tensor) -> Tensor:
        """Images of any leading shape without their components, those of the mean included.

        Around zero, as a map to the remaining eigenspace is: around the mean the same directions
        would stay visible in every image.
        """
        flat = images.reshape(-1, len(self.vectors))
        vectors = self.vectors.to(flat)
        return (flat - (flat @ vectors) @ vectors.T).view_as(images)

    def applied(self, records: Records) -> Records:
        """The records as a training sees them."""
        return records.replaced(self(records.features), records.labels)

    def to_dict(self) -> dict[str, Any]:
        """What a row says of it."""
        return {
            "places": list(self.places),
            "eigenvalues": list(self.eigenvalues),
            "share": self.share,
        }


def places_of(defence: DefenceConfig) -> tuple[int, ...]:
    """What a configured defence removes; nothing where it is another."""
    setting = kinds()[defence["name"]].removes
    if not setting:
        return ()
    given = defence["settings"][setting]
    return tuple(given) if isinstance(given, list) else (given,)


def wrong_places(given: Any, features: int | None) -> Iterator[str]:
    """What is wrong with a study's ``remove``, in one line."""
    known = "" if features is None else f" to {features - 1}"
    wanted = f"must be places of eigenvectors from 0 (the largest eigenvalue){known}"
    places = given if isinstance(given, list) else [given]
    for place in places:
        whole = isinstance(place, int) and not isinstance(place, bool) and place >= 0
        if not whole or (features is not None and place >= features):
            yield f"{wanted}, got {place!r}"
            return
    if not places:
        yield f"{wanted}, got none"
    elif len(set(places)) < len(places):
        yield "has a place twice: each is removed once"
    elif features is not None and len(places) == features:
        yield f"names all {features} eigenvectors: nothing would be left to train on"
