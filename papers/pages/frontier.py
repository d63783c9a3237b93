"""The page of the frontier: our own study, from its rows."""

# ruff: noqa: D103, E501
from __future__ import annotations

from typing import Any

from parts import claims, folded, number, pyplot, rows, save, sources, write
from recondite_papers.figures.frontier import AXES, plane
from recondite_papers.frontier.defences import NAMES
from recondite_papers.tables import frontier as cells
from recondite_papers.tables.frontier import LEVELS, Curve
from recondite_papers.tables.frontier_findings import findings, in_short, short

_SCORED = (
    "**Who attacks.** The intruder of the reconstruction bound's proof: it knows every other record, the batches they were in, the mechanism and all weights, sees every release of the run, and picks "
    "the training record out of ten (or a hundred) candidates by the likelihood ratio of the whole run, the scores of `recondite.attacks.identification` (a test compares the two). *Known*: it is told in which steps the record took part; *secret*: it is not. "
    "Rebuilding: posterior means over held-out records of the same class, weighted by the same scores; the record itself is not among them. The gain is 1 − MSE/MSE of the class mean, with a temperature chosen on the other half of the victims. "
    "Blind, it is picked in 0.1 and gains 0."
)
_HOW = (
    "Fashion-MNIST (60,000 records, batches of 2,000, 300 steps) and CIFAR-10 (50,000, 2,000, 300), SGD with momentum 0.9. *Linear head*: scattering features (two scales, eight angles, orders 0 to 2; no record was used to make them), "
    "normalised in groups record by record, as Tramèr and Boneh (2021) do. *Convolutional net*: tanh, in the style of Papernot et al. (2021), with 26,010 parameters on Fashion-MNIST and 68,106 on CIFAR-10.",
    "100 training records are played for in each run; candidates are 2,000 held-out records (1,000 for the net on Fashion-MNIST, 500 for that on CIFAR-10). Accuracy is on the 8,000 test records that are neither candidates nor used to choose rates.",
    "Learning rates were chosen for every defence and strength by one training each with a seed that is not used again, on 2,000 held-out records. **The price of that choice is in no ε here.** For the net on CIFAR-10 every second strength takes the rate of its noisier neighbour, which costs it accuracy.",
    "σ is in units of what one record can move the sum, with layers clipped apart too. C = 1; a head's features have a norm of about 10. Partitions: the rows of a head's classes, the layers of a net; with one layer, per-layer clipping is flat clipping, and is left out.",
    "Poisson batches, but for random allocation. Noise on each record is accounted under replace-one, everything else under add-or-remove-one; channels under replace-one for the features alone. Bounds are on being picked out of ten.",
    "The sum of a batch's per-record directional noise is drawn from the normal law with its exact mean and total variance, and the attack scores by the same law: a better attacker may exist.",
    "Of the channels the intruder is given the noisy copies themselves: one, or one for each use. Gradients may show less of a copy than the copy itself: channels face a stronger intruder here than noise on gradients does. The gain is the better of importance weights and the best linear guess given the class.",
    "Four views: the record, its mirror image, and both moved by two pixels, the same at every use; their gradients are averaged before clipping. De et al. (2022) draw views anew.",
    "Without noise the intruder subtracts all others and has the gradient itself: picked in 1, and no gain was measured.",
)
_MISSING = (
    "Noise correlated over steps (DP-λCGD, unamplified) and PAC-privacy noise (a promise that depends on the data): not run.",
    "A larger net towards 81.4%: not run.",
    "Fresh channel noise for the linear head: features of every copy at every use would have taken more than the budget.",
    "The low-pass filter in place of momentum (`gaussian-low-pass-alone`): written, not run. With its default weights it is momentum but for averaging neighbouring gradients.",
)


