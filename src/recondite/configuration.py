"""One configuration of a training: commands, studies, federations and references share it.

Its fields say what they are in one place: ``recondite train`` and the ``training:`` block of a
study are generated from them (:func:`options`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from recondite import _validate
from recondite.accounting.schedules import SAMPLINGS
from recondite.defences import Defence, RecordNoise
from recondite.mechanisms import Mechanism, NoNoise

if TYPE_CHECKING:
    import torch

__all__ = ["Option", "TrainingConfig", "options", "suited"]

OPTIMIZERS = ("sgd", "adam", "adamw")
CLIPPINGS = ("flat", "per-layer", "automatic", "psac", "scale", "none")
NORMS = ("group", "batch", "none")
# Constants all, so scaling by them reveals nothing: (x - mean)/spread, (x - .5)/.5, x.
PIXELS = ("published", "half", "unit")
_FIXED = {"half": ((0.5,), (0.5,)), "unit": ((0.0,), (1.0,))}
# Mean and standard deviation that others published: constants, so scaling by them reveals nothing.
_PUBLISHED: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "mnist": ((0.1307,), (0.3081,)),
    "mnist-5k": ((0.1307,), (0.3081,)),
    "fashion-mnist": ((0.2860,), (0.3530,)),
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "cifar100": ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
}
_PREPARED = {"mnist": "crop16", "mnist-5k": "crop16", "fashion-mnist": "resize16"}


@dataclass(frozen=True)
class Option:
    """What is said of a field of the configuration, once.

    Attributes:
      help: On the command line.
      flag: There too; the field's name with dashes where empty.
      choices: What it may be.
      least: The smallest value.
      above: What it must be above.
      chosen: Whether the defence decides where nothing is given (:func:`suited`).
      study: Whether the ``training:`` block of a study has it.
      type: Of the field, without None.
      default: Of the field.
    """

    help: str
    flag: str = ""
    choices: tuple[str, ...] = ()
    least: float | None = None
    above: float | None = None
    chosen: bool = False
    study: bool = True
    type: Any = None
    default: Any = None

    def check(self, name: str, value: Any) -> None:
        """Refuses a value in one line."""
        if value is None:
            return
        if self.choices:
            _validate.choice(name, value, self.choices)
        if self.above is not None:
            _validate.positive(name, value)
        if self.least == 0:
            _validate.non_negative(name, value)
        elif self.least is not None:
            _validate.at_least(name, value, int(self.least))


def _option(default: Any, text: str, **more: Any) -> Any:
    return field(default=default, metadata={"option": Option(text, **more)})


@dataclass(frozen=True)
class TrainingConfig:
    """A training run: everything it depends on, checked before anything is loaded.

    Attributes:
      data: A data set's name, a table, texts, a folder of images, ``package.module:function``, or
        what a registered kind of records reads; "" where records are handed over.
      model: A network's name, ``hf:FOLDER`` or ``package.module:function``; "" where it is handed
        over.
      defence: What protects: a mechanism (noise on gradients), a
        :class:`~recondite.defences.RecordNoise` (noise on records; training is then ordinary
        training, without clipping), or ``NoNoise()`` for plain or clip-only training.
      epochs: Passes over the records.
      steps: Stop after so many steps, in the last of as many passes as that takes; None for whole
        epochs.
      records: Train on so many records, evenly spaced, and hold a fifth as many out; None for all.
      batch_size: Expected records in a batch.
      learning_rate: Of the optimizer.
      optimizer: sgd, adam or adamw.
      momentum: Of sgd.
      weight_decay: Of the optimizer (decoupled for adamw).
      clipping: How gradients are bounded.
      max_grad_norm: The bound.
      sampling: How batches are drawn; None for the mechanism's default.
      max_batch_size: Enforced largest batch.
      physical_batch_size: Largest piece that goes through the model at once.
      prepare: crop16, resize32, …; None for the network's own (mlp: 16×16).
      pixels: "published" (the data set's published mean and spread, (x - .5)/.5 where there
        are none), "half" ((x - .5)/.5) or "unit" (in [0, 1]).
      standardise: Scale records by this data's own statistics, which the account does not cover.
      truncate: Cut texts to so many tokens; None refuses those over the model's context.
      norm: Normalisation of our networks.
      adapter: lora:RANK trains adapters of a Transformers model and its head; None trains all.
      weights: A safetensors file to start from.
      seed: Repeats a run, noise included: a simulation.
      device: cpu or cuda.
      secure: Noise and batches from a cryptographic generator (noise on gradients only; that on
        records always is).
    """

    data: str = ""
    model: str = ""
    defence: Mechanism | RecordNoise = field(default_factory=NoNoise)
    epochs: int = _option(3, "Passes over the records.", least=1)
    steps: int | None = _option(None, "Stop after so many steps.", least=1)
    records: int | None = _option(None, "Train on so many records, evenly spaced.", least=1)
    batch_size: int = _option(128, "Expected batch size.", least=1)
    learning_rate: float = _option(0.005, "Learning rate.", flag="--lr", above=0)
    optimizer: str = _option("adamw", "sgd, adam or adamw.", choices=OPTIMIZERS)
    momentum: float = _option(0.0, "Of sgd.", least=0)
    weight_decay: float = _option(0.0, "Of the optimizer.", least=0)
    clipping: str = _option(
        "flat",
        "flat (default), per-layer, automatic, psac, scale, none.",
        choices=CLIPPINGS,
        chosen=True,
    )
    max_grad_norm: float = _option(1.0, "The bound of a record's gradient.", above=0)
    sampling: str | None = _option(
        None,
        "poisson (the default of gaussian, vmf), allocation, fixed-size (of directional) or "
        "shuffled (without noise on gradients).",
        choices=SAMPLINGS,
        chosen=True,
    )
    max_batch_size: int | None = _option(None, "Enforced largest batch.", least=1)
    physical_batch_size: int | None = _option(None, "Largest piece at once.", least=1)
    prepare: str | None = _option(None, "crop16, resize32, …, none.", study=False)
    pixels: str = _option("published", "published, half or unit.", choices=PIXELS)
    standardise: bool = _option(False, "By this data's own statistics: not covered by ε.")
    truncate: int | None = _option(None, "Cut texts to so many tokens.", least=4)
    norm: str = _option("group", "group, batch or none.", choices=NORMS)
    adapter: str | None = _option(None, "lora:RANK, of a Transformers model.")
    weights: str | None = _option(None, "Start from safetensors.")
    seed: int | None = _option(None, "Repeatable: a simulation.", study=False)
    device: str = _option("cpu", "cpu or cuda.")
    secure: bool = _option(False, "Noise from a cryptographic generator: slower.", study=False)

    def __post_init__(self) -> None:
        for name, option in _OPTIONS.items():
            option.check(name, getattr(self, name))
        _validate.device(self.device)
        if self.standardise and self.pixels != "published":
            raise ValueError("standardise and pixels both set the scale: give one of them")
        if self.optimizer != "sgd" and self.momentum:
            raise ValueError("momentum belongs to sgd: choose --optimizer sgd or leave it out")
        if self.secure and self.seed is not None:
            raise ValueError("seed makes noise repeatable: leave it out in secure mode")
        if self.defence.stage == "data":
            self._check_records()

    def _check_records(self) -> None:
        """Refuses what only noise on gradients has."""
        if self.clipping != "none":
            raise ValueError(
                f'{self.defence.name} puts noise on records, not on gradients: give clipping="none"'
            )
        if self.sampling not in (None, "shuffled"):
            raise ValueError("sampling must be shuffled with a channel: leave it out")
        if self.max_batch_size is not None or self.physical_batch_size is not None:
            raise ValueError(
                "max_batch_size and physical_batch_size are for noise on gradients: leave them out"
            )
        if self.secure:
            raise ValueError("secure is for noise on gradients: a channel always draws securely")

    @property
    def mechanism(self) -> Mechanism:
        """What is released at every step: no noise where the defence is on records."""
        return NoNoise() if isinstance(self.defence, RecordNoise) else self.defence

    @property
    def channel(self) -> str | None:
        """The short name of the channel, where the defence is on records."""
        return self.defence.channel if isinstance(self.defence, RecordNoise) else None

    @property
    def preparation(self) -> str | None:
        """How images are cropped or resized; where ``prepare`` is None, as the network has them."""
        if self.prepare is None and self.model == "mlp":
            return _PREPARED.get(self.data, "resize16")
        return None if self.prepare == "none" else self.prepare

    def pixel_scale(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and standard deviation that pixels are scaled by, as ``pixels`` says."""
        return _FIXED.get(self.pixels) or _PUBLISHED.get(self.data, _FIXED["half"])

    def total_steps(self, records: int) -> int:
        """Steps of the run over so many records."""
        return self.steps or self.epochs * self.batches(records)

    def passes(self, records: int) -> int:
        """Passes over so many records that are begun."""
        return math.ceil(self.total_steps(records) / self.batches(records))

    def copies(self, records: int) -> int:
        """Noisy copies of one record, each with fresh noise, that a run makes: 1 without any."""
        fresh = isinstance(self.defence, RecordNoise) and self.defence.noise == "per_step"
        return self.passes(records) if fresh else 1

    def batches(self, records: int) -> int:
        """Steps of one pass over so many records."""
        return math.ceil(records / min(self.batch_size, records))

    def make_optimizer(
        self, parameters: Iterable[torch.Tensor], **more: Any
    ) -> torch.optim.Optimizer:
        """The optimizer. All three act on each number alone, so they train stacked models too."""
        from torch import optim

        given: dict[str, Any] = {"lr": self.learning_rate, "weight_decay": self.weight_decay}
        if self.optimizer == "sgd":
            return optim.SGD(parameters, momentum=self.momentum, **given, **more)
        kind = optim.Adam if self.optimizer == "adam" else optim.AdamW
        return kind(parameters, **given, **more)

    def fingerprint(self) -> dict[str, Any]:
        """Everything a checkpoint must agree with, in plain types; never the seed itself."""
        left_out = ("defence", "epochs", "seed")
        names = [each.name for each in dataclasses.fields(self) if each.name not in left_out]
        return {
            **{name: getattr(self, name) for name in names},
            "simulation": self.seed is not None,
            "defence": {"name": self.defence.name, **self.defence.parameters()},
        }


def options() -> dict[str, Option]:
    """What is said of each field that a command or a study sets, with its type and default."""
    hints = get_type_hints(TrainingConfig)
    found = {}
    for each in dataclasses.fields(TrainingConfig):
        if "option" in each.metadata:
            inner = [kind for kind in get_args(hints[each.name]) if kind is not type(None)]
            kind = inner[0] if inner else hints[each.name]
            said: Option = each.metadata["option"]
            found[each.name] = dataclasses.replace(said, type=kind, default=each.default)
    return found


_OPTIONS = options()


def suited(kind: Defence, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a training, with clipping and sampling as a defence needs them.

    Args:
      kind: The defence.
      given: What was set; None for what was not.
    """
    found = {name: value for name, value in given.items() if value is not None}
    found.setdefault("clipping", "flat" if kind.bounds else "none")
    if kind.parameter is None or (kind.on_gradients and not kind.bounds):
        found.setdefault("sampling", "shuffled")  # no ε that sampling could lower
    return found
