"""From reconstructions to scores and a gallery, the same for every attack."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recondite.attacks.outcome import Blind, Gallery, RecordScores
from recondite.attacks.victim import Victim
from recondite.metrics import score
from recondite.metrics.floors import VictimScores, gains
from recondite.records import BlindGuess, ImageSet, Records

__all__ = [
    "as_images",
    "beside",
    "blind_beside",
    "bounds_of",
    "compared",
    "labels_found",
    "picked",
    "public_of",
    "public_records",
    "scored",
    "scored_records",
]

_SHOWN = 16  # images of a gallery
_DECIBELS = 100.0  # an exact copy, as far as eight bits can show it


def as_images(records: Records) -> ImageSet:
    """The records, for an attack that rebuilds images; another kind is refused in one line."""
    if not isinstance(records, ImageSet):
        raise ValueError(f"the attack takes images: {records.name} holds {records.kind}")
    return records


def picked(test: Records, count: int, seed: int) -> Tensor:
    """Positions of the held-out records to attack, the same for every defence."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(len(test), generator=generator)[:count]


def bounds_of(records: Records) -> tuple[Tensor, Tensor] | None:
    """Smallest and largest value of a pixel in the model's scale, one a channel; None without."""
    if len(records.shape) != 3 or not records.unit_range:
        return None
    channels = records.shape[0]
    mean = torch.tensor(records.mean or (0.0,) * channels)
    std = torch.tensor(records.std or (1.0,) * channels)
    sides = ((0.0 - mean) / std, (1.0 - mean) / std)
    return sides[0].to(records.features), sides[1].to(records.features)


def beside(
    originals: Records, rebuilt: Tensor, true: Tensor, public: Records | None, *, told: bool
) -> tuple[RecordScores, Gallery, Blind | None]:
    """Reconstructions beside their originals and beside the blind guess, of any kind of records.

    Args:
      originals: The victims as records.
      rebuilt: (victims, batch, …), in the model's scale.
      true: The originals in the same shape.
      public: Records that hold none of them: an overlap is refused in one line. None for none.
      told: Whether the attacker knows the classes.
    """
    size = true.shape[1]
    if originals.media.startswith("image/"):
        images = as_images(originals)
        pixels, wanted = (images.pixels(part).clamp(0, 1) for part in (rebuilt, true))
        scores, gallery = scored(pixels, wanted)
        known = None if public is None else as_images(public)
        return scores, gallery, blind_beside(scores, images, known, told=told, batch_size=size)
    guess = None
    if public is not None:
        guess = originals.blind(public, originals.labels if told and originals.classes else None)
    shown = None if guess is None else guess.guesses[originals.exposure]
    scores, gallery = scored_records(originals, rebuilt, true, shown)
    return scores, gallery, None if guess is None else compared(scores, guess, size)


def scored(pixels: Tensor, originals: Tensor) -> tuple[RecordScores, Gallery]:
    """Scores of (victims, batch, c, h, w) in [0, 1], and some of them to show."""
    parts: dict[str, list[Tensor]] = {"mse": [], "psnr": [], "ssim": []}
    ordered = []
    several = originals.shape[1] > 1
    placed: dict[str, list[Tensor]] = {"mse": [], "ssim": []}
    if not several:  # nothing to match: one computation for all
        pixels, originals = pixels.transpose(0, 1), originals.transpose(0, 1)
    for mine, true in zip(pixels, originals, strict=True):
        result = score(mine, true, matched=several)
        # By position: where the order within a batch is taken for known, as some papers do.
        same = score(mine, true, matched=False) if several else result
        for name, values in placed.items():
            values.append(getattr(same, name))
        for name, values in parts.items():
            values.append(getattr(result, name))
        ordered.append(mine[result.order.to(mine.device)])
    scores = RecordScores(
        metrics=ImageSet.metrics,
        values={
            "mse": _rounded(torch.cat(parts["mse"])),
            "psnr": _rounded(torch.cat(parts["psnr"]).clamp(max=_DECIBELS)),
            "ssim": _rounded(torch.cat(parts["ssim"])),
        },
        exposure=ImageSet.exposure,
        placed={name: float(torch.cat(values).mean()) for name, values in placed.items()},
        scale="pixels in [0, 1]",
    )
    rebuilt, true = torch.cat(ordered)[:_SHOWN], originals.flatten(0, 1)[:_SHOWN]
    return scores, Gallery(originals=_bytes(true), reconstructions=_bytes(rebuilt))


