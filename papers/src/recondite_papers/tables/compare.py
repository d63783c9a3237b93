"""Biswas et al. (2025): trained and attacked cells beside the printed ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from recondite_papers.printed import compare as printed
from recondite_papers.tables.cells import Cell, Row, find, mean, spread
from recondite_papers.tables.intruder import beside

__all__ = [
    "TITLE", "attacked", "attainable", "figure_2", "table_2", "table_3", "table_5", "table_6",
    "trained",
]  # fmt: skip

Rows = Sequence[Row]
TITLE = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST"}
_SYMBOL = {"vmf": "κ", "gaussian": "σ"}


def trained(rows: Rows, data: str, defence: str, value: float, batch: int) -> Any:
    """The row of a cell of Table V, as chosen."""
    name = f"main/{data}" if batch == 128 else f"batch-{batch}/{data}"
    return find(rows, block=name, defence=defence, value=value)


def figure_2(rows: Rows) -> list[Cell]:
    """Accuracy at batch 128 for every κ and σ of Table IV, and without defence."""
    cells = []
    for data, title in TITLE.items():
        row = find(rows, block=f"main/{data}", defence="none")
        ours = None if row is None else 100 * mean(row["accuracy"])
        cells.append(
            Cell(f"{title}, no defence", 100 * printed.BASELINE[data], ours, unit="accuracy")
        )
        for _, kappa, sigma in printed.TABLE_4:
            for defence, value in (("vmf", float(kappa)), ("gaussian", sigma)):
                known = printed.TABLE_5.get((data, defence, value, 128))
                cells.append(_accuracy(rows, data, defence, value, 128, known))
    return cells


def _accuracy(
    rows: Rows, data: str, defence: str, value: float, batch: int, known: float | None
) -> Cell:
    row = trained(rows, data, defence, value, batch)
    scores = [] if row is None else [100 * v for v in row["accuracy"]]
    return Cell(
        f"{TITLE[data]}, batch {batch}, {_SYMBOL[defence]} = {value:g}",
        None if known is None else 100 * known,
        mean(scores) if scores else None,
        spread(scores) if scores else None,
        "accuracy",
    )


def table_5(rows: Rows) -> list[Cell]:
    """Accuracy at batch 16 to 128, with what was tested where ours is off."""
    cells = [c for c in figure_2(rows) if "no defence" in c.name]
    for (data, defence, value, batch), known in printed.TABLE_5.items():
        cell = _accuracy(rows, data, defence, value, batch, known)
        why, tested = _reason(rows, cell, data, defence, value, batch)
        cells.append(replace(cell, why=why, tested=tested))
    return cells


def _reason(
    rows: Rows, cell: Cell, data: str, defence: str, value: float, batch: int
) -> tuple[str, tuple[float, ...]]:
    """Why a cell is more than 3 points off: what is known of it, and what was tested for it."""
    if cell.difference is None or abs(cell.difference) <= 3.0:
        return "", ()
    tried, found = [], []
    for variant, name in _VARIANTS.items():
        row = find(rows, block=f"open-{batch}/{data}/{variant}", defence=defence, value=value)
        if row is not None:
            found.append(100 * mean(row["accuracy"]))
            tried.append(f"{found[-1]:.1f} {name}")
    seeds = f"seeds differ by {cell.spread or 0:.1f} points; the paper has one value"
    return seeds + (f". Tested: {', '.join(tried)}" if tried else ""), tuple(found)


_VARIANTS = {
    "kaiming": "with Kaiming's initial weights",
    "orthogonal": "with orthogonal ones",
    "unclipped": "without clipping",
    "shuffled": "with shuffled batches",
    "undecayed": "without decay",
}


def attainable(rows: Rows, defence: str, points: float = 3.0) -> tuple[float, int]:
    """How many of Table V's cells one run of ours would match, if the mean of the others were it.

    The paper prints one run. A repetition of our own, a seed against the mean of the other seeds,
    is within so many points in this many cells on average: no reproduction can be expected to do
    better.

    Returns:
      That number, and how many cells there are.
    """
    found, cells = 0.0, 0
    for data, kind, value, batch in printed.TABLE_5:
        row = trained(rows, data, kind, value, batch) if kind == defence else None
        if row is None or len(row["accuracy"]) < 2:
            continue
        scores = [100 * v for v in row["accuracy"]]
        total, count = sum(scores), len(scores)
        near = [abs(x - (total - x) / (count - 1)) <= points for x in scores]
        found, cells = found + sum(near) / count, cells + 1
    return found, cells


def attacked(rows: Rows, data: str, defence: str, value: float, batch: int, **more: Any) -> Any:
    """The row of a cell of Table VI."""
    return find(rows, block=f"iga-{batch}/{data}", defence=defence, value=value, **more)


def _pair(
    name: str, known: tuple[float, float] | None, row: Any, scale: str, intruder: str = ""
) -> list[Cell]:
    ssim, mse = known if known is not None else (None, None)
    found = row or {}
    over = found.get("mse_scaled_sd")
    if over is not None and not scale.startswith("mse_scaled"):
        # The standard deviation is stored on the scale of the network's input alone.
        over *= found[scale] / found["mse_scaled"]
    return [
        Cell(f"{name}: MSE", mse, found.get(scale), over, "MSE", intruder=intruder),
        Cell(f"{name}: SSIM", ssim, found.get("ssim_placed"), unit="SSIM"),
    ]


def _strongest(intruder: Rows, data: str, defence: str, value: float | None, batch: int) -> str:
    """What the strongest attack known gains: one who knows the rest of a batch subtracts it."""
    size = batch if defence == "vmf" else 1
    wanted = {"data": data, "defence": defence, "value": value, "batch": size}
    return beside(intruder, study="compare", **wanted)


def table_2(rows: Rows, intruder: Rows = ()) -> list[Cell]:
    """Inverting Gradients at batch 128; errors by position, on the paper's scale."""
    cells = []
    for (defence, value), four in printed.TABLE_2.items():
        for place, data in enumerate(TITLE):
            known = (four[2 * place], four[2 * place + 1])
            row = attacked(rows, data, defence, value or 0.0, 128)
            label = defence if value is None else f"{_SYMBOL[defence]} = {value:g}"
            told = _strongest(intruder, data, defence, value, 128)
            cells += _pair(f"{TITLE[data]}, {label}", known, row, "mse_scaled_placed", told)
            if defence == "clip":
                layered = attacked(rows, data, defence, 0.0, 128, clipping="per-layer")
                name = f"{TITLE[data]}, clip by layer"
                cells += _pair(name, known, layered, "mse_scaled_placed")
    return cells


def table_3(rows: Rows, intruder: Rows = ()) -> list[Cell]:
    """DLG, one image at a time; errors in [0, 1]."""
    cells = []
    for (defence, value), four in printed.TABLE_3.items():
        for place, data in enumerate(TITLE):
            known = (four[2 * place], four[2 * place + 1])
            wanted = 0.174 if value == 0.0174 else value or 0.0
            row = find(rows, block=f"dlg/{data}", defence=defence, value=wanted)
            label = defence if value is None else f"{_SYMBOL[defence]} = {wanted:g}"
            told = _strongest(intruder, data, defence, wanted, 1)
            cells += _pair(f"{TITLE[data]}, {label}", known, row, "mse", told)
    return cells


def table_6(rows: Rows, intruder: Rows = ()) -> list[Cell]:
    """Inverting Gradients at batch 16 to 128."""
    cells = []
    for (data, defence, value, batch), known in printed.TABLE_6.items():
        row = attacked(rows, data, defence, value, batch)
        name = f"{TITLE[data]}, batch {batch}, {_SYMBOL[defence]} = {value:g}"
        told = _strongest(intruder, data, defence, value, batch)
        cells += _pair(name, known, row, "mse_scaled_placed", told)
    return cells
