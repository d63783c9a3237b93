"""What all membership attacks share: checked inputs in, a result out."""

from __future__ import annotations

import secrets
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from recondite import _validate
from recondite.attacks.base import Attack, AttackRequest, Available, Threat
from recondite.attacks.gradient.base import AttackProgress
from recondite.attacks.knowledge import Knowledge
from recondite.attacks.membership.recipe import Recipe
from recondite.attacks.membership.references import References, Trainer, train_references
from recondite.attacks.membership.signals import (
    FloatArray,
    LossFunction,
    Records,
    check_labels,
    device_of,
    logits_of,
    records_of,
)
from recondite.configuration import TrainingConfig
from recondite.metrics.membership import GIVEN, INCLUSIONS, MembershipResult

if TYPE_CHECKING:
    from recondite.attacks.outcome import Claim, Outcome
    from recondite.attacks.victim import Victim

__all__ = ["Case", "Judgement", "MembershipAttack"]

_CONFIDENCE = 0.999
_ADD_OR_REMOVE = "add-or-remove-one"


@dataclass(frozen=True)
class Judgement:
    """Scores of an attack, and which records they are of (None: all)."""

    members: FloatArray
    nonmembers: FloatArray
    judged_members: NDArray[np.int64] | None = None
    judged_nonmembers: NDArray[np.int64] | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Case:
    """One model under attack. Members and non-members stand one after the other in ``images``."""

    model: nn.Module
    images: Tensor
    labels: Tensor
    members: int
    loss_fn: LossFunction | None
    make_model: Callable[[], nn.Module] | None
    population: tuple[Tensor, Tensor] | None
    known: tuple[Tensor, Tensor] | None
    size: int | None
    recipe: TrainingConfig | Trainer
    references: References | None
    seed: int
    progress: Callable[[AttackProgress], None] | None

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return device_of(self.model)

    @cached_property
    def logits(self) -> Tensor:
        """The model's logits on all records."""
        return logits_of(self.model, self.images)

    def split(self, scores: FloatArray, notes: tuple[str, ...] = ()) -> Judgement:
        """Scores of all records, as a judgement."""
        return Judgement(scores[: self.members], scores[self.members :], notes=notes)

    def public(self, attack: str) -> tuple[Tensor, Tensor]:
        """The population, or one line that says it is missing."""
        if self.population is None:
            raise ValueError(
                f"{attack} needs population: records of the same kind that the model was not "
                "trained on"
            )
        return self.population

    def train(
        self,
        attack: str,
        pool: tuple[Tensor, Tensor],
        count: int,
        size: int | None = None,
        coins: int = 0,
    ) -> References:
        """Reference models, each on as many records of a pool as the victim had.

        Models that saw fewer records than the victim are another kind of model, and the more of
        them there are, the more they mislead.

        Args:
          attack: Who asks.
          pool: What to draw from.
          count: Models.
          size: Records of each; None for the victim's number, or half of the pool where that is
            not known. At most what the pool allows.
          coins: The pool's first records that are in exactly half of the models.
        """
        if self.make_model is None:
            raise ValueError(
                f"{attack} needs make_model: a function that returns a new, untrained model of "
                "the victim's kind"
            )
        wanted = self.size if size is None else size
        if wanted is not None and size is None:
            # Of what no coin decides a tenth is left out, so that models differ.
            others = len(pool[0]) - coins
            wanted = max(min(wanted, coins // 2 + round(0.9 * others)), coins - coins // 2)
        return train_references(
            self.make_model,
            *pool,
            count,
            self.recipe,
            loss_fn=self.loss_fn,
            size=wanted,
            coins=0 if wanted is None else coins,
            seed=self.seed,
            device=self.device,
            progress=self.progress,
        )

    def joined(self, *parts: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """A pool of these records and of those known to be in the victim's training set."""
        every = [*parts, *([] if self.known is None else [self.known])]
        images = torch.cat([part[0].to(self.images) for part in every])
        return images, torch.cat([part[1].to(self.labels) for part in every])

    def outside_references(
        self, attack: str, count: int, size: int | None = None
    ) -> tuple[References, tuple[str, ...]]:
        """References that never saw the records in question: given, or trained on other records.

        Their pool is the population, which stands first, and the records that the victim is known
        to have been trained on.

        Returns:
          The references, and a note if some of the records are in their pool after all.
        """
        if self.references is not None:
            found = self.references
        else:
            found = self.train(attack, self.joined(self.public(attack)), count, size)
        pool = {image.tobytes() for image in found.images.cpu().numpy()}
        twice = sum(image.tobytes() in pool for image in self.images.cpu().numpy())
        if not twice:
            return found, ()
        return found, (
            f"{twice} of {len(self.images)} records are also in the population, so some "
            "references have seen them and the attack is weaker than it could be",
        )


@dataclass(frozen=True)
class MembershipAttack(Attack):
    """Tells members of a training set from other records.

    A subclass writes ``judge``; :meth:`evaluate` asks it about the records of a victim that fair
    coins put into its training set or left out.
    """

    threats: ClassVar[frozenset[Threat]] = frozenset({"model"})
    reads: ClassVar[tuple[str, ...]] = ("records", "threat")

    def misfits(self, asked: AttackRequest, there: Available) -> Iterator[tuple[str, str]]:
        """Coins are flipped for at most half of the training records."""
        if 2 * asked.records > there.records // 2:
            yield (
                "records",
                f"must be at most {there.records // 4} for {there.records} training records "
                f"(twice as many take part in coin flips), got {asked.records}",
            )

    def _evaluate(self, victim: Victim) -> Outcome:
        """Records were in or out of the training set by fair coins: what it says of ε is a bound.

        Reference models are trained as the model was, behind the same defence and on as many
        records: held-out ones and, as a proof's adversary knows them, the training records that no
        coin decided about.
        """
        from recondite.attacks.outcome import Membership, Outcome

        records = victim.records
        if records.members is None or records.others is None:
            raise ValueError(
                f"attack {self.name} needs records that coins put into the training set or left "
                "out, which this victim has not"
            )
        result = self.infer(
            victim.model,
            records.members,
            records.others,
            make_model=victim.fresh,
            population=records.test,
            known=records.rest,
            size=len(records.training),
            recipe=victim.recipe if victim.trainer is None else victim.trainer,
            inclusion="coin",
            seed=victim.seed,
            progress=victim.told(self.name),
        )
        delta = float(victim.account.delta or 1.0 / len(records.training))
        known: tuple[str, ...] = ()
        if records.rest is not None and Knowledge.SHADOW_DATA in self.needs:
            known = (
                f"reference models saw held-out records and {len(records.rest)} training records "
                "that no coin decided about: the attacker of a proof knows them",
            )
        members, others = result.scores_members.size, result.scores_nonmembers.size
        coins = f"{members} of {members + others} records were put into"
        return Outcome(
            membership=Membership(result, delta, _CONFIDENCE),
            claims=_claims(victim, result, delta),
            notes=(
                *result.notes,
                *known,
                f"{coins} the training set by fair coins, for the membership attack",
            ),
            seconds=result.seconds,
        )

    @abstractmethod
    def judge(self, case: Case) -> Judgement:
        """Scores the records of a case; higher is more like a member."""

    def infer(
        self,
        model: nn.Module,
        members: Records,
        nonmembers: Records,
        *,
        loss_fn: LossFunction | None = None,
        make_model: Callable[[], nn.Module] | None = None,
        population: Records | None = None,
        known: Records | None = None,
        size: int | None = None,
        recipe: TrainingConfig | Trainer | None = None,
        references: References | None = None,
        inclusion: str = GIVEN,
        seed: int | None = None,
        progress: Callable[[AttackProgress], None] | None = None,
    ) -> MembershipResult:
        """Scores members and non-members of a model's training set.

        The model is used in evaluation mode and left as it was. The attack never reads which list
        a record came from, except for the known ones of the white-box attack. Deterministic under
        a seed on one machine.

        Args:
          model: The victim: images to logits. The attack runs on its device.
          members: Records it was trained on: an ``ImageSet`` or (images, labels), in the scale of
            pixels the model was trained with.
          nonmembers: Records of the same kind that it was not trained on. If they are of another
            kind, the attack tells kinds apart, not membership.
          loss_fn: Loss of (logits, labels) on a batch; by default cross-entropy.
          make_model: Returns a new, untrained model of the victim's kind.
          population: Further records of that kind, in none of the two lists.
          known: Further records that the model was trained on, in none of the lists: references
            are trained on them too. An attacker who knows them is the one that ε speaks of.
          size: How many records the model was trained on: references get as many, where there are
            so many. None for half of what there is.
          recipe: How the victim was trained, for the references: a :class:`TrainingConfig` without
            a defence, or your own ``train(model, images, labels, seed)`` with the victim's defence.
          references: References of an earlier call, to use again instead of training.
          inclusion: ``"coin"`` only if each record was put into the training set by its own fair
            coin: :meth:`MembershipResult.epsilon_lower` is then a bound.
          seed: None draws one; the result says which.
          progress: Called now and then with a :class:`Progress` (step, steps, loss) of training.

        Raises:
          ValueError: In one line, for what is missing or cannot be used.
        """
        start = time.perf_counter()
        _validate.choice("inclusion", inclusion, INCLUSIONS)
        seed = secrets.randbelow(2**31) if seed is None else _validate.at_least("seed", seed, 0)
        ours, others = records_of("members", members), records_of("nonmembers", nonmembers)
        if ours[0].shape[1:] != others[0].shape[1:]:
            raise ValueError(
                "members and nonmembers must have images of one shape, got "
                f"{tuple(ours[0].shape[1:])} and {tuple(others[0].shape[1:])}"
            )
        case = Case(
            model=model,
            images=torch.cat([ours[0], others[0].to(ours[0])]),
            labels=torch.cat([ours[1], others[1].to(ours[1])]),
            members=len(ours[0]),
            loss_fn=loss_fn,
            make_model=make_model,
            population=None if population is None else records_of("population", population, 4),
            known=None if known is None else records_of("known", known, 1),
            size=None if size is None else _validate.at_least("size", size, 2),
            recipe=Recipe() if recipe is None else recipe,
            references=references,
            seed=seed,
            progress=progress,
        )
        check_labels("members and nonmembers", case.logits, case.labels)
        found = self.judge(case)
        return MembershipResult(
            attack=self.name,
            scores_members=found.members,
            scores_nonmembers=found.nonmembers,
            inclusion=inclusion,
            judged_members=found.judged_members,
            judged_nonmembers=found.judged_nonmembers,
            seed=seed,
            seconds=time.perf_counter() - start,
            notes=found.notes,
        )


def _claims(victim: Victim, result: MembershipResult, delta: float) -> tuple[Claim, ...]:
    """ε of the run beside the attack's bound, where both compare the same data sets."""
    from recondite.attacks.outcome import Claim

    # The attack speaks of a record, label included; a channel's ε leaves labels out.
    relation = victim.account.neighbouring
    if relation is not None and (victim.defence.noisy_records or relation != _ADD_OR_REMOVE):
        return ()
    lower = result.epsilon_lower(delta, _CONFIDENCE)
    if not lower.holds:
        return ()
    promised = victim.account.epsilon
    return (
        Claim(
            "epsilon",
            float("inf") if promised is None else promised,
            lower.epsilon,
            "membership attack",
            "the run",
            lower.confidence,
            lower.delta,
        ),
    )
