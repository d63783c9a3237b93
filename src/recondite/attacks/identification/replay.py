"""A run replayed once for all attacks on it: scores of its records and of candidates, and bounds.

Identification and the posterior attackers of a whole run ask the same of a transcript: how likely
every public record makes it, in the place of each record that is attacked.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from recondite.attacks.identification.bounds import Ceiling, of_run, of_told_run
from recondite.attacks.identification.game import IdentificationGame, overlap
from recondite.attacks.transcript import Transcript
from recondite.records import Records

if TYPE_CHECKING:
    from recondite.attacks.victim import Victim

__all__ = ["TOGETHER", "Played", "replayed", "seen_by_training", "targets_of"]

Array = npt.NDArray[np.float64]
# Targets cost little beside the candidates. Played for in such numbers, attacks that ask for fewer
# or more share a replay, and none's row depends on which other one ran.
TOGETHER = 200


@dataclass(frozen=True, eq=False)
class Played:
    """The games of some training records over a run.

    Attributes:
      places: Of the records in the training set.
      game: After the last step; it may have been played for more records than these.
      transcript: Of the run.
      first: Which of the game's targets is the first of these.
    """

    places: tuple[int, ...]
    game: IdentificationGame
    transcript: Transcript
    first: int = 0

    @property
    def hidden(self) -> bool:
        """Whether anything hides when a record took part."""
        return self._secret is not self.game.known

    def scores(self, side: Literal["secret", "known"]) -> Array:
        """Log-likelihood ratios: of each record itself, then of every candidate."""
        whole = self.game.known if side == "known" else self._secret
        return whole[self._mine]

    @property
    def taken_part(self) -> npt.NDArray[np.int64]:
        """How often each record took part."""
        return self.game.taken_part[self._mine]

    def after(self, most: int, least: int = 4) -> Played | None:
        """The games of the next records; None where fewer than ``least`` were played."""
        first = self.first + len(self.places)
        places = tuple(self.game.targets[first : first + most])
        return None if len(places) < least else Played(places, self.game, self.transcript, first)

    @property
    def _mine(self) -> slice:
        return slice(self.first, self.first + len(self.places))

    @cached_property
    def _secret(self) -> Array:
        return self.game.secret

    def ceiling(self, side: Literal["secret", "known"]) -> Ceiling:
        """What no attacker exceeds."""
        mechanism, schedule = self.transcript.mechanism, self.transcript.schedule
        if side == "secret" and self.hidden:
            return of_run(mechanism, schedule)
        return of_told_run(mechanism, schedule, self.taken_part)


_Kept = tuple[Records, int, int, IdentificationGame]
_LAST: WeakKeyDictionary[Transcript, _Kept] = WeakKeyDictionary()


def targets_of(victim: Victim, pool: Records) -> list[int]:
    """Training records in the order in which all attacks take them, twins of the pool left out.

    A record with a twin among the candidates could not be told from it.
    """
    alone = np.flatnonzero(~overlap(victim.records.training.features, pool.features))
    order: list[int] = np.random.default_rng(victim.seed).permutation(alone).tolist()
    if len(order) < 2:
        raise ValueError("held-out records are the training records: hold others out")
    return order


def replayed(victim: Victim, pool: Records, count: int, name: str) -> Played:
    """Plays the games of the first records, or takes what was played for another attack.

    Args:
      victim: With a transcript.
      pool: Candidates: held-out or public records.
      count: Records wanted; fewer where there are not as many.
      name: Of the attack that asks.

    Raises:
      ValueError: In one line, where nothing was recorded.
    """
    seen = victim.transcript
    if seen is None:
        raise ValueError(
            f"attack {name} needs what the training released, which was not recorded or "
            "takes too much memory: take fewer steps or a smaller model, or threat update"
        )
    order = targets_of(victim, pool)
    most = -(-count // TOGETHER) * TOGETHER
    kept = _LAST.get(seen)
    if kept is None or kept[0] is not pool or kept[1:3] != (victim.seed, most):
        chosen = order[:most]
        game = IdentificationGame(
            victim.initial(),
            seen.mechanism,
            seen.units,
            seen.bound,
            targets=chosen,
            target_records=seen_by_training(
                victim, victim.records.training.subset(torch.tensor(chosen))
            ),
            pool=seen_by_training(victim, pool),
            schedule=seen.schedule,
        )
        game.replay(seen, lambda done: victim.progress(name, done))
        kept = _LAST[seen] = (pool, victim.seed, most, game)
    return Played(tuple(order[:count]), kept[3], seen)


def seen_by_training(victim: Victim, records: Records) -> tuple[Tensor, Tensor]:
    """Records as a training sees them."""
    images = victim.defence.seen(records.features.unsqueeze(1)).squeeze(1)
    return images.to(victim.device), records.labels.to(victim.device)
