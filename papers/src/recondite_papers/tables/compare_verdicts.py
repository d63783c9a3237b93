"""Biswas et al. (2025): utility against protection, and what became of the claims."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from recondite.numerics.ball import log_gaussian_ball_capacity
from recondite_papers.printed import compare as printed
from recondite_papers.tables import accounting, prediction
from recondite_papers.tables.cells import Verdict, find, mean
from recondite_papers.tables.compare import TITLE, attacked, trained

__all__ = ["equal_accuracy", "equal_capacity", "equal_signal", "trade_off", "verdicts"]

Rows = Sequence[dict[str, Any]]


def trade_off(accuracy: Rows, attacks: Rows, data: str) -> list[dict[str, Any]]:
    """(defence, value, accuracy, error, similarity) at batch 128, for the equal-notions figures."""
    out = []
    for row in attacks:
        if row["block"] != f"iga-128/{data}":
            continue
        useful = trained(accuracy, data, row["defence"], row["value"], 128)
        if useful is not None:
            out.append(
                {
                    "defence": row["defence"],
                    "value": row["value"],
                    "accuracy": 100 * mean(useful["accuracy"]),
                    "mse": row["mse_scaled_placed"],
                    "mse_matched": row["mse_scaled"],
                    "ssim": row["ssim_placed"],
                }
            )
    return out


def _at(points: list[dict[str, Any]], key: str, accuracy: float) -> float | None:
    """A curve's value at an accuracy, by interpolation between neighbours."""
    ordered = sorted(points, key=lambda p: float(p["accuracy"]))
    for left, right in pairwise(ordered):
        if left["accuracy"] <= accuracy <= right["accuracy"]:
            width = right["accuracy"] - left["accuracy"] or 1.0
            share = (accuracy - left["accuracy"]) / width
            return float(left[key] + share * (right[key] - left[key]))
    return None


def equal_accuracy(points: list[dict[str, Any]], key: str = "mse") -> list[tuple[float, Any, Any]]:
    """(accuracy, value under Gaussian, value under VMF) on a grid of half points."""
    curves = {kind: [p for p in points if p["defence"] == kind] for kind in ("gaussian", "vmf")}
    out = []
    for half in range(80, 190):
        pair = [_at(curves[kind], key, half / 2) for kind in ("gaussian", "vmf")]
        if None not in pair:
            out.append((half / 2, pair[0], pair[1]))
    return out


def _error_at(points: list[dict[str, Any]], kappa: float) -> float | None:
    """VMF's error at a κ, by interpolation in log κ."""
    line = sorted((p["value"], p["mse"]) for p in points if p["defence"] == "vmf")
    for (low, first), (high, last) in pairwise(line):
        if low <= kappa <= high:
            share = math.log(kappa / low) / math.log(high / low)
            return float(first + share * (last - first))
    return None


def equal_capacity(points: list[dict[str, Any]], radius: float) -> list[tuple[float, float, float]]:
    """(σ, error under Gaussian, error under VMF of equal Bayes' capacity).

    Args:
      points: Of :func:`trade_off`.
      radius: R of Theorem 5: 1 as the paper has it, the batch size for what leaks.
    """
    out = []
    for point in points:
        if point["defence"] != "gaussian" or not 0.15 < point["value"] < 1.3:
            continue
        log = log_gaussian_ball_capacity(accounting.DIM, radius / point["value"])
        other = _error_at(points, accounting.kappa_of_capacity(log))
        if other is not None:
            out.append((point["value"], point["mse"], other))
    return out


def equal_signal(points: list[dict[str, Any]], length: float) -> list[tuple[float, float, float]]:
    """(σ, error under Gaussian, error under VMF that hides the attacked gradient as much).

    Args:
      points: Of :func:`trade_off`.
      length: Of the average gradient that was attacked.
    """
    out = []
    for point in points:
        if point["defence"] != "gaussian" or not 0.1 < point["value"] < 1.3:
            continue
        ratio = length * 128 / (point["value"] * math.sqrt(accounting.DIM))
        # In many dimensions the mean cosine A of VMF noise has κ = pA/(1 - A²).
        cosine = ratio / math.hypot(1.0, ratio)
        other = _error_at(points, accounting.DIM * cosine / (1.0 - cosine * cosine))
        if other is not None:
            out.append((point["value"], point["mse"], other))
    return out


def _printed_pairs(points: dict[str, list[dict[str, Any]]]) -> list[tuple[float, float]]:
    """(accuracy of Gaussian - of VMF, error of VMF - of Gaussian) of Table IV's pairs."""
    out = []
    for found in points.values():
        by = {(p["defence"], p["value"]): p for p in found}
        for _, kappa, sigma in printed.TABLE_4:
            turned, noisy = by.get(("vmf", float(kappa))), by.get(("gaussian", sigma))
            if turned and noisy:
                out.append((noisy["accuracy"] - turned["accuracy"], turned["mse"] - noisy["mse"]))
    return out


