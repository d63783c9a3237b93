"""What one release and the run can tell: Bayes' capacity, information, ReRo, metric privacy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from recondite import _validate
from recondite.mechanisms import MetricPrivacy
from recondite.notions.base import Figure, Line, Notion, Release, Scope
from recondite.notions.bounds import plain_figure

if TYPE_CHECKING:
    from recondite.notions.accounts import Account

__all__ = ["BayesCapacity", "MetricGuarantee", "MutualInformation", "ReconstructionRobustness"]

_SAME = "The same for everything that was released."


class _Leakage(Notion):
    """A leakage that a release states for itself and for its run; both or neither are defined."""

    unit = "nats"
    scoped = True

    def compute(self, release: Release) -> dict[str, float]:
        """Both scopes."""
        return {
            "per_release": self.measure(release, "release"),
            "run": self.measure(release, "run"),
        }

    def undefined(self, release: Release) -> dict[str, None]:
        """Neither."""
        del release
        return {"per_release": None, "run": None}

    def _line(self, account: Account, about: str) -> list[Line]:
        value: Any = self.of(account.values)
        return [(self.label, self.format(value["per_release"]), self.format(value["run"]), about)]


class BayesCapacity(_Leakage):
    """Log of Bayes' capacity: the largest min-entropy leakage, for any prior."""

    key = "log_bayes_capacity"
    label = "log Bayes' capacity"
    promise = "No guess becomes likelier than by this factor, in logarithms, for any prior."
    target = "bayes-capacity"
    figures = (
        Figure(
            "log_bayes_capacity_release",
            "log Bayes’ capacity, one release (nats)",
            "log capacity, release",
            "How much one release can raise the success of a single best guess, for any prior.",
            part="per_release",
            run=False,
        ),
        Figure(
            "log_bayes_capacity_run",
            "log Bayes’ capacity, whole run (nats)",
            "log capacity, run",
            _SAME,
            part="run",
            column="log capacity",
        ),
    )

    def measure(self, release: Release, scope: Scope = "run") -> float:
        """As the release says."""
        return release.log_bayes_capacity(scope)

    def lines(self, account: Account) -> list[Line]:
        """One line."""
        return self._line(account, f"log gain of any guess at {account.release.subject} (nats)")


class MutualInformation(_Leakage):
    """Mutual information between what is protected and what is released."""

    key = "mutual_information"
    label = "mutual information"
    promise = "On average the releases tell no more than this about what they protect."
    target = "mutual-information"
    figures = (
        Figure(
            "mutual_information_release",
            "mutual information, one release (nats)",
            "information, release",
            "What one release can tell about the data, on average.",
            part="per_release",
            run=False,
        ),
        Figure(
            "mutual_information_run",
            "mutual information, whole run (nats)",
            "information, run",
            _SAME,
            part="run",
            column="information",
        ),
    )

    def measure(self, release: Release, scope: Scope = "run") -> float:
        """As the release says."""
        return release.mutual_information(scope)

    def lines(self, account: Account) -> list[Line]:
        """One line."""
        return self._line(account, f"nats about {account.release.subject}")


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


class MetricGuarantee(Notion):
    """Log-densities differ by at most a constant times the distance of what is protected."""

    key = "metric_privacy"
    label = "metric privacy"
    promise = "The closer two inputs are, the harder they are to tell apart."
    figures = (
        Figure(
            "metric_privacy",
            "metric privacy, one release",
            "metric privacy",
            "The factor between the distance of two inputs and how well they can be told apart.",
            part="constant",
            axis=False,
            run=False,
        ),
    )

    def compute(self, release: Release) -> MetricPrivacy:
        """As the release says."""
        return release.metric_privacy()

    def lines(self, account: Account) -> list[Line]:
        """One line where it is defined."""
        value: MetricPrivacy | None = self.of(account.values)
        if value is None:
            return []
        per_record = f"a record: {self.format(value.per_record)}"
        about = f"times distance of {value.between}; {per_record}"
        return [(self.label, self.format(value.constant), "–", about)]
