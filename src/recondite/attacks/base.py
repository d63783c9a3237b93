"""What an attack is: what it must know, what it threatens, and ``evaluate(victim) → Outcome``.

A package adds its own through the entry-point group ``recondite.attacks``, whose members are
subclasses of :class:`Attack`; commands, studies and reports then know it by its name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from recondite.attacks.knowledge import Knowledge

if TYPE_CHECKING:
    from recondite.attacks.outcome import Outcome
    from recondite.attacks.victim import Victim

__all__ = ["THREATENED", "Asked", "Attack", "Available", "DefenceFacts", "Threat"]

Threat = Literal["update", "training", "model"]
THREATENED: tuple[Threat, ...] = ("update", "training", "model")


@dataclass(frozen=True)
class Asked:
    """How a study wants a victim attacked: what is no setting of the attack itself.

    Attributes:
      images: Victims of an attack that rebuilds records.
      batch_size: Records behind one gradient.
      victim: Whether gradients are of the trained or of the freshly initialised model.
      labels: Whether the attacker is told the labels.
      records: Members, and about as many others, of a membership attack: twice as many training
        records are put in or left out by coins.
      threat: The attacker it must be possible for.
    """

    images: int = 8
    batch_size: int = 1
    victim: Literal["trained", "untrained"] = "untrained"
    labels: bool = True
    records: int = 300
    threat: str | None = None


@dataclass(frozen=True)
class Available:
    """What a study has: an attack says before any training where that is too little.

    Attributes:
      data: The data set's name.
      records: Training records.
      test_records: Held-out records.
      shape: (c, h, w) of a record.
    """

    data: str
    records: int
    test_records: int
    shape: tuple[int, ...]


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
      wants: Which defences it needs, for the one line that says that a study has none; empty where
        a study without one is nothing to mention.
    """

    name: ClassVar[str]
    title: ClassVar[str] = ""
    needs: ClassVar[frozenset[Knowledge]]
    threats: ClassVar[frozenset[Threat]]
    reads: ClassVar[tuple[str, ...]] = ("threat",)
    wants: ClassVar[str] = ""

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

    def trains(self, asked: Asked) -> bool:
        """Whether it attacks a trained model; where not, a single attack trains nothing."""
        del asked
        return True

    def misfits(self, asked: Asked, there: Available) -> Iterator[tuple[str, str]]:
        """What a study asks for and has not got: the key, and what is wrong with it."""
        del asked, there
        return iter(())

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
        return self._evaluate(victim)

    @abstractmethod
    def _evaluate(self, victim: Victim) -> Outcome:
        """Attacks a victim that offers everything in ``needs``."""


def asked_fields() -> tuple[str, ...]:
    """The keys that a study may give beside an attack's own settings."""
    return tuple(field.name for field in fields(Asked))
