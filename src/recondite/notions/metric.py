"""Metric privacy of one release."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recondite.mechanisms import MetricPrivacy
from recondite.notions.base import Figure, Line, Notion, Release

if TYPE_CHECKING:
    from recondite.notions.accounts import Account

__all__ = ["MetricGuarantee"]


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
