"""Identification as an attack: how often a record is picked out of n, beside its bound."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import torch

from recondite import _validate
from recondite.accounting.schedules import Poisson
from recondite.attacks.base import Attack, AttackRequest, Available, Threat
from recondite.attacks.identification.bounds import Ceiling, of_copies, of_run
from recondite.attacks.identification.game import IdentificationGame
from recondite.attacks.identification.replay import replayed, seen_by_training, targets_of
from recondite.attacks.knowledge import Knowledge
from recondite.attacks.outcome import Identification, Outcome
from recondite.gradients.leaked import Releases
from recondite.metrics.identification import (
    chances_one_a_label,
    identified,
    label_weights,
    summarised,
)

if TYPE_CHECKING:
    from recondite.attacks.victim import Victim

__all__ = ["Identify"]

Array = npt.NDArray[np.float64]
_TOGETHER = 100  # games of one update that share a pass over the candidates
_KNOWS = (
    "identification is by one who knows all other records, the batches they were in, and every "
    "weight"
)
_ONE_RUN = "games of one training share its noise: their interval speaks of this training"
_STAND_IN = (
    "noise on each record has no density in closed form for a batch: a normal law stands in, so "
    "a better attacker than this one may exist"
)
_NO_SECRET = (
    "nothing is amplified here: an attacker who is told when a record took part and one who is not "
    "have the same game and the same bound"
)
_TELLS = (
    "batches of one size: whoever knows the others' batches can tell whether a record is in them, "
    "so that this game is of known participation; of one who knows no batch none is played"
)
_LABELS = (
    "the noisy records themselves are taken for seen, labels left aside: these are handed on as "
    "they are, and whoever uses them has fewer candidates to tell apart"
)


@dataclass(frozen=True)
class Identify(Attack):
    """Picks the record that took part out of n candidates drawn alike, by the defence's likelihood.

    The attacker of the reconstruction bound's proof
    (:mod:`recondite.attacks.identification.game`): its success stands beside the bound for the
    same threat, participation and neighbouring relation. All candidates but the record itself are
    held-out records.

    Attributes:
      candidates: Numbers n, the record among them; those that the held-out records are too few for
        are left out, with a note. Where n is the number of classes it is also played with one
        candidate of each label, every label alike: no two of them have nearly the same gradient,
        so that this comes nearest the bound.
      games: Records that are played for.
    """

    name: ClassVar[str] = "identification"
    title: ClassVar[str] = "picking the record out of n candidates"
    needs: ClassVar[frozenset[Knowledge]] = frozenset(
        {
            Knowledge.MODEL,
            Knowledge.GRADIENTS,
            Knowledge.DEFENCE,
            Knowledge.RECORDS,
            Knowledge.MEMBERS,
        }
    )
    threats: ClassVar[frozenset[Threat]] = frozenset({"update", "training"})
    reads: ClassVar[tuple[str, ...]] = ("threat", "victim")
    from_transcript: ClassVar[bool] = True
    amounts: ClassVar[bool] = True

    candidates: int | tuple[int, ...] = (10, 100, 1000)
    games: int = 100

    def __post_init__(self) -> None:
        given = (self.candidates,) if isinstance(self.candidates, int) else self.candidates
        if not given:
            raise ValueError("candidates must have one number or more, got none")
        whole = tuple(sorted({_validate.at_least("candidates", n, 2) for n in given}))
        object.__setattr__(self, "candidates", whole)
        object.__setattr__(self, "games", _validate.at_least("games", self.games, 2))

    @property
    def numbers(self) -> tuple[int, ...]:
        """``candidates``, in ascending order."""
        return self.candidates if isinstance(self.candidates, tuple) else (self.candidates,)

    def trains(self, asked: AttackRequest) -> bool:
        """One update of an untrained model needs no training."""
        return self.replays(asked) or asked.victim == "trained"

    def misfits(self, asked: AttackRequest, there: Available) -> Iterator[tuple[str, str]]:
        """Whether held-out records give one choice at least, and training records the games."""
        del asked
        if self.numbers[0] > there.test_records + 1:
            most = f"{there.test_records + 1}, the held-out records and the record itself"
            yield "candidates", f"must be at most {most}, got {self.numbers[0]}"
        if self.games > there.records:
            yield "games", f"must be at most {there.records}, the records, got {self.games}"

    def _evaluate(self, victim: Victim) -> Outcome:
        chosen = targets_of(victim, victim.records.test)[: self.games]
        whole = self.exposed(victim.asked) == "training"
        if victim.defence.channel is not None:
            return self._copies(victim, chosen, whole=whole)
        return self._training(victim) if whole else self._update(victim, chosen)

    def _training(self, victim: Victim) -> Outcome:
        """Every release of the run, participation secret and known."""
        made = replayed(victim, victim.records.test, self.games, self.name)
        known = made.ceiling("known")
        if made.tells:
            return self._outcome(
                {"known": (made.scores("known"), known)},
                [_KNOWS, _ONE_RUN, _TELLS, *([_STAND_IN] if made.game.estimated else [])],
                self._labels(victim, list(made.places)),
            )
        secret, notes = known, [_KNOWS, _ONE_RUN, _NO_SECRET]
        if made.hidden:
            secret, notes = made.ceiling("secret"), [_KNOWS, _ONE_RUN]
        return self._outcome(
            {"secret": (made.scores("secret"), secret), "known": (made.scores("known"), known)},
            [*notes, *([_STAND_IN] if made.game.estimated else [])],
            self._labels(victim, list(made.places)),
        )

    def _update(self, victim: Victim, chosen: list[int]) -> Outcome:
        """One release of a batch of the training's own size, the record in it, once a game."""
        records = victim.records.training
        size = victim.asked.batch_size if victim.recipe is None else victim.recipe.batch_size
        rest = np.setdiff1d(np.arange(len(records)), chosen)
        others = np.random.default_rng(victim.seed).permutation(rest)[: size - 1]
        model = copy.deepcopy(victim.target()).train()
        made = Releases(
            model,
            victim.defence.mechanism,
            batch_size=len(others) + 1,
            clipping=victim.defence.clipping,
            max_grad_norm=victim.defence.max_grad_norm,
            seed=victim.seed,
        )
        targets = seen_by_training(victim, records.subset(torch.tensor(chosen)))
        once = Poisson(1.0, 1)
        game = IdentificationGame(
            model,
            made.mechanism,
            made.units,
            made.bound,
            targets=chosen,
            target_records=targets,
            pool=seen_by_training(victim, victim.records.test),
            schedule=once,
        )
        batch = made.rows(*seen_by_training(victim, records.subset(torch.as_tensor(others))))
        own = made.rows(*targets)
        pairs = list(zip(chosen, own, strict=True))
        for start in range(0, len(pairs), _TOGETHER):
            turns = [
                made.turn(torch.cat([batch, row[None]]), [*others.tolist(), target])
                for target, row in pairs[start : start + _TOGETHER]
            ]
            game.watch_all(turns)
            victim.progress(self.name, min(1.0, (start + _TOGETHER) / len(pairs)))
        notes = [
            _KNOWS,
            f"one release of a batch of {len(others) + 1} that the record is in, drawn anew for "
            "every game",
        ]
        return self._outcome(
            {"known": (game.known, of_run(made.mechanism, once))},
            [*notes, *([_STAND_IN] if game.estimated else [])],
            self._labels(victim, chosen),
        )

    def _copies(self, victim: Victim, chosen: list[int], *, whole: bool) -> Outcome:
        """The noisy copies that a channel makes of a record, by the channel's own density."""
        copies = victim.defence.looks if whole else 1
        channel, records = victim.defence.channel, victim.records.training
        assert channel is not None
        true = records.subset(torch.tensor(chosen)).features.flatten(1).cpu().double().numpy()
        held = victim.records.test.features.flatten(1).cpu().double().numpy()
        noisy = channel.perturb(true, np.random.default_rng(victim.seed))
        # The mean of k copies says all that they say, with 1/k of the noise's variance.
        mean = true + (noisy - true) / math.sqrt(copies)
        at, own, pool = (channel.noise.whitened(rows) for rows in (mean, true, held))
        scores = np.concatenate([((at - own) ** 2).sum(1)[:, None], _squared(at, pool)], 1)
        ceiling = of_copies(channel, records.sides().flatten().numpy(), copies)
        played = (-0.5 * copies * scores, ceiling)
        sides = ("secret", "known") if whole else ("known",)
        return self._outcome(dict.fromkeys(sides, played), [_LABELS])

    def _labels(self, victim: Victim, chosen: list[int]) -> tuple[Array, Array] | None:
        """Labels of the records and of the pool, where one candidate of each is worth playing."""
        records, pool = victim.records.training, victim.records.test
        mine = records.labels[torch.tensor(chosen)].cpu().numpy()
        theirs = pool.labels.cpu().numpy()
        count = len(records.classes)
        everywhere = all(len(np.unique(part)) == count for part in (mine, theirs))
        return (mine, theirs) if count in self.numbers and everywhere else None

    def _outcome(
        self,
        played: dict[str, tuple[Array, Ceiling]],
        notes: list[str],
        labels: tuple[Array, Array] | None = None,
    ) -> Outcome:
        pool = next(iter(played.values()))[0].shape[1] - 1
        few = [str(n) for n in self.numbers if n > pool + 1]
        if few:
            notes = [*notes, f"held-out records are too few for {' and '.join(few)} candidates"]
        sides: tuple[Literal["secret", "known"], ...] = ("secret", "known")
        found = [
            Identification(identified([scores], n), side, ceiling.at(n), ceiling.relation)
            for side in sides
            if side in played
            for scores, ceiling in [played[side]]
            for n in self.numbers
            if n <= pool + 1
        ]
        if labels is not None:
            count = len(np.unique(labels[0]))
            for side in sides:
                if side not in played:
                    continue
                scores, ceiling = played[side]
                each = chances_one_a_label(scores, *labels)
                weights = label_weights(labels[0])
                rate = summarised([each], count, weights=[weights])
                bound = ceiling.at(count, weights)
                found.append(
                    Identification(rate, side, bound, ceiling.relation, among="one of each label")
                )
        return Outcome(identification=tuple(found), notes=tuple(notes))


def _squared(rows: Array, others: Array) -> Array:
    """Squared distances of all rows to all others."""
    ours, theirs = (rows**2).sum(1)[:, None], (others**2).sum(1)
    out: Array = ours + theirs - 2.0 * rows @ others.T
    return out