def page() -> None:
    measured, accounts = rows("frontier"), rows("frontier-accounts")
    curves = cells.curves(measured, accounts)
    parts = [
        "# The frontier at equal reconstruction risk",
        "Which defence gives the most accuracy when the *risk of reconstruction* is the same, by proof and by measurement? Every defence of the library at six strengths, on two data sets and two models, each run attacked as it trains.",
        f"**In short.** {in_short(curves)}",
        "## What the rows answer",
        claims(findings(curves)),
        "## Accuracy at equal risk",
        "Accuracy in per cent, interpolated between strengths in each seed and never beyond them (–); ± is Student's 95% interval over seeds, and is missing with one seed. *Surely*: the interval of the paired difference leaves out 0, as it does by chance in one of twenty comparisons without a difference. *Bound*: proven for being picked out of ten.",
        *[_table(curves, place) for place in dict.fromkeys((c.data, c.model) for c in curves)],
        *[_figure(curves, measure) for measure in AXES],
        "## Who attacks, and how it was run",
        _SCORED,
        "\n".join(f"- {line}" for line in _HOW),
        "## What was not run, and what is weak",
        "\n".join(f"- {line}" for line in (*_MISSING, *_seeds(curves), _edges(curves))),
        "## Every strength",
        *[
            folded(f"{short(some[0])}", _strengths(some))
            for place in dict.fromkeys((c.data, c.model) for c in curves)
            for some in [[c for c in curves if (c.data, c.model) == place]]
        ],
        "## Again",
        "`recondite reproduce frontier --device cuda` (`--quick` for a small version on a CPU, on which no claim rests). Rows:\n\n"
        + sources("frontier", "frontier-accounts"),
    ]
    write("frontier", parts)


def _table(curves: list[Curve], place: tuple[str, str]) -> str:
    here = [c for c in curves if (c.data, c.model) == place and c.defence != "none"]
    plain = next((c for c in curves if (c.data, c.model) == place and c.defence == "none"), None)
    lines = [
        f"### {short(here[0])}",
        "",
        "| defence | seeds | " + " | ".join(said for _, said in LEVELS.values()) + " |",
        "| :-- | --: |" + " --: |" * len(LEVELS),
    ]
    for curve in here:
        found = [cells.held(curve, measure, level) for measure, (level, _) in LEVELS.items()]
        if any(found):
            told = " | ".join("–" if one is None else one.text() for one in found)
            lines.append(f"| {curve.name} | {len(curve.seeds)} | {told} |")
    outside = [c.name for c in here if not any(cells.held(c, m, v) for m, (v, _) in LEVELS.items())]
    if outside:
        lines += ["", f"Outside of every level: {', '.join(outside)}."]
    if plain is not None:
        accuracy = plain.points[0].mean("accuracy")
        lines += ["", f"No defence: {accuracy:.1f}%."]
    return "\n".join(lines) + "\n"


def _figure(curves: list[Curve], measure: str) -> str:
    figure = plane(curves, measure, NAMES)
    if figure is None:
        return "Not run yet.\n"
    line = save(figure, f"frontier-{measure}")
    pyplot().close(figure)
    return line


def _seeds(curves: list[Curve]) -> list[str]:
    few: dict[tuple[str, int], list[str]] = {}
    for curve in curves:
        if len(curve.seeds) < 3:
            few.setdefault((short(curve), len(curve.seeds)), []).append(curve.name)
    return [
        f"{place}: {count} {'seed' if count == 1 else 'seeds'} in place of three for {'; '.join(names)}."
        for (place, count), names in few.items()
    ]


def _edges(curves: list[Curve]) -> str:
    every = [(curve, point) for curve in curves for point in curve.points]
    found: dict[str, int] = {}
    for curve, point in every:
        if point.edge:
            found[curve.name] = found.get(curve.name, 0) + 1
    said = "; ".join(f"{name} {count}" for name, count in found.items())
    return (
        f"{sum(found.values())} of {len(every)} settings have their best learning rate at the edge of those tried, so that "
        f"more accuracy may be there: {said}."
    )


def _strengths(curves: list[Curve]) -> str:
    lines = [
        "| defence | σ, κ or nats | rate | ε | bound | picked, secret | picked, known | gain | accuracy |",
        "| :-- | --: | --: | --: | --: | --: | --: | --: | --: |",
    ]
    for curve in curves:
        for point in curve.points:
            found: list[Any] = [
                point.mean(k) for k in ("epsilon", "proven", "secret", "known", "gain")
            ]
            accuracy = cells.Held(curve.defence, tuple(s["accuracy"] for s in point.seeds.values()))
            shown = " | ".join(
                "–" if v is None else f"{v:.3g}" if abs(v) < 1e4 else number(v) for v in found
            )
            lines.append(
                f"| {curve.name} | {point.value:g} | {point.rate:g} | {shown} | {accuracy.text()} |"
            )
    return "\n".join(lines) + "\n"