def verdicts(accuracy: Rows, attacks: Rows, signal: Rows = ()) -> list[Verdict]:
    """What the rows say of the paper's claims; "not run" where they are missing.

    Args:
      accuracy: Of the job "compare-accuracy".
      attacks: Of the job "compare-iga".
      signal: Of the job "compare-signal", which says why.
    """
    claims = printed.CLAIMS
    points = {data: trade_off(accuracy, attacks, data) for data in TITLE}
    pairs = _printed_pairs(points)
    if not pairs:
        return [Verdict(text, "not run", "") for text in claims.values()]
    gaps, errors = zip(*pairs, strict=True)
    out = [
        Verdict(
            claims["utility"],
            "stands" if min(gaps) > 0 else "in part",
            f"by {min(gaps):.0f} to {max(gaps):.0f} points for the printed pairs, and more at "
            "truly equal tight ε (κ = √p/2σ), where κ is smaller still",
            "True: at equal ε, Gaussian noise costs less accuracy.",
        ),
        Verdict(
            claims["protection"],
            "stands for the printed pairs" if min(errors) > 0 else "in part",
            f"MSE higher by {min(errors):.2f} to {max(errors):.2f} (they are not equal in ε, "
            "see below); but see equal utility",
            "VMF was safer because it was noisier: ε was not equal.",
        ),
        _equal_epsilon(points),
    ]
    said, worst = [], 0.0
    for radius, label in ((1.0, "as computed (R = 1)"), (128.0, "of what leaks (R = L)")):
        found = [abs(a - b) for data in TITLE for _, a, b in equal_capacity(points[data], radius)]
        if found:
            said.append(f"by up to {max(found):.2f} with the capacity {label}")
            worst = max(worst, *found)
    if said:
        text = f"errors at equal capacity differ {' and '.join(said)}"
        stands = "falls" if worst > 0.2 else "stands"
        believe = "Equal capacity is not equal error; as a ranking it is good."
        out.append(Verdict(claims["capacity"], stands, text, believe))
    out += prediction.verdict(attacks, signal)
    out += _matched(points, signal)
    clip = [attacked(attacks, data, "clip", 0.0, 128) for data in TITLE]
    if all(clip):
        text = ", ".join(f"SSIM {row['ssim']:.2f} on {row['data']}" for row in clip)
        text += " (images in any order)"
        out.append(Verdict(claims["clipping"], "stands", text, "True: clipping is no defence."))
    text = "a theorem; sampling needs the product law"
    out.append(Verdict(claims["flat"], "stands", text, "True, and proved."))
    return out


def _equal_epsilon(points: dict[str, list[dict[str, Any]]]) -> Verdict:
    """Errors of pairs of truly equal tight ε: κ = √p/2σ."""
    gaps = []
    for found in points.values():
        for point in found:
            if point["defence"] == "gaussian" and 0.15 < point["value"] < 1.3:
                other = _error_at(found, math.sqrt(accounting.DIM) / (2 * point["value"]))
                gaps += [] if other is None else [other - point["mse"]]
    if not gaps:
        return Verdict(printed.CLAIMS["epsilon"], "not run", "")
    text = (
        f"at truly equal tight ε VMF's MSE is {min(gaps):+.2f} to {max(gaps):+.2f} from Gaussian's"
    )
    return Verdict(
        printed.CLAIMS["epsilon"],
        "stands" if max(gaps) > _ALIKE else "falls",
        text,
        "True: ε bounds reconstruction, it does not rank mechanisms.",
    )


_ALIKE = 0.1  # errors that differ by less are called the same: that much they differ by chance
_SEEN = 0.02  # SSIM in the right place: below it under both, there is nothing to tell apart


def _matched(points: dict[str, list[dict[str, Any]]], signal: Rows) -> list[Verdict]:
    """Does VMF protect better where both are as useful, and the attack sees anything?"""
    seen: list[tuple[str, float]] = []
    blind = 0
    for data, title in TITLE.items():
        likeness = {at: max(a, b) for at, a, b in equal_accuracy(points[data], "ssim")}
        for at, noisy, turned in equal_accuracy(points[data]):
            if likeness[at] <= _SEEN:
                blind += 1
            else:
                seen.append((f"{title} at {at:g}%", turned - noisy))
    if not seen:
        return []
    same = [gap for _, gap in seen if abs(gap) < _ALIKE]
    name, most = max(seen, key=lambda pair: pair[1])
    text = (
        f"on a grid of half points the attack sees something (SSIM above {_SEEN}) at {len(seen)} "
        f"accuracies and nothing under either at {blind}. Where it does, VMF's MSE is "
        f"{min(gap for _, gap in seen):+.2f} to {most:+.2f} from Gaussian's, most for {name}, and "
        f"within {_ALIKE} at {len(same)}"
    )
    gaps = [
        abs(noisy - turned)
        for data in TITLE
        for row in [find(signal, data=data, steps=0)]
        if row is not None
        for _, noisy, turned in equal_signal(points[data], row["length"])
    ]
    if gaps and most >= _ALIKE:
        text += (
            ". Gaussian noise hides the first gradients less, which are the longest; at equal "
            f"signal over noise in what is attacked the errors agree to {max(gaps):.2f}"
        )
    above = [gap for _, gap in seen if gap >= _ALIKE]
    stands = "stands" if len(above) == len(seen) else "in part" if above else "falls"
    believe = "Where the attack sees anything, VMF leaks less in long gradients."
    return [Verdict(printed.CLAIMS["matched"], stands, text, believe if above else "Not shown.")]
