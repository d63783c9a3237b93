"""Defences by name: the one list that commands, studies, federations and reports read.

A defence is noise on gradients (a mechanism), noise on records (a :class:`RecordNoise`), clipping
alone, or none. A package adds its own class through the entry-point group ``recondite.defences``;
it then has accounting, training, every command, studies and the report for free.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from recondite import _validate
from recondite.mechanisms import Mechanism, NoNoise, mechanisms
from recondite.mechanisms.registry import registered

if TYPE_CHECKING:
    from recondite.channels.base import Channel

__all__ = [
    "Defence",
    "MinimumPowerNoise",
    "NaturalNoise",
    "PersonalizedNoise",
    "RecordNoise",
    "WhiteNoise",
    "defences",
    "find",
    "owners",
    "suffix",
]

# What the training engine sets by the model and the batches.
_SET_BY_ENGINE = (
    *("dim", "sensitivity", "clip_norm", "batch_size", "max_batch_size", "layers", "layer_norms"),
)
_SUFFIX = "-channel"


@dataclass(frozen=True)
class RecordNoise:
    """Noise on records before any training, fitted when the records are known.

    Guarantee: that of :class:`recondite.channels.Channel`: one noisy copy of a record tells at
    most ``capacity`` nats of its features, on average over records. There is no neighbouring
    relation, gradients are not clipped, and labels are not covered.

    Class attributes are those of a mechanism; ``stage`` is "data".

    Attributes:
      capacity: What one noisy copy of a record may tell of it, in nats.
      noise: "once", or "per_step" for fresh noise at every use of a record.
      fit_on: A data set to fit the channel on (its training part); None takes the training
        records themselves, which the capacity does not cover.
    """

    capacity: float
    noise: str = "once"
    fit_on: str | None = None

    name: ClassVar[str]
    title: ClassVar[str]
    heading: ClassVar[str] = ""
    parameter: ClassVar[str] = "capacity"
    symbol: ClassVar[str] = "capacity"
    explanation: ClassVar[str] = ""
    weaker: ClassVar[Literal["larger", "smaller"]] = "larger"
    search_range: ClassVar[tuple[float, float]] = (1e-2, 1e6)
    stage: ClassVar[Literal["data"]] = "data"
    subject: ClassVar[str] = "a record's features"
    private: ClassVar[bool] = True
    bounds_gradients: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.capacity is None:
            raise ValueError("capacity is needed with a channel: the nats a record may tell")
        _validate.positive("capacity", self.capacity)
        _validate.choice("noise", self.noise, ("once", "per_step"))

    @property
    def channel(self) -> str:
        """The channel's short name, as ``recondite channel`` has it."""
        return self.name.removesuffix(_SUFFIX)

    def fit(self, rows: Any, shape: tuple[int, ...]) -> Channel:
        """The channel, fitted; with noise along fewer directions where it is drawn at every use.

        Args:
          rows: (n, features) of records.
          shape: Of a record.
        """
        from recondite.channels.registry import fit

        fitted = fit(self.channel, rows, self.capacity, **self.weights(shape))
        return fitted.following("auto") if self.noise == "per_step" else fitted

    def weights(self, shape: tuple[int, ...]) -> dict[str, Any]:
        """What a fit is told beside the capacity."""
        del shape
        return {}

    def parameters(self) -> dict[str, Any]:
        """Every field that was given."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def described(self) -> Mapping[str, object]:
        """What a run's record says of its parameters, ready for JSON."""
        return {"capacity": self.capacity, "noise": self.noise}


@dataclass(frozen=True)
class NaturalNoise(RecordNoise):
    """The same noise on every feature."""

    name: ClassVar[str] = "natural-channel"
    title: ClassVar[str] = "Natural channel"
    explanation: ClassVar[str] = (
        "Every record gets the same random noise on all its values before training uses it."
    )


@dataclass(frozen=True)
class WhiteNoise(RecordNoise):
    """Noise with the records' own covariance."""

    name: ClassVar[str] = "white-channel"
    title: ClassVar[str] = "White channel"
    explanation: ClassVar[str] = (
        "Every record gets noise that looks like the records themselves before training uses it."
    )


