"""The released record: whoever holds a noisy record takes it for the record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from recondite.attacks.base import Attack, AttackRequest, Available, DefenceFacts, Threat
from recondite.attacks.knowledge import Knowledge

if TYPE_CHECKING:
    from recondite.attacks.outcome import Outcome
    from recondite.attacks.victim import Victim

__all__ = ["ReleasedRecord"]


@dataclass(frozen=True)
class ReleasedRecord(Attack):
    """The image that a defence on records lets through, cut to possible pixels, is the guess.

    The least that the holder of noisy records can do, as the images of Tan et al. (2024) show it.
    Its error is no bound: whoever knows the noise or the kind of image guesses better.

    Attributes:
      region: ``{"rows": [12, 19], "columns": [8, 23]}``, both ends included: errors inside and
        outside of it are reported apart.
    """

    name: ClassVar[str] = "released-record"
    needs: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.NOISY_RECORDS})
    threats: ClassVar[frozenset[Threat]] = frozenset({"training"})
    reads: ClassVar[tuple[str, ...]] = ("images", "threat")
    takes: ClassVar[tuple[str, ...]] = ("images",)
    wants: ClassVar[str] = "a defence on records: add a channel or compression"
    paper: ClassVar[str] = "Tan et al., Defending against data reconstruction attacks (2024)"

    region: Mapping[str, Sequence[int]] | None = None

    def __post_init__(self) -> None:
        if self.region is None:
            return
        wanted = "region must be {rows: [first, last], columns: [first, last]}"
        if not isinstance(self.region, Mapping) or set(self.region) != {"rows", "columns"}:
            raise ValueError(f"{wanted}, got {self.region!r}")
        for pair in self.region.values():
            if not _is_span(pair):
                raise ValueError(f"{wanted}, whole numbers from 0, got {self.region!r}")

    @classmethod
    def applies(cls, defence: DefenceFacts) -> bool:
        """Records can be looked at where a defence is on them."""
        return defence.on_records

    def trains(self, asked: AttackRequest) -> bool:
        """No model takes part."""
        del asked
        return False

    def misfits(self, asked: AttackRequest, there: Available) -> Iterator[tuple[str, str]]:
        """Whether there are as many images, and the region lies within them."""
        if asked.images > there.test_records:
            most = f"{there.test_records}, the held-out records"
            yield "images", f"must be at most {most}, got {asked.images}"
        try:
            self.inside(there.shape)
        except ValueError as error:
            yield "region", str(error).removeprefix("region ")

    def _evaluate(self, victim: Victim) -> Outcome:
        """Scores held-out records as the defence would hand them to a training, once each.

        ``mse_uncut_mean`` is the error of the released numbers, the noise's own power; all other
        scores are of the image, its pixels cut to [0, 1].
        """
        from recondite.attacks.claims import identification_claims
        from recondite.attacks.outcome import Outcome, Rebuilt
        from recondite.attacks.scoring import as_images, blind_beside, picked, public_of, scored

        test = as_images(victim.records.test)
        places = picked(test, victim.asked.images, victim.seed)
        chosen, public = test.subset(places), public_of(victim, places)
        released = test.pixels(victim.defence.seen(chosen.images.unsqueeze(1)))
        originals, pixels = chosen.pixels(), released.clamp(0, 1)
        scores, gallery = scored(pixels, originals.unsqueeze(1))
        error = (released.squeeze(1) - originals).square()
        inside = self.inside(test.shape)
        figures = {
            "mse_uncut_mean": float(error.mean()),
            "mse_uncut_inside": None if inside is None else float(error[:, inside].mean()),
            "mse_uncut_outside": None if inside is None else float(error[:, ~inside].mean()),
        }
        rebuilt = Rebuilt(
            scores,
            images_from="held-out records",
            batch_size=1,
            victim=None,
            figures=figures,
            # A channel leaves labels as they are.
            blind=blind_beside(scores, chosen, public, told=True),
        )
        claims = identification_claims(victim, victim.model, pixels, chosen, 1, told=False)
        return Outcome(rebuilt=rebuilt, gallery=gallery, claims=claims)

    def inside(self, shape: Sequence[int]) -> Tensor | None:
        """Which pixels of (c, h, w) are in the region; None without one.

        Raises:
          ValueError: In one line, where it is not within the image.
        """
        if self.region is None:
            return None
        _, height, width = shape
        mask = torch.zeros(tuple(shape), dtype=torch.bool)
        for key, side in (("rows", height), ("columns", width)):
            if self.region[key][1] >= side:
                raise ValueError(
                    f"region {key} must end before {side}, got {list(self.region[key])}"
                )
        (top, bottom), (left, right) = (self.region[key] for key in ("rows", "columns"))
        mask[:, top : bottom + 1, left : right + 1] = True
        return mask


def _is_span(pair: Any) -> bool:
    if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
        return False
    whole = all(isinstance(end, int) and not isinstance(end, bool) for end in pair)
    return whole and 0 <= pair[0] <= pair[1]
