"""What an attack is: what it must know, what it threatens, and ``evaluate(victim) → Outcome``.

A package adds its own through the entry-point group ``recondite.attacks``, whose members are
subclasses of :class:`Attack`; commands, studies and reports then know it by its name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from recondite.attacks.knowledge import THREATS, Knowledge

if TYPE_CHECKING:
    from torch import nn

    from recondite.attacks.leak import Leak
    from recondite.attacks.outcome import Outcome
    from recondite.attacks.reconstruction import Reconstruction
    from recondite.attacks.victim import Victim

__all__ = ["THREATENED", "Attack", "AttackRequest", "Available", "DefenceFacts", "Threat"]

Threat = Literal["update", "training", "model"]
THREATENED: tuple[Threat, ...] = ("update", "training", "model")


@dataclass(frozen=True)
class AttackRequest:
    """How a study wants a victim attacked: what is no setting of the attack itself.

    Attributes:
      images: Victims of an attack that rebuilds records.
      batch_size: Records behind one gradient.
      victim: Whether gradients are of the trained or of the freshly initialised model.
      labels: Whether the attacker is told the labels.
      records: Members, and about as many others, of a membership attack: twice as many training
        records are put in or left out by coins.
      threat: What is released to the attacker: ``update``, ``training`` or ``model``; None for what
        the attack answers first. An attacker's name (``server``, …), as in 0.1, is only checked
        for what they must know.
      participation: Whether the attacker is told in which steps a record took part.
    """

    images: int = 8
    batch_size: int = 1
    victim: Literal["trained", "untrained"] = "untrained"
    labels: bool = True
    records: int = 300
    threat: str | None = None
    participation: Literal["secret", "known"] = "secret"


@dataclass(frozen=True)
class Available:
    """What a study has: an attack says before any training where that is too little.

    Attributes:
      data: The data set's name.
      records: Training records.
      test_records: Held-out records.
      shape: (c, h, w) of an image; of a record otherwise.
      kind: What the records are, in the plural; empty where nobody says.
      classes: How many there are; 0 where amounts are predicted.
      model: Makes the network that is attacked; None where nobody says.
    """

    data: str
    records: int
    test_records: int
    shape: tuple[int, ...]
    kind: str = ""
    classes: int = 2
    model: Callable[[], nn.Module] | None = None


@dataclass(frozen=True)
class DefenceFacts:
    """What an attack may ask of a defence before it says whether there is anything to attack.

    Attributes:
      name: The defence's name.
      private: Whether it promises anything.
      on_records: Whether it changes records, before any training.
      on_gradients: Whether it is noise on gradients.
      first: Whether this is the study's first seed.
    """

    name: str
    private: bool
    on_records: bool
    on_gradients: bool
    first: bool = True


class Attack(ABC):
    """An attack, as a frozen dataclass of its settings.

    Attributes:
      name: Its name in commands and studies.
      title: What it does, in a few words; empty where the name says it.
      needs: What the attacker must know. A victim that does not offer it is refused.
      threats: What it shows to be exposed: an ``update`` (the gradient or weights of one step), the
        ``training`` (everything a run releases), or the ``model`` (the trained one alone).
      reads: The fields of :class:`Asked` that a study may give for it.
      from_transcript: Whether it answers threat ``training`` from the transcript of the run.
      wants: Which defences it needs, for the one line that says that a study has none; empty where
        a study without one is nothing to mention.
      takes: The kinds of records that it can attack, as :attr:`~recondite.records.Records.kind`
        names them; empty for any.
      amounts: Whether it can attack a model that predicts amounts, not classes.
      takes_gradients: Whether it can be given gradients that somebody else's training released.
    """

    name: ClassVar[str]
    title: ClassVar[str] = ""
    needs: ClassVar[frozenset[Knowledge]]
    threats: ClassVar[frozenset[Threat]]
    reads: ClassVar[tuple[str, ...]] = ("threat",)
    from_transcript: ClassVar[bool] = False
    wants: ClassVar[str] = ""
    takes: ClassVar[tuple[str, ...]] = ()
    amounts: ClassVar[bool] = False
    takes_gradients: ClassVar[bool] = False

    @classmethod
    def setting_names(cls) -> tuple[str, ...]:
        """The names of its settings."""
        made: Any = cls  # the subclasses are dataclasses, this one is not
        return tuple(field.name for field in fields(made) if field.init)

    @classmethod
    def applies(cls, defence: DefenceFacts) -> bool:
        """Whether there is anything to attack behind this defence."""
        del defence
        return True

    @classmethod
    def exposed(cls, asked: AttackRequest) -> Threat:
        """What its rows show to be exposed: the threat that is asked for, or its first one.

        Raises:
          ValueError: In one line, where the attack says nothing of the threat asked for.
        """
        answered = [threat for threat in THREATENED if threat in cls.threats]
        if asked.threat not in THREATENED:
            return answered[0]
        if asked.threat not in answered:
            raise ValueError(
                f"attack {cls.name} says nothing of threat {asked.threat}: choose threat "
                f"{' or '.join(answered)}"
            )
        return asked.threat

    def check_threat(self, asked: AttackRequest) -> None:
        """Refuses, in one line, a threat that it says nothing of or that nobody knows."""
        if asked.threat is None or asked.threat in THREATENED:
            self.exposed(asked)
        elif asked.threat in THREATS:
            THREATS[asked.threat].check(self)
        else:
            raise ValueError(
                f"threat must be {', '.join(THREATENED[:-1])} or {THREATENED[-1]}, got "
                f"{asked.threat!r}"
            )

    def trains(self, asked: AttackRequest) -> bool:
        """Whether it attacks a trained model; where not, a single attack trains nothing."""
        del asked
        return True

    def replays(self, asked: AttackRequest) -> bool:
        """Whether it needs the transcript of the training, which is recorded for it then."""
        return self.from_transcript and self.exposed(asked) == "training"

    def misfits(self, asked: AttackRequest, there: Available) -> Iterator[tuple[str, str]]:
        """What a study asks for and has not got: the key, and what is wrong with it."""
        del asked, there
        return iter(())

    def refusal(self, there: Available) -> str | None:
        """Why it can attack nothing of this kind, in one line; None where it can.

        Said before anything is trained, and again by ``evaluate``.
        """
        if self.takes and there.kind and there.kind not in self.takes:
            return f"takes {' or '.join(self.takes)}: {there.data} holds {there.kind}"
        if not there.classes and not self.amounts:
            if there.kind == "texts":
                return f"needs classes: the texts of {there.data} have none"
            return f"needs classes: the target of {there.data} holds amounts"
        try:
            if there.model is not None:
                self.check_model(there.model(), there.shape)
        except ValueError as error:
            return str(error).removeprefix(f"{self.name} ")
        return None

    def check_model(self, model: nn.Module, shape: tuple[int, ...]) -> None:
        """Refuses, in one line, a model that it cannot attack; any will do by default."""
        del model, shape

    def evaluate(self, victim: Victim) -> Outcome:
        """Attacks a victim.

        Given ``victim.seed`` the outcome is the same every time, whatever ran before; the victim's
        weights are left as they are. Scores are of this victim and bound nothing: only the
        outcome's claims state bounds, each with its confidence.

        Raises:
          ValueError: In one line, where the victim does not offer what the attack needs.
        """
        missing = sorted(item.value for item in self.needs - victim.offers)
        if missing:
            raise ValueError(
                f"attack {self.name} needs {', '.join(missing)}, which this victim does not offer: "
                "choose another attack"
            )
        test = victim.records.test
        there = Available(
            test.name, len(victim.records.training), len(test), test.shape, test.kind,
            len(test.classes),
        )  # fmt: skip
        refused = self.refusal(there)
        if refused is not None:
            raise ValueError(f"attack {self.name} {refused}")
        exposed = self.exposed(victim.asked)
        return replace(self._evaluate(victim), threat=exposed)

    def rebuild(self, leak: Leak) -> Reconstruction:
        """Rebuilds records from gradients that leaked; scores nothing.

        Raises:
          ValueError: In one line, where it takes no gradients, or not these. A defence that it
            would have to ignore is refused.
        """
        del leak
        raise ValueError(f"attack {self.name} takes no gradients: choose another")

    @abstractmethod
    def _evaluate(self, victim: Victim) -> Outcome:
        """Attacks a victim that offers everything in ``needs``."""


def asked_fields() -> tuple[str, ...]:
    """The keys that a study may give beside an attack's own settings."""
    return tuple(field.name for field in fields(AttackRequest))