@dataclass(frozen=True)
class PersonalizedNoise(RecordNoise):
    """More noise on features that weigh more.

    Attributes:
      beta: A .npy file with the weight of each feature, or ``{"rows": (12, 19), "columns":
        (8, 23), "weight": 50}`` for a rectangle (both ends inclusive) in images that weigh 1
        elsewhere; None weighs the centre 50 times the border.
      method: "exact", or "paper" for the bound of Tan et al. (2024), Theorem 3.
    """

    beta: str | Mapping[str, Any] | None = None
    method: str = "exact"

    name: ClassVar[str] = "personalized-channel"
    title: ClassVar[str] = "Personalized channel"
    explanation: ClassVar[str] = (
        "Every record gets noise before training uses it: most on what is called delicate."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.choice("method", self.method, ("exact", "paper"))

    def weights(self, shape: tuple[int, ...]) -> dict[str, Any]:
        """The weight of each feature, and how the channel is fitted."""
        return {"beta": self._beta(shape), "method": self.method}

    def described(self) -> Mapping[str, object]:
        """What a run's record says of it: whether weights were given, not which."""
        given = "given" if self.beta is not None else "centre 50:1"
        return {**super().described(), "beta": given, "method": self.method}

    def _beta(self, shape: tuple[int, ...]) -> Any:
        import numpy as np

        from recondite.channels.registry import centre_weights, rectangle_weights

        if self.beta is None:
            return centre_weights(shape)
        if not isinstance(self.beta, str):
            return rectangle_weights(shape, **self.beta)
        try:
            # Never unpickle: an object array from a stranger could run code.
            return np.load(self.beta, allow_pickle=False)
        except Exception:  # a damaged header breaks NumPy, which parses it as Python, in many ways
            raise ValueError(f"beta: {Path(self.beta).name} is no plain .npy array") from None


@dataclass(frozen=True)
class MinimumPowerNoise(RecordNoise):
    """The least noise that the capacity allows."""

    name: ClassVar[str] = "minimum-power-channel"
    title: ClassVar[str] = "minimum-power channel"
    explanation: ClassVar[str] = (
        "Every record gets the least random noise that hides as much, before training uses it."
    )


@dataclass(frozen=True)
class Defence:
    """What is known of a defence before it has a strength.

    Attributes:
      name: Its name in studies, records and on the command line.
      title: What labels call it.
      make: Builds it from its parameter and settings.
      heading: What a legend calls it.
      parameter: What sets its strength; None where nothing does.
      symbol: What labels call the parameter.
      weaker: Whether a larger or a smaller parameter protects less.
      search_range: Where a search for a strength looks.
      settings: Its other keys.
      stage: What gets noise: "data" before training, "record", "sum" or "update" at its steps;
        None for neither.
      subject: What its capacity and information speak of.
      private: Whether it promises anything.
      bounds: Whether gradients are clipped as the training says; not at all otherwise.
      removes: Its setting that names the eigenvectors that it takes from records; "" for none.
      explanation: What it does, in one line for whoever does not know the field.
    """

    name: str
    title: str
    make: Callable[..., Mechanism | RecordNoise]
    heading: str = ""
    parameter: str | None = None
    symbol: str = ""
    weaker: str = "larger"
    search_range: tuple[float, float] = (1e-6, 1e6)
    settings: tuple[str, ...] = ()
    stage: str | None = None
    subject: str = "a record"
    private: bool = True
    bounds: bool = True
    removes: str = ""
    explanation: str = ""

    @classmethod
    def of(cls, kind: type[Mechanism] | type[RecordNoise], name: str = "") -> Defence:
        """What a class says of itself, under the name that it is registered by."""
        name = name or kind.name
        title = kind.title or name
        fields = [field.name for field in dataclasses.fields(kind)]
        return cls(
            name,
            title,
            kind,
            heading=kind.heading or title[:1].upper() + title[1:],
            parameter=kind.parameter,
            symbol=kind.symbol or kind.parameter,
            weaker=kind.weaker,
            search_range=kind.search_range,
            settings=tuple(f for f in fields if f not in (*_SET_BY_ENGINE, kind.parameter)),
            stage=kind.stage,
            subject=kind.subject,
            private=kind.private,
            bounds=kind.bounds_gradients,
            explanation=kind.explanation,
        )

    @property
    def on_records(self) -> bool:
        """Whether it changes records, before any training."""
        return self.stage == "data"

    @property
    def acts(self) -> bool:
        """Whether it does anything: changes records, bounds gradients or adds noise."""
        return self.stage is not None or self.bounds

    @property
    def channel(self) -> str | None:
        """The short name of its channel, where it is noise on records."""
        noisy = self.on_records and self.parameter is not None
        return self.name.removesuffix(_SUFFIX) if noisy else None

    @property
    def on_gradients(self) -> bool:
        """Whether it is noise on what training releases."""
        return self.stage is not None and not self.on_records

    def build(self, value: float | None = None, **settings: Any) -> Mechanism | RecordNoise:
        """The defence at a strength."""
        if self.parameter is None:
            return self.make()
        plain = {key: tuple(v) if isinstance(v, list) else v for key, v in settings.items()}
        return self.make(**{self.parameter: value, **plain})

    def label(self, value: float | None, settings: Mapping[str, Any]) -> str:
        """A short title: ``VMF κ = 500``."""
        extra = [
            f"{key} {'as given' if isinstance(item, dict) else item}"
            for key, item in settings.items()
        ]
        if self.parameter is not None and value is not None:
            extra.insert(0, f"{self.symbol} = {suffix(value)}")
        return f"{self.title} {', '.join(extra)}" if extra else self.title


def defences(*, unproven: bool = False) -> dict[str, Defence]:
    """Every defence by its name; a registered one cannot replace one of ours.

    Args:
      unproven: With those that promise nothing and that only a comparison may name: compression,
        and mechanisms of other packages.
    """
    found = {
        "none": Defence(
            "none",
            "undefended",
            NoNoise,
            heading="Undefended",
            private=False,
            bounds=False,
            explanation="The model was trained as usual: nothing hides a record.",
        ),
        "clip": Defence(
            "clip",
            "clipping only",
            _clipped,
            heading="Clipping only",
            private=False,
            explanation="No record may move the model far at one step; nothing random hides it.",
        ),
    }
    if unproven:
        found["compression"] = Defence(
            "compression",
            "compression",
            NoNoise,
            heading="Compression",
            explanation="Details are cut out of every record before training; nothing is random.",
            settings=("remove",),
            stage="data",
            private=False,
            bounds=False,
            removes="remove",
        )
    others = registered()
    for name, kind in mechanisms(unproven=unproven, others=others).items():
        if kind.parameter:
            found.setdefault(name, Defence.of(kind, name))
    on_records = (NaturalNoise, WhiteNoise, PersonalizedNoise, MinimumPowerNoise)
    found |= {kind.name: Defence.of(kind) for kind in on_records}
    for name, other in others.items():
        if other.stage == "data" and (other.private or unproven):
            found.setdefault(name, Defence.of(other, name))
    return found


def find(name: str, *, unproven: bool = False, argument: str = "defence") -> Defence:
    """A defence by its name, or a channel by its short one (natural for natural-channel).

    Args:
      name: The name.
      unproven: As in :func:`defences`.
      argument: What an error calls it.

    Raises:
      ValueError: One line with the names there are.
    """
    known = defences(unproven=unproven)
    short = {each.channel or each.name: each for each in known.values()}
    for names in (known, short):
        if name in names:
            return names[name]
    raise ValueError(f"{argument} must be one of {', '.join(short)}, got {name!r}")


def owners(setting: str) -> str:
    """Whose setting on records it is, in words: a channel's, or that of some of them."""
    on_records = [each for each in defences().values() if each.channel is not None]
    own = [str(each.channel) for each in on_records if setting in (each.parameter, *each.settings)]
    return "a channel" if len(own) == len(on_records) else f"the {' or '.join(own)} channel"


def suffix(value: float) -> str:
    """A parameter's value as labels show it."""
    return f"{value:,.0f}" if value >= 1e4 and float(value).is_integer() else f"{value:.4g}"


def _clipped() -> NoNoise:
    return NoNoise(clip=True)
