"""Tan et al. (2024): what became of the claims about LeNet, and what noise drawn once costs."""

from __future__ import annotations

from collections.abc import Sequence

from recondite_papers.printed import channel as tan
from recondite_papers.tables.cells import Row, Verdict, find, mean

__all__ = ["of_lenet", "once_costs", "strongest"]

Rows = Sequence[Row]
NOT_RUN = "not run"
_NATURAL = (50.0, 100.0, 200.0, 300.0)


def of_lenet(accuracy: Rows, inversion: Rows, guide: Rows) -> list[Verdict]:
    """What the rows say of each claim.

    Args:
      accuracy: Of the job "channel-accuracy".
      inversion: Of the job "channel-inversion".
      guide: Of the job "channel-guidelines".
    """
    return [
        _capacity(accuracy, inversion),
        *_rounds(accuracy),
        *_stronger(accuracy, inversion),
        *_batches(guide),
        *_compression(guide),
        Verdict(
            tan.CLAIMS["bound"],
            "stands, but is empty",
            "κ = 300 and n = 10,000 allow an attacker everything; noise drawn once leaks κ in all "
            "(erratum 16)",
            "Draw noise once: then κ bounds all uses of a record.",
        ),
        Verdict(
            "The DP baselines have capacities 100 to 1,500, equal to the channels'.",
            "falls",
            "Theorem 4 loses a ½: 50 to 750 (erratum 15). And they are per batch, where a "
            "channel's κ is per record: at B = 64 the two differ by about 2·64",
            "Wrong comparison: DP's capacity is per batch, a channel's per record.",
        ),
    ]


def strongest(inversion: Rows) -> dict[tuple[str, float], float]:
    """The smallest error over the attack's settings, by defence and κ."""
    out: dict[tuple[str, float], float] = {}
    for row in inversion:
        key = row["defence"], row["value"]
        out[key] = min(out.get(key, float("inf")), row["mse_scaled"])
    return out


def _accuracy(rows: Rows, data: str, kind: str, kappa: float, noise: str | None) -> float | None:
    row = find(rows, data=data, defence=kind, value=kappa, noise=noise)
    return None if row is None else 100 * mean(row["accuracy"])


def once_costs(accuracy: Rows) -> str:
    """What noise drawn once costs: against fresh noise, and against no defence."""
    said = []
    for data in dict.fromkeys(row["data"] for row in accuracy):
        plain = _accuracy(accuracy, data, "none", 0.0, None)
        pairs = []
        for kappa in _NATURAL:
            once = _accuracy(accuracy, data, "natural", kappa, "once")
            fresh = _accuracy(accuracy, data, "natural", kappa, "per_step")
            if None not in (once, fresh, plain):
                pairs.append((kappa, fresh - once, plain - once))  # type: ignore[operator]
        if pairs:
            over = max(pairs, key=lambda pair: pair[1])
            most, least = max(pairs, key=lambda p: p[2]), min(pairs, key=lambda p: p[2])
            said.append(
                f"on {data} {over[1]:.1f} points at most against fresh noise, and {most[2]:.1f} "
                f"(κ = {most[0]:g}) to {least[2]:.1f} (κ = {least[0]:g}) against no defence"
            )
    return f"Natural noise drawn once costs {'; '.join(said)}." if said else ""


def _capacity(accuracy: Rows, inversion: Rows) -> Verdict:
    claim, trend = tan.CLAIMS["capacity"], []
    for data in ("fashion-mnist", "cifar10"):
        values = [_accuracy(accuracy, data, "natural", k, "per_step") for k in _NATURAL]
        if None not in values:
            trend.append((data, [value for value in values if value is not None]))
    if not trend:
        return Verdict(claim, NOT_RUN, "")
    up = all(values[0] < values[-1] for _, values in trend)
    said = "; ".join(f"{d} {v[0]:.1f} → {v[-1]:.1f} % from κ = 50 to 300" for d, v in trend)
    at = strongest(inversion)
    if ("natural", 50.0) in at and ("natural", 300.0) in at:
        low, high = at["natural", 50.0], at["natural", 300.0]
        said += f"; MSE of gradient inversion on cifar10 {low:.2f} → {high:.2f} (the stronger of "
        said += "two attacks)"
    white = [_accuracy(accuracy, "cifar10", "white", k, "per_step") for k in (100.0, 300.0)]
    if None not in white:
        said += f"; White on cifar10 hardly learns at such κ ({white[0]:.1f} % at 100, "
        said += f"{white[1]:.1f} at 300)"
    return Verdict(
        claim, "stands for Natural" if up else "falls", said, "True of Natural noise, not of White."
    )


