"""Reconstruction robustness: the success of any attacker who would rebuild a record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from recondite import _validate
from recondite.notions.base import Figure, Line, Notion, Release, Scope
from recondite.notions.bounds import plain_figure

if TYPE_CHECKING:
    from recondite.notions.accounts import Account

__all__ = ["ReconstructionRobustness"]


class ReconstructionRobustness(Notion):
    """ReRo: at most 1 - f(r), f the trade-off function and r the success of a guess unaided."""

    key = "rero"
    label = "reconstruction (ReRo)"
    promise = "No attack rebuilds a record more often than this."
    target = "rero"
    share = True
    figures = (
        Figure(
            "rero_prior",
            "success of a guess unaided",
            "unaided",
            "How often a record is rebuilt by somebody who has seen nothing.",
            part="prior",
            log=False,
            axis=False,
            undefended=None,
        ),
        Figure(
            "rero_bound",
            "reconstruction success, at most (ReRo)",
            "ReRo",
            "The chance that any attack rebuilds a record, for the stated success unaided.",
            part="bound",
            column="ReRo",
            log=False,
            vacuous=0.99,
            undefended=1.0,
        ),
    )

    def compute(self, release: Release) -> dict[str, float]:
        """For the prior of the release."""
        return {"prior": release.prior_success, "bound": self.measure(release)}

    def undefined(self, release: Release) -> dict[str, float | None]:
        """The prior alone."""
        return {"prior": release.prior_success, "bound": None}

    def measure(self, release: Release, scope: Scope = "run") -> float:
        """Of the pair."""
        del scope
        return release.pair.success(_validate.probability("prior_success", release.prior_success))

    def check_target(self, value: float, prior_success: float) -> float:
        """A probability above that of a guess unaided."""
        goal = _validate.probability("rero", value)
        if goal <= _validate.probability("prior_success", prior_success):
            raise ValueError(
                f"rero must lie between {prior_success:g}, that of a guess unaided, and 1, got "
                f"{value:g}: ask for more than prior_success"
            )
        return goal

    def lines(self, account: Account) -> list[Line]:
        """With the success of a guess unaided."""
        value: Any = self.of(account.values)
        about = f"success of an attacker who guesses right {_share(value['prior'])} unaided"
        return [(self.label, "–", self.format(value["bound"]), about)]

    def remark(self, account: Mapping[str, Any]) -> str:
        """The success of a guess unaided."""
        prior = self.of(account)["prior"]
        return "" if prior is None else f"where a guess is right {_share(prior)} unaided"


def _share(probability: float) -> str:
    return f"{plain_figure(100 * probability)}% of the time"
