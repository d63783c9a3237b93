"""Biswas et al. (2025): utility against protection, and what became of the claims."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from recondite.numerics.ball import log_gaussian_ball_capacity
from recondite_papers.printed import compare as printed
from recondite_papers.tables import accounting, prediction
from recondite_papers.tables.cells import Row, Verdict, mean
from recondite_papers.tables.compare import TITLE, attacked, trained
from recondite_papers.tables.intruder import marked
from recondite_papers.tables.intruder import verdict as under_intruder

__all__ = [
    "equal_accuracy", "equal_capacity", "equal_signal", "failing", "gain_points", "matched",
    "trade_off", "verdicts",
]  # fmt: skip

Rows = Sequence[Row]


def trade_off(accuracy: Rows, attacks: Rows, data: str) -> list[Row]:
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


def _at(points: list[Row], key: str, accuracy: float) -> float | None:
    """A curve's value at an accuracy, by interpolation between neighbours."""
    ordered = sorted(points, key=lambda p: float(p["accuracy"]))
    for left, right in pairwise(ordered):
        if left["accuracy"] <= accuracy <= right["accuracy"]:
            width = right["accuracy"] - left["accuracy"] or 1.0
            share = (accuracy - left["accuracy"]) / width
            return float(left[key] + share * (right[key] - left[key]))
    return None


def equal_accuracy(points: list[Row], key: str = "mse") -> list[tuple[float, Any, Any]]:
    """(accuracy, value under Gaussian, value under VMF) on a grid of half points."""
    curves = {kind: [p for p in points if p["defence"] == kind] for kind in ("gaussian", "vmf")}
    out = []
    for half in range(80, 190):
        pair = [_at(curves[kind], key, half / 2) for kind in ("gaussian", "vmf")]
        if None not in pair:
            out.append((half / 2, pair[0], pair[1]))
    return out


def _error_at(points: list[Row], kappa: float) -> float | None:
    """VMF's error at a κ, by interpolation in log κ."""
    line = sorted((p["value"], p["mse"]) for p in points if p["defence"] == "vmf")
    for (low, first), (high, last) in pairwise(line):
        if low <= kappa <= high:
            share = math.log(kappa / low) / math.log(high / low)
            return float(first + share * (last - first))
    return None


def equal_capacity(points: list[Row], radius: float) -> list[tuple[float, float, float]]:
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


def equal_signal(points: list[Row], length: float) -> list[tuple[float, float, float]]:
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


def _printed_pairs(points: dict[str, list[Row]]) -> list[tuple[float, float]]:
    """(accuracy of Gaussian - of VMF, error of VMF - of Gaussian) of Table IV's pairs."""
    out = []
    for found in points.values():
        by = {(p["defence"], p["value"]): p for p in found}
        for _, kappa, sigma in printed.TABLE_4:
            turned, noisy = by.get(("vmf", float(kappa))), by.get(("gaussian", sigma))
            if turned and noisy:
                out.append((noisy["accuracy"] - turned["accuracy"], turned["mse"] - noisy["mse"]))
    return out


