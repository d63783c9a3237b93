"""What to train: everything a run depends on, checked before anything is loaded."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from recondite import _validate
from recondite.mechanisms import Mechanism

__all__ = ["CHANNELS", "OPTIMIZERS", "PIXELS", "Plan"]

OPTIMIZERS = ("sgd", "adam", "adamw")
CHANNELS = ("natural", "white", "personalized", "minimum-power")
# Constants all, so scaling by them reveals nothing: (x - mean)/deviation, (x - .5)/.5, x.
PIXELS = ("published", "half", "unit")
_FIXED = {"half": ((0.5,), (0.5,)), "unit": ((0.0,), (1.0,))}
# Mean and deviation that others published: constants, so scaling by them reveals nothing.
_PUBLISHED: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "mnist": ((0.1307,), (0.3081,)),
    "mnist-5k": ((0.1307,), (0.3081,)),
    "fashion-mnist": ((0.2860,), (0.3530,)),
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "cifar100": ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
}
# What only the personalized channel has, and what it is where nothing is said.
_PERSONAL = {"beta": None, "channel_method": "exact"}
_PREPARED = {"mnist": "crop16", "mnist-5k": "crop16", "fashion-mnist": "resize16"}


@dataclass(frozen=True)
class Plan:
    """A training run.

    Attributes:
      data: A data set's name, a folder of images, or ``package.module:function``.
      model: A network's name, or ``package.module:function``.
      mechanism: What is released at every step; ``NoNoise`` for plain or clip-only training.
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
      pixels: "published" (the data set's published mean and deviation, (x - .5)/.5 where there
        are none), "half" ((x - .5)/.5) or "unit" (in [0, 1]).
      standardise: Scale pixels by this data's own statistics, which the account does not cover.
      norm: Normalisation of our networks.
      weights: A safetensors file to start from.
      seed: Repeats a run, noise included: a simulation.
      device: cpu or cuda.
      secure: Noise and batches from a cryptographic generator (noise on gradients only; that of a
        channel always is).
      channel: Noise on records instead of gradients: natural, white, personalized or
        minimum-power. Training is then ordinary training, without clipping.
      capacity: What one noisy copy of a record may tell of it, in nats.
      channel_noise: "once", or "per_step" for fresh noise at every use of a record.
      channel_data: A data set to fit the channel on (its training part); None takes the training
        records themselves, which the capacity does not cover.
      channel_method: Of the personalized channel: "exact", or "paper" for Theorem 3's bound.
      beta: For the personalized channel: a .npy file with the weight of each feature, or
        ``{"rows": (12, 19), "columns": (8, 23), "weight": 50}`` for a rectangle (both ends
        inclusive) in images that weigh 1 elsewhere; None weighs the centre 50 times the border.
    """

    data: str
    model: str
    mechanism: Mechanism
    epochs: int = 3
    steps: int | None = None
    records: int | None = None
    batch_size: int = 128
    learning_rate: float = 0.005
    optimizer: str = "adamw"
    momentum: float = 0.0
    weight_decay: float = 0.0
    clipping: str = "flat"
    max_grad_norm: float = 1.0
    sampling: str | None = None
    max_batch_size: int | None = None
    physical_batch_size: int | None = None
    prepare: str | None = None
    pixels: str = "published"
    standardise: bool = False
    norm: str = "group"
    weights: str | None = None
    seed: int | None = None
    device: str = "cpu"
    secure: bool = False
    channel: str | None = None
    capacity: float | None = None
    channel_noise: str = "once"
    channel_data: str | None = None
    channel_method: str = "exact"
    beta: str | Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        _validate.at_least("epochs", self.epochs, 1)
        for name in ("steps", "records"):
            if getattr(self, name) is not None:
                _validate.at_least(name, getattr(self, name), 1)
        _validate.at_least("batch_size", self.batch_size, 1)
        _validate.positive("learning_rate", self.learning_rate)
        _validate.non_negative("weight_decay", self.weight_decay)
        _validate.non_negative("momentum", self.momentum)
        _validate.device(self.device)
        _validate.choice("optimizer", self.optimizer, OPTIMIZERS)
        _validate.choice("pixels", self.pixels, PIXELS)
        if self.standardise and self.pixels != "published":
            raise ValueError("standardise and pixels both set the scale: give one of them")
        if self.optimizer != "sgd" and self.momentum:
            raise ValueError("momentum belongs to sgd: choose --optimizer sgd or leave it out")
        if self.secure and self.seed is not None:
            raise ValueError("seed makes noise repeatable: leave it out in secure mode")
        _validate.choice("channel_noise", self.channel_noise, ("once", "per_step"))
        _validate.choice("channel_method", self.channel_method, ("exact", "paper"))
        self._check_channel()

    def _check_channel(self) -> None:
        if self.channel is None:
            for name in ("capacity", "channel_data", *_PERSONAL):
                if getattr(self, name) != _PERSONAL.get(name):
                    raise ValueError(f"{name} belongs to a channel: give channel too")
            return
        _validate.choice("channel", self.channel, CHANNELS)
        if self.capacity is None:
            raise ValueError("capacity is needed with a channel: the nats a record may tell")
        _validate.positive("capacity", self.capacity)
        for name, default in _PERSONAL.items():
            if self.channel != "personalized" and getattr(self, name) != default:
                raise ValueError(f"{name} belongs to the personalized channel: leave it out")
        if self.mechanism.parameter or self.clipping != "none":
            raise ValueError(
                "channel puts noise on records, not on gradients: give it the mechanism NoNoise() "
                'and clipping="none"'
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
    def defence(self) -> str:
        """What protects, by name: the mechanism, or the channel with its kind."""
        if self.channel is not None:
            return f"{self.channel}-channel"
        return self.mechanism.name

    @property
    def preparation(self) -> str | None:
        """How images are cropped or resized."""
        if self.prepare is None and self.model == "mlp":
            return _PREPARED.get(self.data, "resize16")
        return None if self.prepare == "none" else self.prepare

    def pixel_scale(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and deviation that pixels are scaled by, as ``pixels`` says."""
        return _FIXED.get(self.pixels) or _PUBLISHED.get(self.data, _FIXED["half"])

    def total_steps(self, records: int) -> int:
        """Steps of the run over so many records."""
        return self.steps or self.epochs * self._batches(records)

    def passes(self, records: int) -> int:
        """Passes over so many records that are begun."""
        return math.ceil(self.total_steps(records) / self._batches(records))

    def _batches(self, records: int) -> int:
        return math.ceil(records / min(self.batch_size, records))

    def fingerprint(self) -> dict[str, Any]:
        """Everything a checkpoint must agree with, in plain types; never the seed itself."""
        left_out = ("mechanism", "epochs", "seed")
        plain = {key: value for key, value in asdict(self).items() if key not in left_out}
        return {
            **plain,
            "simulation": self.seed is not None,
            "mechanism": self.mechanism.name,
            "parameters": self.mechanism.parameters(),
        }
