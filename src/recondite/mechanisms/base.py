"""What every mechanism states and offers, and nothing more."""

from __future__ import annotations

import dataclasses
import math
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import Enum
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, TypeVar

from recondite import _validate
from recondite.laws import LossLaw

__all__ = ["Mechanism", "MetricPrivacy", "Neighbouring", "Setting", "Stage", "UndefinedNotionError"]

M = TypeVar("M", bound="Mechanism")
Stage = Literal["record", "sum", "update"]


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
    """What a mechanism is told of the gradients it will get, in units of one record's bound.

    Neither the clipping norm nor the divisor is among them: gradients come in units already, and
    the engine scales releases back (:class:`recondite.mechanisms.Units`).

    Attributes:
      shapes: Shapes of the trainable parameters, in the order they are joined.
      max_batch_size: The largest batch that can be drawn, which capacity needs.
      batch_size: The expected number of records in a batch, for a mechanism that shares something
        among a batch's pieces. Nothing it gets was divided by it.
      layers: Sizes of the layers, where each is bounded apart: each to one unit.
    """

    shapes: tuple[tuple[int, ...], ...]
    max_batch_size: int = field(kw_only=True)
    batch_size: int | None = field(default=None, kw_only=True)
    layers: tuple[int, ...] | None = field(default=None, kw_only=True)

    @property
    def dim(self) -> int:
        """Number of trainable parameters."""
        return sum(math.prod(shape) for shape in self.shapes)

    @property
    def sensitivity(self) -> float:
        """The furthest that one record moves a sum: 1, or √m for m layers bounded apart."""
        return 1.0 if self.layers is None else math.hypot(*(1.0,) * len(self.layers))