def verdicts(
    accuracy: Rows, attacks: Rows, signal: Rows = (), blind: Rows = (), intruder: Rows = ()
) -> list[Verdict]:
    """What the rows say of the paper's claims; "not run" where they are missing.

    Args:
      accuracy: Of the job "compare-accuracy".
      attacks: Of the job "compare-iga".
      signal: Of the job "compare-signal", which says why.
      blind: Of the job "blind": what a guess that sees nothing scores.
      intruder: Of the job "intruder": what the strongest attacks known gain.
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
            f"see below){failing(points, blind)}",
            "VMF was noisier: ε was not equal, and the attack failed anyway.",
        ),
        _equal_epsilon(points, accuracy, blind, intruder),
    ]
    said, worst = [], 0.0
    for radius, label in ((1.0, "as computed (R = 1)"), (128.0, "of what leaks (R = L)")):
        found = [abs(a - b) for data in TITLE for _, a, b in equal_capacity(points[data], radius)]
        if found:
            said.append(f"by up to {max(found):.2f} with the capacity {label}")
            worst = max(worst, *found)
    if said:
        text = f"errors at equal capacity differ {' and '.join(said)}{failing(points, blind)}"
        stands = "falls" if worst > 0.2 else "stands"
        believe = "Equal capacity is not equal error."
        out.append(Verdict(claims["capacity"], stands, text, believe))
    out += prediction.verdict(attacks, signal, blind, intruder)
    out += matched(points, blind, accuracy, intruder)
    out += under_intruder(intruder, attacks, "compare")
    clip = [attacked(attacks, data, "clip", 0.0, 128) for data in TITLE]
    if all(clip):
        text = ", ".join(f"SSIM {row['ssim']:.2f} on {row['data']}" for row in clip)
        text += " (images in any order)"
        out.append(Verdict(claims["clipping"], "stands", text, "True: clipping is no defence."))
    text = "a theorem; sampling needs the product law"
    out.append(Verdict(claims["flat"], "stands", text, "True, and proved."))
    return out


def failing(points: dict[str, list[Row]], blind: Rows) -> str:
    """In how many noisy settings the attack errs more than a guess that sees nothing."""
    said = []
    for data, title in TITLE.items():
        least, _ = prediction.floor(blind, data)
        noisy = [p for p in points[data] if p["defence"] in ("gaussian", "vmf")]
        if least and noisy:
            worse = sum(p["mse"] >= least for p in noisy)
            said.append(f"{worse} of {len(noisy)} noisy settings on {title} ({least:.2f})")
    return f"; the attack's MSE is above the mean image's in {' and '.join(said)}" if said else ""


def _equal_epsilon(
    points: dict[str, list[Row]], accuracy: Rows, blind: Rows, intruder: Rows
) -> Verdict:
    """Errors of pairs of truly equal tight ε, κ = √p/2σ; the intruder's gains where they exist."""
    claim, gaps = printed.CLAIMS["epsilon"], []
    for found in points.values():
        for point in found:
            if point["defence"] == "gaussian" and 0.15 < point["value"] < 1.3:
                other = _error_at(found, math.sqrt(accounting.DIM) / (2 * point["value"]))
                gaps += [] if other is None else [other - point["mse"]]
    if not gaps:
        return Verdict(claim, "not run", "")
    text = (
        f"at truly equal tight ε VMF's MSE is {min(gaps):+.2f} to {max(gaps):+.2f} from "
        f"Gaussian's{failing(points, blind)}"
    )
    shares = _gains_at_equal_epsilon(accuracy, intruder)
    if not shares:
        return Verdict(
            claim, "undecided", text, "Undecided: errors of an attack worse than a guess."
        )
    text += (
        f". The intruder's gain at equal ε (pooled) is {min(shares):+.2f} to {max(shares):+.2f} of "
        f"the way to a copy from Gaussian's in {len(shares)} pairs{marked(intruder)}"
    )
    return Verdict(
        claim,
        "stands" if max(map(abs, shares)) > _GAIN else "falls",
        text,
        "True: ε bounds reconstruction, it does not rank mechanisms."
        if max(map(abs, shares)) > _GAIN
        else "Equal ε was equal gain here.",
    )


def _gains_at_equal_epsilon(accuracy: Rows, intruder: Rows) -> list[float]:
    """VMF's gain less Gaussian's at κ = √p/2σ, VMF's between its neighbours in log κ."""
    out = []
    for data in TITLE:
        found = gain_points(accuracy, intruder, data)
        named = [{**point, "mse": point["gain"]} for point in found]
        for point in named:
            if point["defence"] == "gaussian":
                other = _error_at(named, math.sqrt(accounting.DIM) / (2 * point["value"]))
                out += [] if other is None else [other - point["mse"]]
    return out


_GAIN = 0.05  # shares of the way to a copy that differ by less are called the same