def _rounds(accuracy: Rows) -> list[Verdict]:
    """Figure 12."""
    said, rising, ends = [], [], []
    for row in accuracy:
        if (row["defence"], row["value"], row["noise"]) == ("natural", 300.0, "per_step"):
            values = [100 * mean(scores) for scores in row["by_steps"].values()]
            rising.append(values == sorted(values))
            ends.append(values[-1] > values[0])
            shown = " → ".join(f"{value:.1f}" for value in values)
            said.append(f"{row['data']}, natural κ = 300: {shown} % by rising n")
    if not said:
        return []
    stands = "stands" if all(rising) else "in part" if any(ends) else "falls"
    text = "; ".join(said) + " (Figure 12)"
    return [
        Verdict(
            tan.CLAIMS["rounds"],
            stands,
            text,
            "True: more training steps, better accuracy, also without a channel.",
        )
    ]


def _stronger(accuracy: Rows, inversion: Rows) -> list[Verdict]:
    at = strongest(inversion)
    if not at:
        return []
    stronger = all(
        at.get((kind, k), 0.0) > at.get(("natural", k), float("inf"))
        for kind in ("white", "personalized-paper")
        for k in _NATURAL
    )
    shown = {"natural": "natural", "white": "white", "personalized-paper": "personalized (bound)",
             "personalized": "personalized (exact)"}  # fmt: skip
    said = "MSE at κ = 300, the stronger of two attacks: " + ", ".join(
        f"{name} {at[kind, 300.0]:.3f}" for kind, name in shown.items() if (kind, 300.0) in at
    )
    said += _at_equal_accuracy(accuracy, at)
    return [
        Verdict(
            tan.CLAIMS["stronger"],
            "stands" if stronger else "in part",
            said,
            "At equal accuracy Natural defends better.",
        )
    ]


def _at_equal_accuracy(accuracy: Rows, at: dict[tuple[str, float], float]) -> str:
    """Other channels beside the Natural one that is next below in accuracy, on CIFAR-10."""
    said = []
    pairs = (("white", 1500.0, 100.0), ("personalized-paper", 1500.0, 50.0))
    for kind, kappa, natural in pairs:
        one = _accuracy(accuracy, "cifar10", kind, kappa, "per_step")
        two = _accuracy(accuracy, "cifar10", "natural", natural, "per_step")
        if one is not None and two is not None and (kind, kappa) in at:
            said.append(
                f"{kind.removesuffix('-paper')} κ = {kappa:g} has {one:.1f} % and MSE "
                f"{at[kind, kappa]:.2f}, natural κ = {natural:g} {two:.1f} % and "
                f"{at['natural', natural]:.2f}"
            )
    return f". At equal accuracy it is the reverse: {'; '.join(said)}" if said else ""


def _batches(guide: Rows) -> list[Verdict]:
    """Figure 6."""
    out = []
    for claim, defence, rising in (("dp-batch", "dp", False), ("constant", "constant", True)):
        found = [r for r in guide if r["block"].startswith("batch") and r["defence"] == defence]
        if not found:
            continue
        series = [r["mse_scaled"] for r in found]
        first, last = series[0], series[-1]
        ends = last > first if rising else last < first
        steady = series == sorted(series, reverse=not rising)
        said = f"MSE of the mean image {first:.3f} at B = {found[0]['batch']}, {last:.3f} at "
        said += f"B = {found[-1]['batch']}"
        said += "" if steady or not ends else "; not at every size between"
        verdict = "falls" if not ends else "stands" if steady else "in part"
        believe = (
            "One record hides among others, though ε stays the same."
            if rising
            else "True at one noise multiplier: larger batches get less noise per average."
        )
        out.append(Verdict(tan.CLAIMS[claim], verdict, said, believe))
    return out


def _compression(guide: Rows) -> list[Verdict]:
    """Figure 8."""
    cut = [r for r in guide if r["block"].startswith("compression")]
    if not cut:
        return []
    order = [r["mse_scaled"] for r in cut if r["defence"] == "compression"]
    said = ", ".join(f"λ = {r['value']:.3g}: {r['mse_scaled']:.3f}" for r in cut[1:])
    said += f"; {cut[0]['mse_scaled']:.3f} uncompressed, so the whole effect is small"
    stands = "stands" if order[0] == max(order) else "falls"
    believe = "Removing one direction of the data hardly changes what is rebuilt."
    return [Verdict(tan.CLAIMS["compress"], stands, said, believe)]
