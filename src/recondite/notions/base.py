"""What a notion of privacy states and offers, and what a release must supply to have it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from recondite import _validate
from recondite.laws import LossLaw
from recondite.mechanisms import MetricPrivacy, Neighbouring, UndefinedNotionError
from recondite.notions.bounds import Direction, format_bound
from recondite.notions.pairs import Pair

if TYPE_CHECKING:
    from recondite.notions.accounts import Account

__all__ = ["Figure", "Line", "Notion", "Release", "Scope", "Unsampled"]

Scope = Literal["release", "run"]
# A line of the account's table: name, of one release, of the run, what it is about.
Line = tuple[str, str, str, str]


@dataclass(frozen=True)
class Unsampled:
    """One release before sampling, for accountants that amplify and compose by theorems.

    Attributes:
      law: The unsampled law of one release.
      rate: The probability with which a record takes part.
      releases: How often it can take part.
      amplified: Whether Poisson sampling of batches with noise on the average amplifies it.
    """

    law: LossLaw
    rate: float
    releases: int
    amplified: bool


class Release(ABC):
    """Everything that left the building, as a notion sees it: of a mechanism or of a channel.

    What a defence cannot supply raises :class:`UndefinedNotionError` with the reason.

    Attributes:
      mechanism: What adds the noise: a mechanism, or a fitted channel.
      schedule: How its batches were drawn; None where only one release is spoken of.
      delta: δ, for ε.
      prior_success: Success of the best guess without the release, for reconstruction.
      group_size: Records of one person that are protected together.
      subject: What capacity and information speak of.
    """

    mechanism: Any
    schedule: Any
    delta: float
    prior_success: float
    group_size: int
    subject: str

    @property
    @abstractmethod
    def neighbouring(self) -> Neighbouring:
        """Which two data sets the pair compares."""

    @property
    @abstractmethod
    def releases(self) -> int:
        """How many releases the bounds count."""

    @property
    @abstractmethod
    def pair(self) -> Pair:
        """The dominating pair of the whole run; computed once."""

    @abstractmethod
    def log_bayes_capacity(self, scope: Scope) -> float:
        """Log Bayes' capacity of one release or of the run, in nats: an upper bound."""

    @abstractmethod
    def mutual_information(self, scope: Scope) -> float:
        """Mutual information of one release or of the run, in nats: an upper bound."""

    @abstractmethod
    def metric_privacy(self) -> MetricPrivacy:
        """The metric guarantee of one release."""

    @abstractmethod
    def unsampled(self) -> Unsampled:
        """One release before sampling."""

    @abstractmethod
    def described(self) -> Mapping[str, object]:
        """The account's ``mechanism``, ``parameters`` and ``schedule``, and any further keys."""

    @abstractmethod
    def assumptions(self) -> tuple[str, ...]:
        """What the bounds rest on, for people."""


@dataclass(frozen=True)
class Figure:
    """One number of a notion, as the rows of a comparison and the report's axes have it.

    Attributes:
      key: Its name in a flat row.
      label: Its name on an axis, with its unit.
      short: Its name in the head of a table.
      about: One sentence for the reader of an axis.
      part: Which part of the notion's value it is; None for all of it.
      column: Its heading where the command line has room for few; "" where it is left out.
      log: Whether it spans orders of magnitude.
      axis: Whether the report plots it.
      run: Whether it speaks of the whole run, not of one release.
      vacuous: The value from which on it promises nothing.
      undefended: Its value where nothing protects; None where it is a setting of the bound, not a
        bound.
    """

    key: str
    label: str
    short: str
    about: str
    part: str | None = None
    column: str = ""
    log: bool = True
    axis: bool = True
    run: bool = True
    vacuous: float = math.inf
    undefended: float | None = math.inf