def gain_points(accuracy: Rows, intruder: Rows, data: str) -> list[Row]:
    """(defence, value, accuracy, gain) of the intruder at batch 128, all releases of a run pooled.

    Gaussian noise is the same in every batch to one who knows the others' records.
    """
    out = []
    for row in intruder:
        if row["study"] != "compare" or row["data"] != data or row["releases"] == 1:
            continue
        if row["defence"] == "vmf" and row["batch"] != 128:
            continue
        useful = trained(accuracy, data, row["defence"], row["value"], 128)
        if useful is not None:
            point = {"defence": row["defence"], "value": row["value"], "gain": row["share"]}
            out.append({**point, "accuracy": 100 * mean(useful["accuracy"])})
    return out


def matched(
    points: dict[str, list[Row]], blind: Rows, accuracy: Rows = (), intruder: Rows = ()
) -> list[Verdict]:
    """Does VMF protect better where both are as useful, and the attack beats a blind guess?

    Where the paper's attack errs more than the mean image under both defences, the difference of
    its errors is not counted. The intruder's gains decide where they are there.
    """
    counted: list[tuple[str, float]] = []
    lost: list[float] = []
    for data, title in TITLE.items():
        least = prediction.floor(blind, data)
        alike = {at: (a, b) for at, a, b in equal_accuracy(points[data], "ssim")}
        for at, noisy, turned in equal_accuracy(points[data]):
            best = min(noisy, turned), max(alike[at])
            if prediction.beats(*best, least):
                counted.append((f"{title} at {at:g}%", turned - noisy))
            else:
                lost.append(turned - noisy)
    if not counted and not lost:
        return []
    text = (
        f"on a grid of half points the paper's attack beats the mean image at {len(counted)} of "
        f"{len(counted) + len(lost)} accuracies, under either defence"
    )
    if counted:
        name, most = max(counted, key=lambda pair: pair[1])
        least_gap = min(gap for _, gap in counted)
        text += f"; there VMF's MSE is {least_gap:+.2f} to {most:+.2f} from Gaussian's ({name})"
    if lost:
        where = f"the other {len(lost)}" if counted else f"all {len(lost)}"
        text += (
            f". At {where} VMF's MSE is {min(lost):+.2f} to {max(lost):+.2f} from "
            "Gaussian's, errors of an attack that is worse than a guess: they show no protection"
        )
    pairs = _gains_at_equal_accuracy(accuracy, intruder)
    if not pairs:
        believe = "Undecided: the attack behind it is worse than a guess."
        return [Verdict(printed.CLAIMS["matched"], "undecided", text, believe)]
    gaps = [noisy - turned for _, noisy, turned in pairs]
    more, fewer = sum(g > _GAIN for g in gaps), sum(g < -_GAIN for g in gaps)
    name, noisy, turned = max(pairs, key=lambda pair: abs(pair[1] - pair[2]))
    text += (
        ". The intruder, who knows the defence and the others of the batch, gains from releases at "
        f"the initial weights, at equal accuracy, more against Gaussian noise at {more} of "
        f"{len(pairs)} accuracies, more against VMF at {fewer}, and the same within {_GAIN:g} at "
        f"the rest; most apart for {name}: {noisy:.2f} of the way from the blind guess to a copy "
        f"against Gaussian, {turned:.2f} against VMF{marked(intruder)}. Initial weights are where "
        "the average gradient is longest, and VMF noise with it: over whole runs the two are level "
        "([the frontier](frontier.md))"
    )
    stands = "stands" if not fewer and more > len(pairs) / 2 else (
        "falls" if more <= fewer else "in part")  # fmt: skip
    believe = {
        "stands": "VMF leaks less at the first step; over runs they are level.",
        "in part": "At some accuracies only; at others both leak alike.",
        "falls": "No: at equal accuracy VMF protects no better.",
    }[stands]
    return [Verdict(printed.CLAIMS["matched"], stands, text, believe)]


def _gains_at_equal_accuracy(accuracy: Rows, intruder: Rows) -> list[tuple[str, float, float]]:
    """(where, gain against Gaussian, gain against VMF) on the grid, where both curves have it."""
    out = []
    for data, title in TITLE.items():
        found = gain_points(accuracy, intruder, data)
        for at, noisy, turned in equal_accuracy(found, "gain"):
            out.append((f"{title} at {at:g}%", float(noisy), float(turned)))
    return out
