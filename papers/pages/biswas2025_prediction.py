"""Which notion predicts reconstruction: the section of the page of Biswas et al. (2025)."""

# ruff: noqa: D103, E501
from __future__ import annotations

from typing import Any

from parts import pyplot, save
from recondite_papers.tables import prediction


def section(attacks: list[Any], signal: list[Any]) -> list[str]:
    return [
        "## Which notion predicts reconstruction?",
        "Spearman's ρ of each notion with the attack's MSE over all settings of batch 128 (-1: the notion orders them perfectly; values that print alike are ties). "
        "The last columns say little: within one mechanism every notion is a monotone function of its one parameter.",
        prediction.table(attacks, signal),
        *_figure(attacks, signal),
    ]


def _figure(attacks: list[Any], signal: list[Any]) -> list[str]:
    """The attack's error against three notions: a good one puts both mechanisms on one curve."""
    found = {
        title: prediction.settings(attacks, signal, data)
        for data, title in prediction.TITLE.items()
    }
    if not all(found.values()):
        return []
    plt = pyplot()
    shown = ("epsilon", "capacity_1", "capacity_length")
    figure, axes = plt.subplots(2, 3, figsize=(9, 5), sharey="row")
    for line, (title, settings) in zip(axes, found.items(), strict=True):
        for axis, key in zip(line, shown, strict=True):
            for kind in ("gaussian", "vmf"):
                points = [(s.notions[key], s.mse) for s in settings if s.defence == kind]
                axis.plot(*zip(*sorted(points), strict=True), "o", ms=3, label=kind)
            axis.set(xscale="log", xlabel=prediction.NOTIONS[key])
        line[0].set_ylabel(f"{title}: MSE")
    axes[0][0].legend(fontsize=7)
    figure.tight_layout()
    shown_as = save(figure, "compare-prediction")
    plt.close(figure)
    return [shown_as]
