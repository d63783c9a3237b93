"""What was released costs, in every notion at once: made by going through the notions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Any

import numpy as np

from recondite import _validate
from recondite.accounting.schedules import Schedule
from recondite.mechanisms import Mechanism, Neighbouring
from recondite.notions.base import Notion, Release, defined
from recondite.notions.bounds import round_bound
from recondite.notions.registry import built_in, figures, notions
from recondite.notions.releases import MechanismRun

__all__ = ["SCHEMA_VERSION", "Account", "account", "account_for", "json_ready"]

# 1 had the accountants of one paper, ``epsilon.paper_1`` and ``paper_2``, and ``as_printed`` on
# request. ``Notion.row`` reads both.
SCHEMA_VERSION = 2


@dataclass(frozen=True)
class Account:
    """What a run costs, in every notion. Each number is an upper bound; None is not defined.

    A notion's value is an attribute: ``account.epsilon["pld"]`` (tight: use this one; beside it
    ``rdp``, ``pure`` and what other packages add), ``account.rdp_order``,
    ``account.log_bayes_capacity["run"]`` and ``["per_release"]``, ``account.mutual_information``
    likewise, ``account.rero["bound"]`` at ``["prior"]``, ``account.metric_privacy``.

    Attributes:
      release: What was released, by a mechanism or a channel.
      values: The notions' values by key, sections as mappings.
      reasons: Why a notion is not defined, by its key.
      assumptions: What the bounds rest on.
    """

    release: Release
    values: Mapping[str, Any]
    reasons: dict[str, str] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        # Only what is no field comes here. Copying asks before there are any.
        values = self.__dict__.get("values", {})
        if name in values:
            return values[name]
        raise AttributeError(f"this account has no {name!r}: it has {', '.join(values)}")

    @property
    def mechanism(self) -> Any:
        """What adds the noise: the mechanism, or the fitted channel."""
        return self.release.mechanism

    @property
    def schedule(self) -> Any:
        """How batches were drawn."""
        return self.release.schedule

    @property
    def neighbouring(self) -> Neighbouring:
        """Which two data sets are compared."""
        return self.release.neighbouring

    @property
    def delta(self) -> float:
        """δ at which ε is given."""
        return self.release.delta

    @property
    def group_size(self) -> int:
        """Records of one person that are protected together."""
        return self.release.group_size

    def __str__(self) -> str:
        plain = self.to_dict()
        lines = [f"{self.release}; epsilon at delta {round_bound(self.delta, 3):.3g}"]
        for notion, figure in figures().values():
            if figure.column and notion.of(plain) is not None:
                value = notion.row(plain)[figure.key]
                text = "not defined" if value is None else notion.format(value)
                lines.append(f"  {figure.label}: {text}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """One JSON object; infinite values are the string "inf"."""
        plain: dict[str, Any] = json_ready(
            {
                "schema_version": SCHEMA_VERSION,
                **self.release.described(),
                "neighbouring": self.neighbouring.value,
                "group_size": self.group_size,
                "delta": self.delta,
                **self.values,
                "assumptions": list(self.assumptions),
                "reasons": self.reasons,
            }
        )
        return plain


def json_ready(value: Any) -> Any:
    """Containers with infinities as strings, NaN as null, and NumPy scalars as Python's."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {key: json_ready(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(item) for item in value]
    if isinstance(value, float | np.floating):
        number = float(value)
        if math.isnan(number):
            return None  # not defined; never a bound
        return number if math.isfinite(number) else ("inf" if number > 0 else "-inf")
    return value


def account(
    mechanism: Mechanism,
    schedule: Schedule,
    delta: float,
    *,
    prior_success: float = 0.1,
    group_size: int = 1,
) -> Account:
    """Accounts for a run in every notion.

    Args:
      mechanism: What is released at every step.
      schedule: How batches are drawn, and how many steps there are.
      delta: δ at which ε is given.
      prior_success: Success of the best blind guess, for the reconstruction bound.
      group_size: Number of records that belong to one person.
    """
    target = _validate.probability("delta", delta)
    prior = _validate.probability("prior_success", prior_success)
    run = MechanismRun(mechanism, schedule, target, prior, group_size)
    _ = run.pair  # a mechanism that was not told enough is a mistake, not an undefined notion
    return account_for(run)


def account_for(release: Release, among: Iterable[Notion] | None = None) -> Account:
    """Accounts for a release, of a mechanism or of a channel.

    Args:
      release: What was released.
      among: The notions; all that are installed by default.
    """
    ours = built_in()
    values: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    for notion in notions().values() if among is None else among:
        value, why = defined(notion, release, ours=ours.get(notion.key) is notion)
        if why is not None:
            reasons[notion.key] = why
        section, dot, name = notion.key.partition(".")
        if dot:
            values.setdefault(section, {})[name] = value
        else:
            values[section] = value
        values.update(notion.beside(value, release))
    return Account(
        release=release,
        values=values,
        reasons=reasons,
        assumptions=release.assumptions(),
    )
