"""Static figures of every plot of the report, for papers."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from recondite.report.answer import Answers
from recondite.report.gallery import IMAGES, Strip, gallery
from recondite.report.payload import available, payload_points, series_of
from recondite.report.quantities import JUDGES, axis, notion_axes
from recondite.report.rows import read_runs

__all__ = ["FORMATS", "figures"]

FORMATS = ("png", "svg", "pdf")
MEASURED = ("mse", "ssim", "auc")
ROWS = 16  # of the gallery figure

# The page's light palette and its ten shapes, as matplotlib names them.
COLOURS = ("#3f4845", "#8a6100", "#0064a8", "#c04a00", "#8b3a94", "#00785a", "#b3245f", "#007d96")
SHAPES = ("o", "s", "D", "^", "v", "P", "X", "p", "*", "h")
LINES = ("-", "--", ":", "-.")


def figures(
    run_dirs: Sequence[str | Path] | str | Path,
    directory: str | Path,
    formats: Sequence[str] = FORMATS,
    *,
    progress: Callable[[], None] | None = None,
) -> list[Path]:
    """Writes every plot: accuracy against attacks, attacks against notions, both planes, gallery.

    The gallery shows public data only.

    Args:
      run_dirs: One run directory, or several.
      directory: Where to write; made if missing.
      formats: File formats matplotlib knows.
      progress: Called after each figure.

    Returns:
      The files, in the order of the report.

    Raises:
      ValueError: In one line, where a run cannot be read, a format is unknown or a package missing.
    """
    plt = _matplotlib()
    runs = read_runs(run_dirs)
    unknown = [name for name in formats if name not in FORMATS]
    if unknown or not formats:
        raise ValueError(f"formats: {unknown or 'none given'}; use {', '.join(FORMATS)}")
    answers = Answers.of(runs)
    points = answers.points
    index, series = series_of(points, runs)
    data = payload_points(points, answers.contradicted, index)
    front = {one.point for one in answers.standings[answers.view()] if one.rung() == "proven"}
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []

    def save(figure: Any, name: str) -> None:
        for kind in formats:
            path = target / f"{name}.{kind}"
            # No date: the same run gives the same file.
            undated: dict[str, Any] = {
                "png": {},
                "svg": {"Date": None},
                "pdf": {"CreationDate": None},
            }
            figure.savefig(path, metadata=undated[kind], bbox_inches="tight", dpi=200)
            written.append(path)
        plt.close(figure)
        if progress:
            progress()

    with plt.rc_context({"font.size": 9, "svg.hashsalt": "recondite", "svg.fonttype": "none"}):
        for x, y in _pairs(available(data)):
            save(_scatter(plt, data, series, x, y, front), f"{y}-against-{x}")
        strips, _ = gallery(points, runs, (), show_private=False)
        strips = [strip for strip in strips if strip.media == IMAGES]
        if strips:
            save(_sheet(plt, strips[:ROWS], [point.label for point in points]), "gallery")
    return written


def _matplotlib() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise ValueError(
            "figures need matplotlib: install it with pip install 'recondite[compare]'"
        ) from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def _pairs(keys: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The plots of the report, as (across, up)."""
    across = [*JUDGES, "mse", "gdc"]
    wanted = [(key, "accuracy") for key in across]
    wanted += [(notion.key, measure) for notion in notion_axes() for measure in MEASURED]
    wanted += [(notion.key, "accuracy") for notion in notion_axes()]
    wanted.append(("imp_dra", "imp_mia"))
    yield from (pair for pair in wanted if set(pair) <= set(keys))


def _scatter(
    plt: Any, data: list[dict[str, Any]], series: list[dict[str, Any]], x: str, y: str,
    front: set[int],
) -> Any:  # fmt: skip
    figure, axes = plt.subplots(figsize=(4.4, 3.1))
    drawn = [p for p in data if p["v"].get(x) and p["v"].get(y) and p["v"][y][0] != "inf"]
    finite = [p["v"][x][0] for p in drawn if p["v"][x][0] != "inf"]
    log = axis(x).log and bool(finite) and min(finite) > 0
    edge = _edge(finite, log)
    for index, one in enumerate(series):
        mine = [p for p in drawn if p["series"] == index]
        if not mine:
            continue
        xs = [edge if p["v"][x][0] == "inf" else p["v"][x][0] for p in mine]
        ys = [p["v"][y][0] for p in mine]
        ends = [
            [abs(p["v"][y][i] - p["v"][y][0]) if len(p["v"][y]) == 3 else 0 for p in mine]
            for i in (1, 2)
        ]
        axes.errorbar(
            xs,
            ys,
            yerr=ends,
            marker=SHAPES[one["shape"]],
            color=COLOURS[one["hue"]],
            lw=0.8,
            ms=4.5,
            ls=LINES[one["run"] % 4],
            mfc="white" if one["run"] % 2 else None,
            label=one["name"],
        )
    if y == "accuracy":
        ringed = [p for p in drawn if p["id"] in front and p["v"][x][0] != "inf"]
        axes.plot(
            [p["v"][x][0] for p in ringed],
            [p["v"][y][0] for p in ringed],
            "o",
            mfc="none",
            mec="black",
            ms=9,
            mew=0.7,
        )
    axes.set_xscale("log" if log else "linear")
    lowest = min((end for p in drawn for end in p["v"][y]), default=0)
    axes.set_yscale("log" if axis(y).log and lowest > 0 else "linear")
    if len(finite) < len(drawn):
        axes.axvline(edge, color="0.85", lw=8, zorder=0)
        axes.annotate(
            "∞",
            (edge, 1),
            xycoords=("data", "axes fraction"),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
        )
    axes.set_xlabel(axis(x).label)
    axes.set_ylabel(axis(y).label)
    axes.grid(color="0.92", lw=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure  # fmt: skip


def _edge(finite: list[float], log: bool) -> float:
    """Where infinite bounds are drawn: to the right of every finite one."""
    if not finite:
        return 1.0
    low, high = min(finite), max(finite)
    if log:
        return high * max(3.0, math.pow(high / low, 0.15))
    return high + 0.15 * (high - low or 1.0)


def _sheet(plt: Any, strips: Sequence[Strip], labels: Sequence[str]) -> Any:
    """Originals above reconstructions, one pair of lines a defence, as one image."""
    import numpy as np

    cells = [
        [np.vstack([_decode(p.original), _decode(p.rebuilt)]) for p in strip.pictures]
        for strip in strips
    ]
    height, width = np.max([cell.shape[:2] for line in cells for cell in line], axis=0) + 2
    columns = max(map(len, cells))
    sheet = np.full((height * len(cells), width * columns, 3), 255, np.uint8)
    for row, line in enumerate(cells):
        for column, cell in enumerate(line):
            top, left = row * height, column * width
            sheet[top : top + cell.shape[0], left : left + cell.shape[1]] = cell
    figure, axes = plt.subplots(figsize=(0.5 * columns, 1.05 * len(cells)))
    axes.imshow(sheet, interpolation="nearest")
    names = [labels[s.point] if s.point is not None else s.attack for s in strips]
    axes.set_yticks([(row + 0.5) * height for row in range(len(cells))], names, fontsize=7)
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return figure


def _decode(content: bytes) -> Any:
    import numpy as np
    from PIL import Image

    picture = Image.open(io.BytesIO(content))
    return np.asarray(picture.convert("RGB"))
