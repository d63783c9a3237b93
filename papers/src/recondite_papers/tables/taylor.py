"""Tan et al. (2024), Eq. 17: how much of a gradient's change its first order leaves."""

from __future__ import annotations

import math

from recondite_papers.groups import Rows
from recondite_papers.tables.cells import Cell, Verdict, having

__all__ = ["first_order", "first_order_verdict", "order_of"]

_CLAIM = "Noise on data is adaptive noise on the parameters, to first order (Eq. 17)."
_TITLE = {"mlp": "sigmoid", "mlp2": "ReLU"}


def first_order(rows: Rows) -> list[Cell]:
    """The remainder's share of the change, median over records, by network and size of noise."""
    cells = []
    for row in rows:
        size = f"‖ξ‖ = {row['value']:g}"
        if row["noise"] == "natural":
            size = f"Natural, κ = {row['value']:g} (‖ξ‖ about {row['length']:.2g})"
        cells.append(
            Cell(
                f"{_TITLE[row['network']]}, {row['victim']}, {size}",
                None,
                row["remainder"],
                unit="share",
                why=f"{row['records']} digits; 90% of them below {row['remainder_90']:.2g}",
            )
        )
    return cells


def order_of(rows: Rows) -> float:
    """The power of ‖ξ‖ that the remainder falls with, between the two smallest sizes: 2 is told."""
    at = sorted((r["value"], r["remainder"]) for r in rows if r["noise"] == "length")
    (small, low), (large, high) = at[:2]
    return 1.0 + math.log(high / low) / math.log(large / small)


def first_order_verdict(rows: Rows) -> list[Verdict]:
    """What became of Eq. 17.

    Args:
      rows: Of the job "channel-taylor".
    """
    if len({(r["network"], r["victim"]) for r in rows}) < 4:
        return []
    said, smooth, close = [], [], []
    for network, title in _TITLE.items():
        own = having(rows, network=network)
        orders = [order_of(having(own, victim=v)) for v in ("untrained", "trained")]
        smooth.append(all(abs(order - 2.0) < 0.1 for order in orders))
        shares = []
        for state in ("untrained", "trained"):
            left = [100 * r["remainder"] for r in having(own, victim=state, noise="natural")]
            close.append(max(left) < 10.0)
            shares.append(f"{min(left):.0f} to {max(left):.0f}% {state}")
        said.append(
            f"{title}: the rest falls as ‖ξ‖^{orders[0]:.1f} and ‖ξ‖^{orders[1]:.1f}, and is "
            f"{' and '.join(shares)} at the noise of a Natural channel of 5 to 50 nats"
        )
    stands = "stands" if all(smooth) and all(close) else "in part" if any(close) else "falls"
    text = "; ".join(said) + ". The guarantee rests on Eq. 16 (data processing), not on this one"
    believe = "Close for smooth networks and little noise; wrong with ReLU."
    return [Verdict(_CLAIM, stands, text, believe)]
