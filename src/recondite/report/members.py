"""What a membership attack showed of one setting: beside a coin, on average and at the top.

The AUC averages over everybody. An attack that names one member in ten without a
mistake, and knows nothing of the others, hardly moves it: so the records of which it is surest are
looked at too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy.stats import hypergeom

from recondite.report.rows import Row, number, section
from recondite.report.words import chance, figure, score

__all__ = ["told_apart"]

_RATES = ("0.001", "0.01")  # of false positives, in rows
_MISS = 0.025  # as the interval of the AUC has on this side


def told_apart(rows: Sequence[Row]) -> tuple[bool | None, float, str]:
    """Whether it beats a coin, how far, and in words.

    None where that was not measured, or where too few were tried to tell.

    It does where the AUC's interval is above 1/2, or where so many members stand before so few
    others as an order without regard to membership has with a chance of 2.5% at most, over both
    rates of false positives and all seeds together. An attack that knows nothing is said to beat a
    coin in 5% of cases at most: that errs towards reporting an attack.

    Args:
      rows: Of one attack's setting, a seed each.
    """
    found = [section(row, "membership") for row in rows]
    auc, low, high = (_mean(found, key) for key in ("auc", "auc_low", "auc_high"))
    ends = "" if low is None or high is None else f", 95%: {score(low)}–{score(high)}"
    text = f"told members from others with an AUC of {figure(auc)} (blind 0.5{ends})"
    reach = 0.0 if auc is None else max(0.0, 2.0 * auc - 1.0)
    first = min((_first(part, rate) for part in found for rate in _RATES), default=_NOBODY)
    if first[0] * len(_RATES) * len(found) <= _MISS:
        _, _, named, others = first
        text += f" and named {chance(named)} of them beside {chance(others)} of others"
        return True, max(reach, named - others), text
    few = all(_too_few(part) for part in found)
    return None if low is None else low > 0.5 or (None if few else False), reach, text


_Named = tuple[float, float, float, float]
_NOBODY: _Named = (1.0, 0.0, 0.0, 0.0)


def _first(part: Row, rate: str) -> _Named:
    """The chance of so many members before so few others by luck; less the shares of both."""
    share = number(part.get(f"tpr_at_{rate}"))
    members, others = number(part.get("members")), number(part.get("nonmembers"))
    if share is None or not members or not others:
        return _NOBODY
    wrong = math.floor(float(rate) * others + 1e-9)
    right = round(share * members)
    both = int(members + others)
    luck = float(hypergeom.cdf(wrong, both, int(others), right + wrong))
    return luck, -share, share, wrong / others


def _mean(found: Sequence[Row], key: str) -> float | None:
    """Over seeds; None where one has no number."""
    values = [number(part.get(key)) for part in found]
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(values) else None


def _too_few(part: Row) -> bool:
    """Whether even a perfect order of members and others would not exclude a guess."""
    inside, others = (number(part.get(key)) for key in ("members", "nonmembers"))
    if inside is None or others is None:
        return False
    fewer, more = sorted((inside, others))
    if fewer >= 4 or not 0 <= fewer <= more < math.inf:
        return False
    return math.comb(int(fewer) + int(more), int(fewer)) <= 40  # of them 2.5% are one order
