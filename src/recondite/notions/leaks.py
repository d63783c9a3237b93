"""Leakage in nats, of one release and of the run: Bayes' capacity and mutual information."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recondite.notions.base import Figure, Line, Notion, Release, Scope

if TYPE_CHECKING:
    from recondite.notions.accounts import Account

__all__ = ["BayesCapacity", "MutualInformation"]

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