class Notion(ABC):
    """A notion of privacy. Written once, it is in accounts, tables, studies and the report.

    Guarantee: what :meth:`compute` returns is a bound that holds for the release that it is given,
    on the side that ``direction`` says, or it raises :class:`UndefinedNotionError`.

    Attributes:
      key: Where its value stands in an account; dots lead into a section ("epsilon.pld").
      label: Its name for people.
      unit: Of its value; "" for a pure number.
      direction: "upper": the value bounds what leaks, and smaller is safer. "lower": it bounds
        what an attacker must get wrong, and larger is safer.
      promise: What a value promises, in one plain sentence.
      target: Its name as a target of calibration; None where noise cannot be calibrated to it.
      scoped: Whether a target may speak of one release alone, which needs no schedule.
      share: Whether a value is a probability, so that a target lies below 1.
      needs_delta: Whether noise can be calibrated to it only at a δ that was given.
      figures: Its numbers in rows and on axes.
    """

    key: ClassVar[str]
    label: ClassVar[str]
    unit: ClassVar[str] = ""
    direction: ClassVar[Direction] = "upper"
    promise: ClassVar[str]
    target: ClassVar[str | None] = None
    scoped: ClassVar[bool] = False
    share: ClassVar[bool] = False
    needs_delta: ClassVar[bool] = False
    figures: ClassVar[tuple[Figure, ...]] = ()

    @abstractmethod
    def compute(self, release: Release) -> Any:
        """Its value: a number, a mapping of parts, or a dataclass.

        Raises:
          UndefinedNotionError: With the reason, where the release has no such value.
        """

    def undefined(self, release: Release) -> Any:
        """What stands in the account where there is no value."""
        del release

    def beside(self, value: Any, release: Release) -> Mapping[str, object]:
        """Further keys of the account that belong to a value, or to there being none."""
        del value, release
        return {}

    def measure(self, release: Release, scope: Scope = "run") -> float:
        """Its value as the one number that noise is calibrated to."""
        del scope
        return float(self.compute(release))

    def check_target(self, value: float, prior_success: float) -> float:
        """A target for :meth:`measure`, checked."""
        del prior_success
        name = self.target or self.key
        return (_validate.probability if self.share else _validate.positive)(name, value)

    def met(self, value: float, target: float) -> bool:
        """Whether a value is on the safe side of a target."""
        return value <= target if self.direction == "upper" else value >= target

    def promises(self, figure: Figure, value: float) -> bool:
        """Whether a figure's value says anything."""
        return value < figure.vacuous if self.direction == "upper" else value > figure.vacuous

    def format(self, value: float | str | None, digits: int = 4) -> str:
        """A value for people, rounded to the safe side."""
        return format_bound(value, digits, self.direction)

    def lines(self, account: Account) -> list[Line]:
        """Its lines in the table of an account."""
        unit = f" ({self.unit})" if self.unit else ""
        return [(f"{self.label}{unit}", "–", self.format(self.of(account.values)), self.promise)]

    def remark(self, account: Mapping[str, Any]) -> str:
        """What stands beside its number where a table has only one; from an account's JSON."""
        del account
        return ", ".join(filter(None, (self.unit, "whole run")))

    def of(self, account: Mapping[str, Any]) -> Any:
        """Its value in an account, as object or JSON; None where it is not there."""
        found: Any = account
        for name in self.key.split("."):
            found = found.get(name) if isinstance(found, Mapping) else None
        return found

    def row(self, account: Mapping[str, Any]) -> dict[str, Any]:
        """Its figures from an account's JSON, of this or an earlier version; None for no value."""
        value = self.of(account)
        return {
            figure.key: _part(value, figure.part) if figure.part else value
            for figure in self.figures
        }


def _part(value: Any, part: str) -> Any:
    return value.get(part) if isinstance(value, Mapping) else None


def defined(notion: Notion, release: Release, *, ours: bool) -> tuple[Any, str | None]:
    """A notion's value, or what stands for it and why.

    Another package's notion that fails has no value; one of ours that fails says what is wrong
    with the request.
    """
    try:
        return notion.compute(release), None
    except UndefinedNotionError as reason:
        return notion.undefined(release), str(reason)
    except Exception as error:
        if ours:
            raise
        return None, f"{type(error).__name__}: {' '.join(str(error).split())}"
