"""Accuracy against proven and against measured risk, a line for each defence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recondite_papers.figures.draw import pyplot
from recondite_papers.tables.frontier import MODELS, Curve

__all__ = ["AXES", "plane"]

AXES = {
    "epsilon": "ε, proven (the study's δ)",
    "known": "picked out of ten, participation known (0.1: blind)",
    "gain": "gain over the class mean",
}
_MARKS = "osv^D<>phX*Pd"


def plane(curves: Sequence[Curve], measure: str, names: dict[str, str]) -> Any:
    """One panel a data set and model; None without points.

    Args:
      curves: The frontier.
      measure: A key of ``AXES``.
      names: Defences in the order of colours, and what they are called.
    """
    places = list(dict.fromkeys((c.data, c.model) for c in curves))
    if not places:
        return None
    plt = pyplot()
    figure, axes = plt.subplots(2, 2, figsize=(9.5, 7.0), squeeze=False)
    shades = plt.get_cmap("tab20").colors
    order = list(names)
    for axis, (data, model) in zip(axes.flat, places, strict=False):
        for curve in curves:
            if (curve.data, curve.model) != (data, model):
                continue
            place = order.index(curve.defence)
            if curve.defence == "none":
                level = curve.points[0].mean("accuracy")
                axis.axhline(level, color="0.5", lw=0.8, ls=":", label=names[curve.defence])
                continue
            points = [(p.mean(measure), p.mean("accuracy")) for p in curve.between()]
            known = [(x, y) for x, y in points if x is not None]
            if known:
                axis.plot(
                    *zip(*known, strict=True), marker=_MARKS[place % len(_MARKS)], ms=3.5, lw=1,
                    color=shades[(2 * place + place // 10) % 20], label=names[curve.defence],
                )  # fmt: skip
        axis.set(title=f"{data}, {MODELS[model]}", xlabel=AXES[measure])
        axis.set_ylabel("test accuracy, %")
        if measure == "epsilon":
            axis.set(xscale="log", xlim=(0.5, 3e4))
    for axis in axes.flat[len(places) :]:
        axis.axis("off")
    seen: dict[str, Any] = {}
    for axis in axes.flat:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            seen.setdefault(label, handle)
    figure.legend(seen.values(), seen.keys(), loc="lower center", ncol=3, fontsize=7)
    figure.tight_layout(rect=(0, 0.11, 1, 1))
    return figure
