"""Defences by name: their parameter, their settings, and the plan that trains with them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recondite.mechanisms import Mechanism, NoNoise, mechanisms

if TYPE_CHECKING:
    from recondite.training.plan import Plan

__all__ = ["COMPRESSION", "Kind", "kinds", "label", "mechanism", "plan", "subject", "suffix"]

# What the training engine sets by the model and the batches.
_SET_BY_ENGINE = (
    *("dim", "sensitivity", "clip_norm", "batch_size", "max_batch_size", "layers", "layer_norms"),
)
_CHANNEL = "-channel"
COMPRESSION = "compression"
_SYMBOLS = {"kappa": "κ", "noise_multiplier": "σ", "capacity": "capacity"}
_TITLES = {
    "none": "undefended",
    "clip": "clipping only",
    "gaussian": "Gaussian",
    "vmf": "VMF",
    "partitioned": "partitioned VMF",
    "directional": "directional",
    "natural-channel": "Natural channel",
    "white-channel": "White channel",
    "personalized-channel": "Personalized channel",
    "minimum-power-channel": "minimum-power channel",
    "parameter-channel": "parameter channel",
}


@dataclass(frozen=True)
class Kind:
    """A defence that a study can name.

    Attributes:
      name: Its name.
      parameter: What sets its strength; None where nothing does.
      weaker: Whether a larger or a smaller parameter protects less.
      settings: Its other keys.
      channel: The channel on records that it is, or None for noise on gradients.
      private: Whether it promises anything.
      bounds: Whether gradients are clipped as the training says; not at all otherwise.
      title: What labels call it; empty where the library has words for it, or its name does.
    """

    name: str
    parameter: str | None
    weaker: str = "larger"
    settings: tuple[str, ...] = ()
    channel: str | None = None
    private: bool = True
    bounds: bool = True
    title: str = ""

    @property
    def on_records(self) -> bool:
        """Whether it changes records, before any training."""
        return self.channel is not None or self.name == COMPRESSION


def kinds() -> dict[str, Kind]:
    """Every defence by name; mechanisms of other packages with them."""
    from recondite.channels.registry import CHANNELS

    found = {
        "none": Kind("none", None, private=False, bounds=False),
        "clip": Kind("clip", None, private=False),
        COMPRESSION: Kind(COMPRESSION, None, settings=("remove",), private=False, bounds=False),
    }
    for name, kind in _known().items():
        if name == NoNoise.name:
            continue
        fields = [field.name for field in dataclasses.fields(kind)]
        own = tuple(f for f in fields if f not in (*_SET_BY_ENGINE, kind.parameter))
        found[name] = Kind(
            name,
            kind.parameter,
            kind.weaker,
            own,
            private=kind.private,
            bounds=kind.bounds_gradients,
            title=kind.title,
        )
    for name in CHANNELS:
        own = ("noise", "fit_on")
        if name == "personalized":
            own = (*own, "beta", "method")
        found[name + _CHANNEL] = Kind(
            name + _CHANNEL, "capacity", "larger", own, channel=name, bounds=False
        )
    return found


def plan(common: dict[str, Any], defence: dict[str, Any], seed: int | None) -> Plan:
    """The training run of a cell.

    Args:
      common: What all cells share: data, model, preparation, training.
      defence: Name, value, settings and training of the defence.
      seed: The repetition.
    """
    from recondite.training.plan import Plan  # imports torch

    name, value, settings = defence["name"], defence["value"], defence["settings"]
    kind = kinds()[name]
    channel = kind.channel
    options = {**common["training"], **defence["training"]}
    if not kind.bounds:
        options["clipping"] = "none"
    if kind.parameter is None or not kind.bounds:  # no ε that sampling could lower
        options.setdefault("sampling", "shuffled")
    if channel is not None:
        for key in ("sampling", "max_batch_size", "physical_batch_size"):
            options.pop(key, None)
        options.update(
            channel=channel,
            capacity=value,
            channel_noise=settings.get("noise", "once"),
            channel_data=settings.get("fit_on"),
            beta=settings.get("beta"),
            channel_method=settings.get("method", "exact"),
        )
    return Plan(
        data=common["data"],
        model=common["model"],
        mechanism=mechanism(name, value, settings),
        prepare=common["prepare"],
        seed=seed,
        **options,
    )


def mechanism(name: str, value: float | None, settings: dict[str, Any]) -> Mechanism:
    """What is released at every step: the defence's noise, or none where it is on records."""
    kind = kinds()[name]
    if kind.parameter is None or kind.channel is not None:
        return NoNoise(clip=name == "clip")
    plain = {key: tuple(v) if isinstance(v, list) else v for key, v in settings.items()}
    return _known()[name](**{kind.parameter: value, **plain})


def subject(name: str) -> str:
    """What a defence on gradients speaks of."""
    return _known()[name].subject


def _known() -> dict[str, type[Mechanism]]:
    """Mechanisms, and those of other packages that promise nothing."""
    return mechanisms(unproven=True)


def suffix(value: float) -> str:
    """A parameter's value as labels show it."""
    return f"{value:,.0f}" if value >= 1e4 and float(value).is_integer() else f"{value:.4g}"


def label(name: str, value: float | None, settings: dict[str, Any]) -> str:
    """A short title: ``VMF κ = 500``."""
    kind = kinds()[name]
    title = _TITLES.get(name) or kind.title or name
    extra = [
        f"{key} {'as given' if isinstance(item, dict) else item}" for key, item in settings.items()
    ]
    if kind.parameter is not None and value is not None:
        extra.insert(0, f"{_SYMBOLS.get(kind.parameter, kind.parameter)} = {suffix(value)}")
    return f"{title} {', '.join(extra)}" if extra else title
