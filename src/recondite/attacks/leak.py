"""Gradients that leaked: what somebody else's training released, and what an attacker knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from torch import Tensor, nn

from recondite.attacks.scoring import blind_beside, scored
from recondite.attacks.victim import Defended
from recondite.records import ImageSet
from recondite.records.blind import duplicates

if TYPE_CHECKING:
    from recondite.attacks.outcome import Blind, Gallery, RecordScores

__all__ = ["Leak"]


def _silent(stage: str, done: float) -> None:
    del stage, done


@dataclass(frozen=True, eq=False)
class Leak:
    """Releases of some victims' records at the same weights, from a file.

    Attributes:
      model: The network with the weights that it had, in evaluation mode.
      gradients: Parameter name to (victims, releases, *parameter); the releases of a victim are of
        the same records, each with fresh noise.
      shape: (c, h, w) of a record.
      batch_size: Records behind each release.
      labels: (victims, batch), where the attacker is told them.
      bounds: Smallest and largest pixel in the network's scale.
      defence: What was done to the gradients.
      public: Records of the same kind that the attacker has, in the network's scale.
      originals: The records themselves, victim after victim, in the network's scale: for scores,
        never for the attack.
      seed: Repeats the attack.
      time_limit: Seconds, for attacks that iterate.
      progress: Told a stage and how much of it is done.
    """

    model: nn.Module
    gradients: Mapping[str, Tensor]
    shape: tuple[int, int, int]
    batch_size: int = 1
    labels: Tensor | None = None
    bounds: tuple[float, float] = (0.0, 1.0)
    defence: Defended = field(default_factory=Defended)
    public: ImageSet | None = None
    originals: ImageSet | None = None
    seed: int | None = None
    time_limit: float | None = None
    progress: Callable[[str, float], None] = _silent

    def __post_init__(self) -> None:
        wanted = self.victims * self.batch_size
        if self.labels is not None and self.labels.shape != (self.victims, self.batch_size):
            raise ValueError(
                f"labels must name {wanted} classes, one a record, got {self.labels.numel()}"
            )
        for name, records in (("public", self.public), ("originals", self.originals)):
            if records is not None and records.shape != self.shape:
                theirs, ours = ("×".join(map(str, one)) for one in (records.shape, self.shape))
                raise ValueError(
                    f"{name} must be records of {ours}, got {theirs}: bring them to that size with "
                    "prepare (crop16, resize32, …), or give others"
                )
        if self.originals is not None and len(self.originals) != wanted:
            raise ValueError(
                f"originals must be {wanted}, one a record behind the gradients, got "
                f"{len(self.originals)}"
            )
        if self.originals is not None and self.public is not None:
            shared = duplicates(self.public.natural(), self.originals.natural())
            if shared:
                raise ValueError(
                    f"public must hold none of the originals: its record {shared[0][0] + 1} is "
                    f"original {shared[0][1] + 1} ({len(shared)} in all); take them out"
                )

    @property
    def victims(self) -> int:
        """How many."""
        return len(next(iter(self.gradients.values())))

    @property
    def releases(self) -> int:
        """Of each victim."""
        return next(iter(self.gradients.values())).shape[1]

    @property
    def defended(self) -> bool:
        """Whether anything was done to the gradients."""
        return bool(self.defence.mechanism.parameter) or self.defence.clipping != "none"

    def undefended(self) -> Leak:
        """As somebody sees it who ignores the defence."""
        return replace(self, defence=Defended())

    def average(self) -> dict[str, Tensor]:
        """The mean of each victim's releases, (victims, *parameter)."""
        return {name: value.mean(1) for name, value in self.gradients.items()}

    def alone(self, attack: str) -> ImageSet:
        """The public records, for an attack on one record behind each release."""
        if self.batch_size != 1:
            raise ValueError(f"batch_size must be 1 for {attack}, got {self.batch_size}")
        if self.public is None:
            raise ValueError(f"{attack} needs public: records of the same kind as the victims'")
        return self.public

    def scores(self, images: Tensor) -> tuple[RecordScores, Gallery, Blind | None]:
        """Reconstructions beside the originals, and beside the blind guess from public records."""
        assert self.originals is not None
        true = self.originals.pixels().reshape(self.victims, self.batch_size, *self.shape)
        found, gallery = scored(self.originals.pixels(images.to(true)).clamp(0, 1), true)
        blind = blind_beside(
            found,
            self.originals,
            self.public,
            told=self.labels is not None,
            batch_size=self.batch_size,
        )
        return found, gallery, blind
