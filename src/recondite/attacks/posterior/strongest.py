"""The portfolio: every attack that applies, within a budget; the strongest counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import nn

from recondite import _validate
from recondite.attacks.base import Attack, AttackRequest, Available, Threat
from recondite.attacks.gradient.analytic import Analytic
from recondite.attacks.gradient.inverting import InvertingGradients
from recondite.attacks.identification.replay import TOGETHER
from recondite.attacks.knowledge import Knowledge
from recondite.attacks.posterior.channel import ChannelPosterior
from recondite.attacks.posterior.from_file import likelihood, site_of_leak
from recondite.attacks.posterior.gauss_newton import REHEARSED, GaussNewton
from recondite.attacks.posterior.generated import DRAWS
from recondite.attacks.posterior.importance import ImportanceWeights
from recondite.attacks.released_record import ReleasedRecord
from recondite.models import count_parameters

if TYPE_CHECKING:
    from recondite.attacks.gradient.base import Reconstruction
    from recondite.attacks.leak import Leak
    from recondite.attacks.outcome import Blind, Outcome
    from recondite.attacks.victim import Victim
    from recondite.records import Records

__all__ = ["Strongest", "exposure", "share_gained"]

# Seconds on one core, measured on digits and rounded up. They turn a budget into work before
# anything runs, so that a row depends on its task and not on how busy the machine was.
_FIXED = 0.7  # of any attack: scores, blind guesses
_ROW = 5e-8  # a parameter of a public record's gradient, tried for all victims
_COLUMN = 3e-8  # a parameter of a principal component's derivative, for a victim and a step
_REPLAY = 4e-10  # a parameter of a candidate's gradient in a step of a run that is replayed
_SITE = 3e-8  # the same, where a record's steps of a run are linearised together
_DESCENT = 2e-8  # a parameter of a victim's record, for an iteration of gradient matching
_RUN = GaussNewton(steps=4, rank=100)  # a run tells more than one release: more steps
_SUBTRACTED = (
    "without noise, who knows the others' records subtracts them: attacks on the gradient of one "
    "record alone are attacks on the training too"
)
_COPIES = (
    "attacks on gradients: behind noise on records a gradient is of the noisy copy, which is seen"
)
_MOST, _LEAST = 1_000, 50  # iterations of gradient matching


@dataclass(frozen=True)
class Strongest(Attack):
    """Runs the attacks one after another and reports the one that gained most.

    Of an update: gradient matching, the analytic attack, importance weights, Gauss–Newton, and
    behind noise on records the noisy copy and its posterior: whichever apply. Of a whole training:
    importance weights over all its releases, of training records, and where it is known in which
    steps they took part Gauss–Newton; without noise on gradients also the attacks on an update,
    since whoever knows the others' records subtracts them and is left with that; behind noise on
    records, as many noisy copies as the training makes. Reported is the maximum over attacks, never
    an average: the largest share of the way from the blind guess to an exact copy, by any metric.
    Its name is in the notes, with what every other one gained. The maximum is over a few attacks on
    the same victims, so that chance alone lifts it a little above any one of them, which errs
    towards reporting an attack.

    Attributes:
      budget: Seconds a defence, on one core. A fixed table of costs turns it into iterations and
        into which attacks run: the outcome depends on the task alone, never on the clock. The
        replay of a whole training comes out of it, and is run whatever it costs: nothing else
        speaks of it. ``seconds`` of a row are what the attack really took.
      releases: Releases of the same record that the posterior attackers pool.
      prior: A generative prior for the posterior attackers of an update.
      draws: Of it, at most.
    """

    name: ClassVar[str] = "strongest"
    title: ClassVar[str] = "the strongest of the attacks that apply"
    needs: ClassVar[frozenset[Knowledge]] = frozenset(
        {Knowledge.MODEL, Knowledge.GRADIENTS, Knowledge.DEFENCE, Knowledge.PUBLIC_DATA}
    )
    threats: ClassVar[frozenset[Threat]] = frozenset({"update", "training"})
    reads: ClassVar[tuple[str, ...]] = ImportanceWeights.reads
    from_transcript: ClassVar[bool] = True
    takes: ClassVar[tuple[str, ...]] = ("images",)
    takes_gradients: ClassVar[bool] = True
    paper: ClassVar[str] = "this system"

    budget: float = 60.0
    releases: int = 1
    prior: str | None = None
    draws: int = DRAWS

    def __post_init__(self) -> None:
        _validate.positive("budget", self.budget)
        _validate.at_least("draws", self.draws, 1)
        _validate.at_least("releases", self.releases, 1)

    def trains(self, asked: AttackRequest) -> bool:
        """Where the training or the gradients of the trained model are asked for."""
        return self.replays(asked) or asked.victim == "trained"

    def misfits(self, asked: AttackRequest, there: Available) -> Iterator[tuple[str, str]]:
        """Held-out records are attacked: some must stay public."""
        wanted = asked.images * asked.batch_size
        if wanted + 3 > there.test_records:
            has = f"{there.data} has {there.test_records}"
            yield "images", f"must leave three public records or more: {has} held out"

    def _evaluate(self, victim: Victim) -> Outcome:
        members, skipped = self.planned(victim)
        subtracted = _SUBTRACTED in skipped
        done: list[tuple[str, Outcome]] = []
        for number, member in enumerate(members):
            begun, width = number / len(members), 1.0 / len(members)

            def told(stage: str, share: float, begun: float = begun, width: float = width) -> None:
                victim.progress(stage, begun + width * share)

            try:
                # Each judges by itself what it must know; one that does not apply says why.
                exposed = self.exposed(victim.asked)
                threat = exposed if exposed in member.threats else None
                asked = replace(victim.asked, threat=threat)
                alone = subtracted and not member.replays(asked)
                attacked = _subtracted(victim) if alone else victim
                found = member.evaluate(replace(attacked, asked=asked, progress=told))
            except ValueError as error:
                skipped.append(f"{member.name} did not run: {error}")
                continue
            done.append((member.name, found if attacked is victim else _of_training(found)))
        if not done:
            raise ValueError(f"no attack applies: {'; '.join(skipped)}")
        return self._reported(done, skipped)

    def rebuild(self, leak: Leak) -> Reconstruction:
        """The strongest of the attacks that can be given gradients of one record alone.

        With originals it is the one that gained most over the blind guess. Without, only those
        run that use the defence, and reported is the one whose images make the releases likeliest.
        """
        public = leak.alone(self.name)
        site, _ = site_of_leak(leak)
        asked = AttackRequest(images=leak.victims, labels=leak.labels is not None)
        noisy = bool(leak.defence.mechanism.parameter)
        members, skipped = self._planned(asked, leak.model, public, noisy=noisy)
        blind = leak.originals is not None
        kinds = [one for one in members if blind or not noisy or Knowledge.DEFENCE in one.needs]
        done: list[tuple[float, str, Reconstruction]] = []
        for member in kinds:
            knows = Knowledge.DEFENCE in member.needs
            try:
                found = member.rebuild(leak if knows else leak.undefended())
            except ValueError as error:
                skipped.append(f"{member.name} did not run: {error}")
                continue
            done.append(
                (
                    _gained(leak, found) if blind else likelihood(leak, site, found),
                    member.name,
                    found,
                )
            )
        if not done:
            raise ValueError(f"no attack applies: {'; '.join(skipped)}")
        done.sort(key=lambda one: -one[0])
        how = "share of the way from a blind guess to a copy" if blind else "log-likelihood"
        each = ", ".join(f"{who} {value:+.2f}" for value, who, _ in done)
        best = done[0][2]
        return replace(
            best,
            notes=(f"strongest: {done[0][1]}; {how}: {each}", *best.notes, *skipped),
            steps=sum(found.steps for _, _, found in done),
        )

    def planned(self, victim: Victim) -> tuple[list[Attack], list[str]]:
        """The attacks that the budget pays for, with their iterations, and what it left out."""
        return self._planned(
            victim.asked,
            victim.model,
            victim.records.test if victim.records.public is None else victim.records.public,
            noisy=bool(victim.defence.mechanism.parameter),
            noisy_records=victim.defence.noisy_records,
            passes=1 if victim.recipe is None else victim.recipe.epochs,
            replay=_replayed(victim),
        )

    def _planned(
        self,
        asked: AttackRequest,
        model: nn.Module,
        public: Records,
        *,
        noisy: bool,
        noisy_records: bool = False,
        passes: int = 1,
        replay: float = 0.0,
    ) -> tuple[list[Attack], list[str]]:
        parameters = count_parameters(model)
        left, members, skipped = self.budget, list[Attack](), list[str]()

        def pay(attack: Attack, seconds: float) -> bool:
            nonlocal left
            if seconds > left:
                skipped.append(
                    f"{attack.name} needs about {seconds:.0f} s of a budget of {self.budget:g}"
                )
                return False
            left -= seconds
            members.append(attack)
            return True

        def match() -> None:
            step = _DESCENT * asked.images * asked.batch_size * parameters
            steps = min(_MOST, int(max(0.0, left - _FIXED) / step))
            if steps >= _LEAST:
                pay(InvertingGradients(steps=steps), _FIXED + steps * step)
            else:
                skipped.append(f"inverting-gradients: {_LEAST} iterations are beyond the budget")

        if self.replays(asked) and not noisy_records:
            members.append(ImportanceWeights())
            left -= replay
            if left <= 0:
                skipped.append(f"the replay alone takes about {replay:.0f} s of {self.budget:g}")
            if noisy:
                skipped += self._climb(asked, model, passes, pay)
                return members, skipped
            skipped.append(_SUBTRACTED)
        if noisy_records:
            pay(ChannelPosterior(releases=self.releases), 2 * _FIXED)
            pay(ReleasedRecord(), _FIXED)
            skipped.append(_COPIES)
            return members, skipped
        pay(Analytic(), _FIXED)
        if not noisy:  # nothing beats an exact match of an exact gradient
            match()
        if asked.batch_size == 1 and not self.replays(asked):
            held = len(public) + (0 if self.prior is None else self.draws)
            rows = _FIXED + _ROW * held * parameters
            pay(ImportanceWeights(self.releases, self.prior, self.draws), rows)
            climb = GaussNewton(self.releases, prior=self.prior, draws=self.draws)
            rank = min(climb.rank, held, math.prod(public.shape))
            people = asked.images + REHEARSED
            work = people * climb.steps * (1 if asked.labels else 3) * rank * parameters
            pay(climb, rows + _COLUMN * work)
        if noisy:
            match()
        return members, skipped

    def _climb(
        self,
        asked: AttackRequest,
        model: nn.Module,
        passes: int,
        pay: Callable[[Attack, float], bool],
    ) -> list[str]:
        """Pays for the steps of a run to be linearised; says where that does not apply."""
        if asked.participation != "known":
            return [f"{_RUN.name} of a training needs participation known"]
        work = (asked.images + REHEARSED) * _RUN.steps * _RUN.rank * passes
        pay(_RUN, _FIXED + _SITE * work * count_parameters(model))
        return []

    def _reported(self, done: list[tuple[str, Outcome]], skipped: list[str]) -> Outcome:
        ranked = sorted(done, key=lambda one: -exposure(one[1]))
        name, best = ranked[0]
        assert best.rebuilt is not None
        gained = ", ".join(f"{who} {exposure(found):+.2f}" for who, found in ranked)
        figures = {f"gain_{who}": exposure(found) for who, found in done}
        floors = {floor.key: floor for _, found in done for floor in found.floors}
        notes = (
            f"strongest: {name}; share of the way from a blind guess to a copy: {gained}",
            *best.notes,
            *skipped,
        )
        return replace(
            best,
            rebuilt=replace(best.rebuilt, figures={**best.rebuilt.figures, **figures}),
            floors=tuple(floors.values()),
            claims=tuple(claim for _, found in done for claim in found.claims),
            notes=notes,
            iterations=sum(found.iterations for _, found in done),
            interrupted=any(found.interrupted for _, found in done),
        )


def _replayed(victim: Victim) -> float:
    """Seconds that a replay of the training takes, for the games of some targets and the public."""
    if victim.transcript is None:
        return 0.0
    public = victim.records.test if victim.records.public is None else victim.records.public
    candidates = len(public) + max(TOGETHER, victim.asked.images)
    steps = len(victim.transcript.steps)
    return _REPLAY * steps * candidates * count_parameters(victim.model)


def _subtracted(victim: Victim) -> Victim:
    """The victim with the training records that a replay attacks as those to attack.

    Without noise their own gradients are what is left once everybody else is subtracted, so every
    member rebuilds the same people. Held-out records stay public. As it was where the training
    has too few.
    """
    from recondite.attacks.identification.replay import targets_of
    from recondite.attacks.scoring import public_of

    public, wanted = public_of(victim, torch.tensor([], dtype=torch.long)), victim.asked.images
    assert public is not None  # none of them is attacked
    chosen = targets_of(victim, public)[: wanted * victim.asked.batch_size]
    if len(chosen) < wanted * victim.asked.batch_size:
        return victim
    training = victim.records.training.subset(torch.tensor(chosen))
    return replace(victim, records=replace(victim.records, test=training, public=public))


def _of_training(found: Outcome) -> Outcome:
    rebuilt = found.rebuilt and replace(found.rebuilt, images_from="training records")
    how = "identification among the attacked training records"
    return replace(found, rebuilt=rebuilt, claims=tuple(replace(c, how=how) for c in found.claims))


def exposure(found: Outcome) -> float:
    """Largest share of the way from the blind guess to an exact copy, by any metric; −∞ for none.

    0 is the blind guess itself, 1 a copy; below 0 a blind guess does better.
    """
    made = found.rebuilt
    return -math.inf if made is None or made.blind is None else share_gained(made.blind)


def _gained(leak: Leak, found: Reconstruction) -> float:
    """Share of the way from the blind guess to an exact copy."""
    blind = leak.scores(found.images)[2]
    assert blind is not None
    return share_gained(blind)


def share_gained(blind: Blind) -> float:
    """What :func:`exposure` is, of what was gained over a blind guess."""
    shares = []
    for key, gain in blind.gains.items():
        mean = sum(blind.scores[key]) / len(blind.scores[key])
        room: Callable[[float], float] = _room(gain.metric.gain, gain.metric.perfect)
        shares.append(gain.value / room(mean))
    return max(shares, default=-math.inf)


def _room(kind: str, perfect: float) -> Callable[[float], float]:
    """How far a blind guess is from a copy, in units of the gain: a share is so already."""
    if kind == "share":
        return lambda _: 1.0
    return lambda mean: max(abs(perfect - mean), 1e-9)
