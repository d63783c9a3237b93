"""What every mechanism states and offers, and nothing more."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, TypeVar

from recondite import _validate
from recondite.losses import LossLaw

__all__ = ["Mechanism", "MetricPrivacy", "Neighbouring", "Setting", "UndefinedNotionError"]

M = TypeVar("M", bound="Mechanism")


class Neighbouring(str, Enum):
    """Which two data sets a guarantee compares."""

    ADD_OR_REMOVE = "add-or-remove-one"
    REPLACE = "replace-one"


class UndefinedNotionError(ValueError):
    """A notion of privacy has no value for this mechanism; the message is the reason."""


@dataclass(frozen=True)
class MetricPrivacy:
    """Metric privacy: log-densities differ by at most constant·distance.

    Attributes:
      constant: The factor in front of the metric.
      metric: The metrics for which it holds.
      between: What the distance is measured between.
      per_record: The largest log-density ratio that one record can cause in one release.
    """

    constant: float
    metric: str
    between: str
    per_record: float


@dataclass(frozen=True)
class Setting:
    """What a training run knows of the gradients it will release.

    Attributes:
      shapes: Shapes of the trainable parameters, in the order they are joined.
      clip_norm: The largest norm of one record's bounded gradient.
      batch_size: The public constant by which sums are divided.
      max_batch_size: The largest batch that can be drawn.
      layers: Sizes of the layers, where each is bounded apart.
      layer_norms: The norm of each of those layers.
    """

    shapes: tuple[tuple[int, ...], ...]
    clip_norm: float
    batch_size: int
    max_batch_size: int
    layers: tuple[int, ...] | None = None
    layer_norms: tuple[float, ...] | None = None

    @property
    def dim(self) -> int:
        """Number of trainable parameters."""
        return sum(math.prod(shape) for shape in self.shapes)


class Mechanism(ABC):
    """A randomised release of a gradient, as a frozen dataclass.

    Attributes:
      name: Its name on the command line.
      parameter: The field that sets the strength of the noise.
      weaker: Whether a larger or a smaller ``parameter`` means less noise.
      noise_on: Whether noise is drawn once for the average of a batch, or for each record.
      subject: What capacity and information speak of.
      private: Whether it promises anything. Where False, only a comparison can name it.
      bounds_gradients: Whether it needs gradients clipped as the training says; a comparison
        trains without clipping where False, and nothing can then be promised.
      title: What a comparison calls it; its name where empty.
      dim: Number of coordinates released; None until a model is known.
    """

    name: ClassVar[str]
    parameter: ClassVar[str]
    weaker: ClassVar[Literal["larger", "smaller"]]
    noise_on: ClassVar[Literal["average", "record"]] = "average"
    subject: ClassVar[str] = "the batch's averaged gradient"
    private: ClassVar[bool] = True
    bounds_gradients: ClassVar[bool] = True
    title: ClassVar[str] = ""
    dim: int | None
    # What makes it a dataclass to type checkers; the decorator of each mechanism fills it.
    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    @abstractmethod
    def loss(self, relation: Neighbouring) -> LossLaw:
        """The privacy-loss law of the worst-case pair of one unsampled release."""

    @abstractmethod
    def perturb(self, gradient: Any, generator: Any = None) -> Any:
        """Draws a release. NumPy arrays and torch tensors, batched over leading axes."""

    @abstractmethod
    def log_likelihood(self, release: Any, gradient: Any) -> Any:
        """Log-density of a release given the gradient before noise: what an attacker maximises."""

    @abstractmethod
    def log_bayes_capacity(self) -> float:
        """Log of Bayes' capacity of one release: an upper bound on min-entropy leakage, in nats."""

    @abstractmethod
    def mutual_information(self) -> float:
        """Upper bound, in nats, on the information one release carries about what it protects."""

    @abstractmethod
    def metric_privacy(self) -> MetricPrivacy:
        """The metric guarantee of one release."""

    @abstractmethod
    def fisher_information(self) -> float:
        """Fisher information per unit displacement of the release's centre."""

    def with_dim(self: M, dim: int) -> M:
        """The same mechanism for a gradient of this many coordinates."""
        return dataclasses.replace(self, dim=dim)

    def with_strength(self: M, value: float) -> M:
        """The same mechanism with another amount of noise."""
        self._require_parameter()
        return dataclasses.replace(self, **{self.parameter: value})

    def configured(self: M, setting: Setting) -> M:
        """The same mechanism for the gradients of a training run."""
        return self.with_dim(setting.dim)

    def release(self, gradient: Any, generator: Any = None) -> Any:
        """Like ``perturb``, but total: what has no direction gets a uniformly random one.

        A training run must release something at every step, whatever the batch: raising or
        skipping would tell an observer what the accountant does not cover.
        """
        return self.perturb(gradient, generator)

    def assumptions(self) -> tuple[str, ...]:
        """What the mechanism's own bounds rest on, for people."""
        return ()

    def for_batches(self: M, largest: int) -> M:
        """The same mechanism, told the largest batch a schedule can draw."""
        del largest
        return self

    @property
    def strength(self) -> float:
        """The value of the noise parameter."""
        self._require_parameter()
        return float(getattr(self, self.parameter))

    def required_dim(self) -> int:
        """The dimension, or an error that says how to give it."""
        if self.dim is None:
            raise UndefinedNotionError(
                f"dim is not set: give --dim, or {type(self).__name__}(..., dim=...)"
            )
        return self.dim

    def gradient_dim(self, gradient: Any) -> int:
        """Coordinates of a gradient, which must be ``dim`` where that is set.

        A direction in fewer dimensions than were accounted for would carry less noise.
        """
        found = int(gradient.shape[-1])
        if self.dim is not None and found != self.dim:
            raise ValueError(f"gradient must have {self.dim} coordinates as dim says, got {found}")
        return found

    def parameters(self) -> dict[str, Any]:
        """Every field that was given, ready for JSON."""
        fields = dataclasses.fields(self)
        values = {field.name: getattr(self, field.name) for field in fields}
        return {name: _plain(value) for name, value in values.items() if value is not None}

    def _require_parameter(self) -> None:
        if not self.parameter:
            raise ValueError(f"{self.name} has no noise to set: choose another mechanism")

    def _check_dim(self, least: int) -> None:
        if self.dim is not None:
            object.__setattr__(self, "dim", _validate.at_least("dim", self.dim, least))


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, bool) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)