class Mechanism(ABC):
    """A randomised release of a gradient, as a frozen dataclass.

    The contract: ``perturb``, ``release`` and ``log_likelihood`` work in units of one record's
    bound. At stage "sum" they get the sum of a batch's bounded gradients, which one record moves
    by at most ``Setting.sensitivity`` (twice that when it is replaced), and give a vector of the
    same shape; at stage "record" they get one row a record, none longer than that, and give the
    average of what became of the rows; at stage "update" they get one client's whole update,
    which is at most 1 long. No mechanism knows the clipping norm or the divisor: whoever calls it
    scales its release back. What it gets is lent: it must not be kept or changed.

    Attributes:
      name: Its name on the command line.
      parameter: The field that sets the strength of the noise.
      weaker: Whether a larger or a smaller ``parameter`` means less noise.
      stage: What gets noise: each record, a batch's sum, or a client's update.
      scale_free: Whether the length of a release is a constant that says nothing: a direction.
      bounded: Whether rows at stage "record" come bounded. Without that nothing can be promised:
        only for mechanisms whose ``loss`` is infinite, or that look at directions alone.
      stateful: Whether it remembers something over steps: ``initial_state`` makes it, ``perturb``
        takes it as third argument, changes it in place, and must be total as ``release`` is.
      subject: What capacity and information speak of.
      private: Whether it promises anything. Where False, only a comparison can name it.
      bounds_gradients: Whether it needs gradients clipped as the training says; a comparison
        trains without clipping where False, and nothing can then be promised.
      title: What labels call it; its name where empty.
      heading: What a legend calls it; its title where empty.
      symbol: What labels call ``parameter``; its name where empty.
      explanation: What it does, in one line for whoever does not know the field; by its stage where
        empty.
      search_range: Where a search for a strength looks.
      dim: Number of coordinates released; None until a model is known.
      in_shares: Whether several clients may add its noise in parts, in a federation's secure sums:
        it is Gaussian, of ``parameter`` times the bound in every coordinate.
    """

    name: ClassVar[str]
    parameter: ClassVar[str]
    weaker: ClassVar[Literal["larger", "smaller"]]
    stage: ClassVar[Stage] = "sum"
    scale_free: ClassVar[bool] = False
    bounded: ClassVar[bool] = True
    stateful: ClassVar[bool] = False
    subject: ClassVar[str] = "the batch's averaged gradient"
    private: ClassVar[bool] = True
    bounds_gradients: ClassVar[bool] = True
    in_shares: ClassVar[bool] = False
    title: ClassVar[str] = ""
    heading: ClassVar[str] = ""
    symbol: ClassVar[str] = ""
    explanation: ClassVar[str] = ""
    search_range: ClassVar[tuple[float, float]] = (1e-6, 1e6)
    dim: int | None
    # What makes it a dataclass to type checkers; the decorator of each mechanism fills it.
    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    def __init_subclass__(cls, **options: Any) -> None:
        """Takes the name that ``stage`` had in 0.1.0, for one version."""
        super().__init_subclass__(**options)
        if "noise_on" in cls.__dict__ and "stage" not in cls.__dict__:
            old = cls.__dict__["noise_on"]
            warnings.warn(
                f'{cls.__name__}.noise_on is now stage: "sum" or "record"',
                DeprecationWarning,
                stacklevel=2,
            )
            _validate.choice("noise_on", old, ("average", "record"))
            cls.stage = "record" if old == "record" else "sum"
        if "stage" in cls.__dict__:
            _validate.choice("stage", cls.stage, ("record", "sum", "update"))

    @property
    def noise_on(self) -> str:
        """Deprecated: ``stage``, with "average" for "sum"."""
        warnings.warn("noise_on is now stage", DeprecationWarning, stacklevel=2)
        return "record" if self.stage == "record" else "average"

    @abstractmethod
    def loss(self, relation: Neighbouring) -> LossLaw:
        """The privacy-loss law of the worst-case pair of one unsampled release."""

    @abstractmethod
    def perturb(self, gradient: Any, generator: Any = None) -> Any:
        """Draws a release. NumPy arrays and torch tensors, batched over leading axes.

        The generator is NumPy's for arrays and torch's for tensors; None draws from the operating
        system (:func:`recondite.numerics.random.random_source` takes all three). A ``stateful``
        mechanism takes its state as third argument.
        """

    @abstractmethod
    def log_likelihood(self, release: Any, gradient: Any) -> Any:
        """Log-density of a release given the gradient before noise: what an attacker maximises."""

    def likelihood_blocks(self) -> tuple[int, ...] | None:
        """Sizes of the parts of a vector whose inner products say all that a likelihood needs.

        None where they do not: then an attacker must go through ``log_likelihood``, one gradient
        at a time.
        """
        return None

    def log_likelihood_of_products(self, inner: Any, squared: Any, own: Any) -> Any:
        """``log_likelihood``, up to a constant of the release, from inner products alone.

        This is what lets thousands of candidates be tried at the price of one matrix product.

        Args:
          inner: ⟨release, gradient⟩ of each part, on the last axis.
          squared: ‖gradient‖² of each part, on the last axis.
          own: ‖release‖² of each part.
        """
        raise NotImplementedError(f"{self.name} has no likelihood_blocks")

    def stand_in(self, records: int) -> tuple[Mechanism, float] | None:
        """For noise on each record: a mechanism on sums that an attacker takes in its place.

        It is given the sum of the records' unit directions, and the released sum times the factor
        that comes with it. An estimate of the density, for attackers only: no account may use it.
        None where there is none.
        """
        del records
        return None

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
        """Fisher information per displacement of the release's centre by one unit squared.

        In the units of ``perturb``; what a released gradient of a run carries per unit of its own
        is (L/C)² times this.
        """

    def with_dim(self: M, dim: int) -> M:
        """The same mechanism for a gradient of this many coordinates."""
        return dataclasses.replace(self, dim=dim)

    def with_strength(self: M, value: float) -> M:
        """The same mechanism with another amount of noise."""
        self._require_parameter()
        return dataclasses.replace(self, **{self.parameter: value})

    def configured(self: M, setting: Setting) -> M:
        """The same mechanism for the gradients of a training run, in units of a record's bound.

        Fields named ``dim``, ``sensitivity`` and ``max_batch_size`` are set where there are any.

        Raises:
          ValueError: One record moves a sum by more than 1 and there is no field to say so.
        """
        told = {
            "dim": setting.dim,
            "sensitivity": setting.sensitivity,
            "max_batch_size": setting.max_batch_size,
        }
        own = {known.name for known in dataclasses.fields(self)}
        if setting.layers is not None and "sensitivity" not in own and not self.scale_free:
            raise ValueError(
                f"{self.name} takes one bound for a record's whole gradient: clip flat, or give it "
                "a field named sensitivity"
            )
        return dataclasses.replace(self, **{k: v for k, v in told.items() if k in own})

    def initial_state(self) -> dict[str, Any]:
        """What a ``stateful`` mechanism remembers before the first step: tensors and numbers."""
        return {}

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
