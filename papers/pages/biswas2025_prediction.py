"""Which notion predicts reconstruction: the section of the page of Biswas et al. (2025)."""

# ruff: noqa: D103, E501
from __future__ import annotations

from typing import Any

from parts import pyplot, save
from recondite_papers.tables import prediction


def section(
    attacks: list[Any], signal: list[Any], blind: list[Any], intruder: list[Any]
) -> list[str]:
    return [
        "## Which notion predicts reconstruction?",
        "Spearman's ρ of each notion with the error of the paper's attack over all settings of batch 128 (-1: the notion orders them perfectly; values that print alike are ties). "
        "That attack errs more than the mean image nearly everywhere, so these columns rank failures. "
        "Within one mechanism every notion is a monotone function of its one parameter: those columns say little. "
        "The columns *intruder* rank what the strongest attack known leaves of the way from the blind guess to a copy, from one release of a batch of 128 whose other records it knows: all settings, and those alone in which it beats the blind guess. "
        "A notion that ranks all of them well may only tell where nothing leaks.",
        prediction.table(attacks, signal, blind, intruder),
        *_figure(attacks, signal, blind, intruder),
    ]


def _figure(
    attacks: list[Any], signal: list[Any], blind: list[Any], intruder: list[Any]
) -> list[str]:
    """The attack's error against three notions: a good one puts both mechanisms on one curve."""
    found = {
        f"{title}: MSE": prediction.settings(attacks, signal, data, blind)
        for data, title in prediction.TITLE.items()
    }
    if not all(found.values()):
        return []
    for data, title in prediction.TITLE.items():
        under = prediction.gained(intruder, signal, data)
        found |= {f"{title}: 1 - gain": under} if under else {}
    plt = pyplot()
    shown = ("epsilon", "capacity_1", "capacity_length")
    figure, axes = plt.subplots(len(found), 3, figsize=(9, 2.5 * len(found)), sharey="row")
    for line, (title, settings) in zip(axes, found.items(), strict=True):
        for axis, key in zip(line, shown, strict=True):
            for kind in ("gaussian", "vmf"):
                points = [(s.notions[key], s.error) for s in settings if s.defence == kind]
                axis.plot(*zip(*sorted(points), strict=True), "o", ms=3, label=kind)
            axis.set(xscale="log", xlabel=prediction.NOTIONS[key])
        line[0].set_ylabel(title)
    axes[0][0].legend(fontsize=7)
    figure.tight_layout()
    shown_as = save(figure, "compare-prediction")
    plt.close(figure)
    return [shown_as]
