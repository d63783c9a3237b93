"""What an attack must know, and what an attacker can know."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from recondite._validate import choice

__all__ = ["THREATS", "Knowledge", "ThreatModel", "threat"]


class Knowledge(str, Enum):
    """One thing that an attacker may hold."""

    MODEL = "model weights"
    GRADIENTS = "gradients"
    UPDATES = "weights before and after"
    LABELS = "labels"
    BATCH_STATISTICS = "batch-norm statistics"
    MODE = "training or evaluation mode"
    DEFENCE = "the defence and its parameters"
    PUBLIC_DATA = "public data of the same kind"
    SHADOW_DATA = "data to train shadow models"
    MEMBERS = "part of the training set"
    RECORDS = "the records in question"
    NOISY_RECORDS = "records as a defence lets them through"
    CHOICE = "the choice of the weights that a client trains"


@dataclass(frozen=True)
class ThreatModel:
    """An attacker: a name, a line about them, and what they hold."""

    name: str
    title: str
    grants: frozenset[Knowledge]

    def check(self, attack: Any) -> None:
        """Refuses, in one line, an attack that must know what this attacker cannot.

        Args:
          attack: Anything with ``name`` and ``needs``.
        """
        missing = sorted(item.value for item in attack.needs - self.grants)
        if missing:
            able = [name for name, other in THREATS.items() if attack.needs <= other.grants]
            remedy = f"choose threat {' or '.join(able)}" if able else "choose another attack"
            raise ValueError(
                f"attack {attack.name} needs {', '.join(missing)}, which a {self.title} "
                f"does not have: {remedy}"
            )


_EVERYBODY = {Knowledge.PUBLIC_DATA, Knowledge.SHADOW_DATA, Knowledge.RECORDS, Knowledge.DEFENCE}
_SERVER = frozenset(
    {
        Knowledge.MODEL,
        Knowledge.GRADIENTS,
        Knowledge.UPDATES,
        Knowledge.BATCH_STATISTICS,
        Knowledge.MODE,
        Knowledge.LABELS,
        *_EVERYBODY,
    }
)
_ALL = (
    ThreatModel("server", "honest-but-curious server", _SERVER),
    ThreatModel("active-server", "server that crafts weights", _SERVER | {Knowledge.CHOICE}),
    ThreatModel(
        "eavesdropper",
        "eavesdropper on the network",
        frozenset({Knowledge.MODEL, Knowledge.GRADIENTS, Knowledge.UPDATES, *_EVERYBODY}),
    ),
    ThreatModel("model-user", "model user", frozenset({Knowledge.MODEL, *_EVERYBODY})),
    ThreatModel("insider", "insider", frozenset(Knowledge)),
)
THREATS = {model.name: model for model in _ALL}


def threat(name: str) -> ThreatModel:
    """The threat model of this name."""
    return THREATS[choice("threat", name, tuple(THREATS))]
