"""Who is attacked: a model, its records and its defence, loaded once for all attacks on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn

from recondite.attacks.base import AttackRequest
from recondite.attacks.knowledge import Knowledge
from recondite.gradients.leaked import configured_for, leaked_gradients
from recondite.mechanisms import Mechanism, NoNoise, Observed
from recondite.records import Records

if TYPE_CHECKING:
    from recondite.accounting.auditing import AuditResult
    from recondite.attacks.transcript import Transcript
    from recondite.channels.base import Channel
    from recondite.configuration import TrainingConfig

__all__ = ["Accounted", "Audit", "Defended", "RecordSets", "Victim"]


@dataclass(frozen=True)
class RecordSets:
    """The records of a victim.

    Attributes:
      training: What it was trained on.
      test: Held-out records: those to attack, and public ones of the same kind.
      whole: The training records before coins left some out; None where none were.
      members: Records whose coin said "in"; None without coins.
      others: Records whose coin said "out"; None without coins.
      rest: Training records that no coin decided about; None without coins, or where there are
        none.
      public: Records of the same kind that an attacker has, none of them attacked; None for the
        held-out ones that are not.
    """

    training: Records
    test: Records
    whole: Records | None = None
    members: Records | None = None
    others: Records | None = None
    rest: Records | None = None
    public: Records | None = None

    @property
    def every(self) -> Records:
        """All training records, whatever the coins said."""
        return self.training if self.whole is None else self.whole


def _unchanged(images: Tensor) -> Tensor:
    return images


def _no_channel() -> Channel | None:
    return None


@dataclass(frozen=True, eq=False)
class Defended:
    """The defence, as an attacker knows it who knows everything but the noise that was drawn.

    Attributes:
      mechanism: What is done to gradients.
      clipping: How each record's gradient is bounded.
      max_grad_norm: The bound.
      noisy_records: Whether a channel makes records noisy before any training.
      fresh_noise: Whether it does so anew at every use of a record.
      seen: Records as training sees them: (…, c, h, w) to the same shape. Draws the same noise for
        the same call of one victim.
      looks: Noisy copies of one record, each with fresh noise, that a whole training makes.
      fitted: The channel, fitted on its first use and kept; None without one.
    """

    mechanism: Mechanism = field(default_factory=NoNoise)
    clipping: str = "none"
    max_grad_norm: float = 1.0
    noisy_records: bool = False
    fresh_noise: bool = False
    seen: Callable[[Tensor], Tensor] = _unchanged
    looks: int = 1
    fitted: Callable[[], Channel | None] = _no_channel

    @property
    def channel(self) -> Channel | None:
        """The fitted channel; None without one."""
        return self.fitted()


@dataclass(frozen=True)
class Accounted:
    """What was promised of the run that is attacked; every number is an upper bound.

    Attributes:
      epsilon: ε of the run at ``delta``; None where it has none, which promises nothing.
      delta: Its δ.
      neighbouring: Which data sets ε compares; None where nothing was accounted.
      log_bayes_capacity_release: Of one release of a channel, in nats; None where not defined.
      mutual_information_release: The same.
    """

    epsilon: float | None = None
    delta: float | None = None
    neighbouring: str | None = None
    log_bayes_capacity_release: float | None = None
    mutual_information_release: float | None = None


class Audit(Protocol):
    """What an audit of a training engine found."""

    @property
    def claim(self) -> float:
        """ε that the engine claims for the audited run."""

    @property
    def lower(self) -> float:
        """Lower bound on the true one."""

    @property
    def result(self) -> AuditResult:
        """The test that shows it."""


def _silent(stage: str, done: float) -> None:
    del stage, done


@dataclass(frozen=True, eq=False)
class Victim:
    """A trained model and everything an attack may be given.

    Attacks read it and leave it as it is. What an attacker knows of it is ``offers``: an attack
    whose ``needs`` go beyond that is refused.

    Attributes:
      model: The model, trained, in evaluation mode.
      initial: Makes the model as it was before its training, in evaluation mode.
      fresh: Makes an untrained model of the same kind, drawn from torch's own generator.
      records: Its records.
      defence: Its defence.
      account: What was promised of its training.
      recipe: How it was trained, its defence left out; None where nobody says.
      trainer: Trains a model in place on other records as this one was, its defence with it, for
        reference models: ``trainer(model, features, labels, seed)``. None where ``recipe`` says
        everything.
      audit: Audits the engine that trained it: ``audit(mechanism, seed=…, **options)``; None where
        there is no engine.
      asked: What is asked of this attack.
      transcript: What its training released, step by step; None where no attack replays it, it
        would not fit into memory, or noise is on records.
      seed: Everything that an attack draws follows from it.
      shown: Whether images that are near its records may be shown.
      offers: What an attacker knows. Updates of several local steps are a federation's.
      progress: Told a stage and how much of it is done; a keyboard interrupt may come from it.
    """

    model: nn.Module
    initial: Callable[[], nn.Module]
    fresh: Callable[[], nn.Module]
    records: RecordSets
    defence: Defended = field(default_factory=Defended)
    account: Accounted = field(default_factory=Accounted)
    recipe: TrainingConfig | None = None
    trainer: Callable[[nn.Module, Tensor, Tensor, int], Any] | None = None
    audit: Callable[..., Audit] | None = None
    asked: AttackRequest = field(default_factory=AttackRequest)
    transcript: Transcript | None = None
    seed: int = 0
    shown: bool = True
    offers: frozenset[Knowledge] = frozenset(Knowledge) - {Knowledge.UPDATES}
    progress: Callable[[str, float], None] = _silent

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def target(self) -> nn.Module:
        """The model whose gradients leak: the trained one, or as it was before its training."""
        return self.model if self.asked.victim == "trained" else self.initial()

    def leak(self, model: nn.Module, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """What one step on each batch releases, through everything the defence does.

        Noise on gradients is drawn for a batch of this size; a channel's noise is on the records,
        and the gradient is that of the noisy copy.

        Args:
          model: Whose gradients.
          images: (victims, batch, c, h, w), as they are.
          labels: (victims, batch).
        """
        return leaked_gradients(
            model,
            self.defence.seen(images),
            labels,
            self.defence.mechanism,
            clipping=self.defence.clipping,
            max_grad_norm=self.defence.max_grad_norm,
            seed=self.seed,
        )

    def observed(self, model: nn.Module, batch_size: int) -> Observed | None:
        """The defence's law of a release of this model; None without noise on gradients."""
        if not self.defence.mechanism.parameter:
            return None
        return configured_for(
            self.defence.mechanism,
            model,
            batch_size,
            clipping=self.defence.clipping,
            max_grad_norm=self.defence.max_grad_norm,
        )

    def told(self, attack: str) -> Callable[[Any], None]:
        """Reports the steps of an attack of this name as progress."""
        return lambda now: self.progress(attack, now.step / max(now.steps, 1))
