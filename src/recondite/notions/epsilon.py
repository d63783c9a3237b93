"""ε of the run: tight, through the Rényi curve, and pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from recondite.notions.base import Figure, Line, Notion, Release
from recondite.notions.bounds import round_bound

if TYPE_CHECKING:
    from recondite.notions.accounts import Account

__all__ = ["PureEpsilon", "RenyiEpsilon", "TightEpsilon"]


class TightEpsilon(Notion):
    """ε(δ) by the composed privacy-loss distribution, the worse of both directions."""

    key = "epsilon.pld"
    label = "ε, tight"
    promise = "Nobody can tell well whether one record took part, except with probability δ."
    target = "epsilon"
    needs_delta = True
    figures = (
        Figure(
            "epsilon",
            "ε of the run, tight",
            "ε",
            "How well anyone can tell whether one record took part, at the δ of the run.",
            column="ε",
        ),
    )

    def compute(self, release: Release) -> float:
        """Of the pair."""
        return release.pair.epsilon(release.delta)

    def lines(self, account: Account) -> list[Line]:
        """With what it is about telling."""
        size = account.group_size
        whose = "one record" if size == 1 else f"{size} records"
        telling = f"telling whether {whose} took part"
        if account.neighbouring.value.startswith("replace"):
            telling = f"telling {whose} from others in their place"
        return [(self.label, "–", self.format(self.of(account.values)), telling)]

    def remark(self, account: Mapping[str, Any]) -> str:
        """At which δ."""
        delta = account["delta"]
        return "" if delta is None else f"at δ = {round_bound(delta, 3):.3g}"


class RenyiEpsilon(Notion):
    """ε(δ) through the exact Rényi curve at its best real order: never below the tight one."""

    key = "epsilon.rdp"
    label = "ε, Rényi"
    promise = "The promise of ε by a looser route, through Rényi divergences."
    figures = (
        Figure(
            "epsilon_rdp",
            "ε of the run, by Rényi accounting",
            "ε (Rényi)",
            "The same promise through Rényi divergences: never smaller than the tight one.",
        ),
    )

    def compute(self, release: Release) -> float:
        """Of the pair."""
        return release.pair.renyi_epsilon(release.delta)[0]

    def beside(self, value: float | None, release: Release) -> Mapping[str, object]:
        """The order that gave it."""
        if value is None or not math.isfinite(value):
            return {"rdp_order": None}
        return {"rdp_order": release.pair.renyi_epsilon(release.delta)[1]}

    def lines(self, account: Account) -> list[Line]:
        """With its order."""
        order = f" (order {account.rdp_order:.3g})" if account.rdp_order else ""
        value = self.format(self.of(account.values))
        return [(f"{self.label}{order}", "–", value, "the same, by a looser route")]


class PureEpsilon(Notion):
    """ε at δ = 0: the largest privacy loss that is possible at all."""

    key = "epsilon.pure"
    label = "ε, pure (δ = 0)"
    promise = "The promise of ε without any exception."

    def compute(self, release: Release) -> float:
        """Of the pair."""
        return release.pair.supremum

    def lines(self, account: Account) -> list[Line]:
        """One line."""
        return [(self.label, "–", self.format(self.of(account.values)), "the same, without δ")]