def scored_records(
    records: Records, rebuilt: Tensor, originals: Tensor, guesses: Tensor | None = None
) -> tuple[RecordScores, Gallery]:
    """Scores of records of any kind by their own metrics, and the most exposed of them to show.

    Args:
      records: Their kind and scale.
      rebuilt: (victims, batch, …), in any order within a batch.
      originals: The same shape.
      guesses: The blind guess at each, (victims · batch, …); None for none.
    """
    parts, placed, ordered = [], [], []
    for mine, true in zip(rebuilt, originals, strict=True):
        result = records.score(mine, true, matched=len(true) > 1)
        parts.append(result)
        placed.append(records.score(mine, true, matched=False) if len(true) > 1 else result)
        ordered.append(mine[torch.as_tensor(result.order).to(mine.device)])

    def joined(found: list[VictimScores], key: str) -> NDArray[np.float64]:
        return np.concatenate([one.values[key] for one in found])

    keys = [metric.key for metric in records.metrics]
    whole = {key: joined(parts, key) for key in keys}
    scores = RecordScores(
        metrics=records.metrics,
        values={key: _rounded(torch.as_tensor(values)) for key, values in whole.items()},
        exposure=records.exposure,
        placed={key: float(joined(placed, key).mean()) for key in keys},
        scale=records.kind,
    )
    ranked = VictimScores(records.metrics, whole, np.arange(len(scores)))
    first = torch.tensor(ranked.most_exposed(records.exposure, _SHOWN))
    found, true = torch.cat(ordered), originals.flatten(0, 1)
    chosen = None if guesses is None else guesses[first]
    return scores, Gallery.of(records, found[first], true[first], chosen, first)


def public_records(victim: Victim, chosen: Tensor) -> Records | None:
    """What the attacker has of the same kind: none of the attacked records is among it.

    Public records where they were given; otherwise the held-out records that are not attacked,
    exact copies of attacked ones left out; None where all of them are attacked.

    Args:
      victim: The victim.
      chosen: Positions of the attacked ones among its held-out records; empty for none.
    """
    records = victim.records
    if records.public is not None:
        return records.public
    test = records.test
    if not len(chosen):
        return test
    others = torch.ones(len(test), dtype=torch.bool)
    others[chosen] = False
    if not bool(others.any()):
        return None
    return test.subset(others).without(test.subset(chosen))


def public_of(victim: Victim, chosen: Tensor) -> ImageSet | None:
    """:func:`public_records`, for an attack that rebuilds images."""
    found = public_records(victim, chosen)
    return None if found is None else as_images(found)


def blind_beside(
    scores: RecordScores,
    originals: ImageSet,
    public: ImageSet | None,
    *,
    told: bool,
    batch_size: int = 1,
) -> Blind | None:
    """What a guess that saw no release scores at the same images; see :func:`compared`."""
    if public is None:
        return None
    guess = originals.blind(public, originals.labels if told else None)
    shown = _bytes(originals.pixels(guess.guesses[originals.exposure])[:_SHOWN])
    return compared(scores, guess, batch_size, shown)


def compared(
    scores: RecordScores, guess: BlindGuess, batch_size: int, shown: NDArray[np.uint8] | None = None
) -> Blind:
    """What an attack gained over a blind guess: the one place where the two are compared.

    Victims of one batch share its release, and are resampled together.

    Args:
      scores: Of the reconstructions, in the order of the originals.
      guess: At the same originals, from records that hold none of them.
      batch_size: Records behind a release.
      shown: The guess as a gallery shows it, where it does not hold it already.
    """
    keys = [metric.key for metric in scores.metrics]
    found = VictimScores(
        scores.metrics,
        {key: np.asarray(scores.values[key], dtype=np.float64) for key in keys},
        np.arange(len(scores)),
    )
    clusters = [place // batch_size for place in range(len(scores))]
    named = [f"{key}: {how}" for key, how in guess.how.items() if key != "psnr"]
    alike = len(set(guess.how.values())) == 1
    return Blind(
        guess=next(iter(guess.how.values())) if alike else ", ".join(named),
        scores={key: _rounded(torch.as_tensor(guess.scores.values[key])) for key in keys},
        gains=gains(found.filled(guess.scores), guess.scores, clusters=clusters),
        shown=shown,
    )


def labels_found(found: Tensor | None, labels: Tensor) -> float | None:
    """Share of labels that were found, in any order within a batch."""
    if found is None:
        return None
    right = 0
    for mine, true in zip(found.tolist(), labels.tolist(), strict=True):
        left = list(true)
        for value in mine:
            if value in left:
                left.remove(value)
                right += 1
    return right / labels.numel()


def _bytes(images: Tensor) -> NDArray[np.uint8]:
    scaled = (images.detach().cpu().clamp(0, 1) * 255).round().to(torch.uint8)
    out: NDArray[np.uint8] = scaled.permute(0, 2, 3, 1).contiguous().numpy()
    return out


def _rounded(values: Tensor) -> tuple[float, ...]:
    return tuple(float(f"{value:.6g}") for value in values.tolist())
