"""Who is attacked under the intruder: the papers' own first records, public ones, a blind guess."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from recondite.attacks.posterior.strongest import share_gained
from recondite.attacks.scoring import compared, scored
from recondite.records import BlindGuess, ImageSet
from recondite_papers.jobs.data import Split
from recondite_papers.jobs.sink import Row

__all__ = ["GAMES", "Scene", "scene_of", "strongest"]

GAMES = (10, 100)  # candidates of an identification game, all of the victim's own class


@dataclass(frozen=True, eq=False)
class Scene:
    """Victims and what an attacker holds; the attacker is told the victims' classes.

    Attributes:
      victims: The records that are attacked.
      others: Records that share a batch with a victim, known to the attacker.
      public: Records of the same kind that the attacker holds; none of them is a victim.
      variance: Of a unit of the pixels' scale, to give errors on that scale too.
    """

    victims: ImageSet
    others: ImageSet
    public: ImageSet
    variance: float

    @cached_property
    def guess(self) -> BlindGuess:
        """The best guess without any release, made once for all defences."""
        return self.victims.blind(self.public, self.victims.labels)

    @cached_property
    def alike(self) -> Tensor:
        """Which public records have a victim's class, (victims, public)."""
        same = self.victims.labels[:, None] == self.public.labels[None]
        return same | ~same.any(1, keepdim=True)

    def scores(self, images: Tensor) -> Row:
        """What an attack's images gained over the blind guess.

        Args:
          images: (victims, c, h, w), in the network's scale.
        """
        pixels = self.victims.pixels(images.to(self.victims.images)).clamp(0, 1)[:, None]
        found, _ = scored(pixels, self.victims.pixels()[:, None])
        beside = compared(found, self.guess, 1)
        gain = beside.gains["mse"]
        return {
            "share": share_gained(beside),
            **{key: _mean(found.values[key]) for key in ("mse", "ssim")},
            "mse_scaled": _mean(found.values["mse"]) / self.variance,
            **{f"blind_{key}": _mean(beside.scores[key]) for key in ("mse", "ssim")},
            "blind_mse_scaled": _mean(beside.scores["mse"]) / self.variance,
            "gain": gain.value,
            "gain_interval": gain.interval,
            "gain_ssim": beside.gains["ssim"].value,
            "gain_ssim_interval": beside.gains["ssim"].interval,
        }

    def picked(self, likely: Tensor) -> Row:
        """Identification games: how often the likeliest of n candidates is the victim's record.

        The candidates of a game are the record and the first n - 1 public records of its class; a
        tie counts as wrong.

        Args:
          likely: (victims, public + victims), log-likelihoods; of a victim's own record in the
            column of its number.
        """
        count = len(self.public)
        own = likely[:, count:].diagonal()
        out: Row = {}
        for candidates in GAMES:
            right, games = 0, 0
            for number, mine in enumerate(own):
                places = self.alike[number].nonzero().flatten()[: candidates - 1].to(likely.device)
                if len(places) < candidates - 1:
                    continue
                games += 1
                right += bool(mine > likely[number, places].max())
            if games:
                out[str(candidates)] = {"right": right, "games": games}
        return out


def _mean(values: Any) -> float:
    return float(sum(values) / len(values))


def scene_of(data: Split, *, victims: int, public: int, others: int = 127) -> Scene:
    """The first training records as victims, the next as their batch, test records as public.

    Where there are fewer test records than asked for, training records that are neither follow:
    the attacked networks are untrained and never saw them.
    """
    first, batch = slice(0, victims), slice(victims, victims + others)
    rest = slice(victims + others, None)
    held = _set(
        data,
        torch.cat([data.test_images[:public], data.images[rest][:public]])[:public],
        torch.cat([data.test_labels[:public], data.labels[rest][:public]])[:public],
    )
    attacked = _set(data, data.images[first], data.labels[first])
    return Scene(
        attacked,
        _set(data, data.images[batch], data.labels[batch]),
        held.without(attacked),
        data.std**2,
    )


def _set(data: Split, images: Tensor, labels: Tensor) -> ImageSet:
    channels = data.shape[0]
    return ImageSet(
        images,
        labels,
        tuple(str(number) for number in range(data.classes)),
        name=data.name,
        mean=(data.mean,) * channels,
        std=(data.std,) * channels,
    )


def strongest(found: Mapping[str, Row]) -> Row:
    """The attack that came the largest share of the way from the blind guess to a copy."""
    name = max(found, key=lambda key: float(found[key]["share"]))
    shares = {key: one["share"] for key, one in found.items()}
    return {"attack": name, "shares": shares, **found[name]}
