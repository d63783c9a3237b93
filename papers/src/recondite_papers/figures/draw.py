"""Drawing: lines, images in rows, and a plain comparison where nothing else is said."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from recondite_papers.tables.cells import Cell, Row

__all__ = ["compared", "draw", "lines", "pictures", "pyplot", "scatter"]

Series = Mapping[str, Sequence[tuple[float, float]]]
_HOME = "recondite_papers.figures"


def pyplot() -> Any:
    """Matplotlib without a screen, and with the same SVG for the same numbers."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise ValueError(
            "figures need matplotlib: install it with pip install 'recondite[compare]'"
        ) from None
    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "recondite"
    from matplotlib import pyplot as plt

    return plt


def draw(
    place: str,
    rows: Mapping[str, list[Row]],
    cells: Sequence[Cell],
    folder: Path | None,
    target: Path,
) -> bool:
    """Writes an item's figure; False where there is nothing to draw.

    Args:
      place: ``module:function`` below ``figures``; empty for a plain comparison of the cells.
      rows: Rows of each job.
      cells: The comparison.
      folder: Where the jobs left images.
      target: The SVG.
    """
    figure = None
    if place:
        module, function = place.split(":")
        make: Callable[..., Any] = getattr(import_module(f"{_HOME}.{module}"), function)
        figure = make(rows, folder)
    if figure is None:
        figure = compared(cells)
    if figure is None:
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, format="svg", bbox_inches="tight", metadata={"Date": None})
    pyplot().close(figure)
    return True


def lines(
    panels: Mapping[str, Series], x: str, y: str, *, log: bool = False, marker: str = "o-"
) -> Any:
    """One panel a title, one line a name; None without points."""
    kept = {title: {n: s for n, s in series.items() if s} for title, series in panels.items()}
    kept = {title: series for title, series in kept.items() if series}
    if not kept:
        return None
    plt = pyplot()
    width = min(4, len(kept))
    height = -(-len(kept) // width)
    size = (3.6 * width, 2.9 * height)
    figure, axes = plt.subplots(height, width, figsize=size, squeeze=False)
    for axis in axes.flat[len(kept) :]:
        axis.axis("off")
    names = list(dict.fromkeys(name for series in kept.values() for name in series))
    for axis, (title, series) in zip(axes.flat, kept.items(), strict=False):
        for name, points in series.items():
            across, up = zip(*sorted(points), strict=True)
            axis.plot(across, up, marker, ms=3, label=name, color=f"C{names.index(name)}")
        axis.set(title=title, xlabel=x, ylabel=y)
        if log and all(p[0] > 0 for points in series.values() for p in points):
            axis.set_xscale("log")
    # The panel with most of the names explains them.
    most = max(range(len(kept)), key=lambda n: len(list(kept.values())[n]))
    axes.flat[most].legend(fontsize=6)
    figure.tight_layout()
    return figure


def scatter(panels: Mapping[str, Series], x: str, y: str) -> Any:
    """Points without lines."""
    return lines(panels, x, y, marker="o")


def pictures(strips: Mapping[str, np.ndarray], title: str = "", columns: int = 6) -> Any:
    """A row of images (n, c, h, w) in bytes for each name; None without any."""
    if not strips:
        return None
    plt = pyplot()
    shown = min(columns, max(len(strip) for strip in strips.values()))
    size = (0.9 * shown + 1.8, 0.9 * len(strips) + 0.3)
    figure, axes = plt.subplots(len(strips), shown, figsize=size, squeeze=False)
    for line, (name, strip) in zip(axes, strips.items(), strict=True):
        for axis in line:
            axis.set(xticks=[], yticks=[], frame_on=False)
        for axis, picture in zip(line, strip, strict=False):
            axis.imshow(np.moveaxis(picture, 0, -1).squeeze(), cmap="gray", vmin=0, vmax=255)
        line[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=6)
    figure.suptitle(title, fontsize=8)
    return figure


def compared(cells: Sequence[Cell]) -> Any:
    """Ours and the paper's number of each cell, one below the other."""
    shown = [cell for cell in cells if cell.ours is not None][:60]
    if not shown:
        return None
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(6, 0.18 * len(shown) + 1))
    places = range(len(shown))
    axis.plot([cell.ours for cell in shown], places, "o", ms=3, label="ours")
    known = [(cell.paper, n) for n, cell in enumerate(shown) if cell.paper is not None]
    if known:
        axis.plot(*zip(*known, strict=True), "x", color="0.3", ms=4, label="paper")
    axis.set_yticks(list(places), [cell.name for cell in shown], fontsize=5)
    axis.invert_yaxis()
    axis.set_xlabel(shown[0].unit)
    axis.legend(fontsize=6)
    return figure
