"""Reasons tested for cells that are off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recondite.experiments.reproductions.printed import compare as biswas
from recondite.experiments.reproductions.printed import dirdp
from recondite.experiments.reproductions.tables.cells import Cell, mean

__all__ = ["noise_size", "undefended"]

Rows = Sequence[dict[str, Any]]


def noise_size(rows: Rows) -> list[Cell]:
    """Table VI's Gaussian cells on MNIST, by what the noise is divided by."""
    cells = []
    for row in rows:
        known = biswas.TABLE_6.get(("mnist", "gaussian", row["value"], row["batch"]))
        label = f"{row['defence']}" + (f", σ = {row['value']:g}" if row["value"] else "")
        if row["divisor"] > 1:
            label += f" / {row['divisor']:g}"
        name = f"batch {row['batch']}, {row['victim']} victim, {label}"
        why = f"{row['iterations']} iterations"
        if row.get("run"):
            why = f"{row['run']}: {why}"
        paper = None if known is None else known[1]
        cells.append(Cell(name, paper, row["mse_scaled_placed"], unit="MSE", why=why))
    return cells


def undefended(rows: Rows) -> list[Cell]:
    """Table 2 without defence: what changes the accuracy, and by how much."""
    cells = []
    for row in rows:
        model = "mlp2" if row["model"] == "mlp2" else "lenet"
        known = dirdp.TABLE_2[model, "none", 0.0, row["data"]]
        change = row.get("change") or f"pixels {row['pixels']}"
        why = f"{row['records']:,} records, {row['epochs']} epochs"
        if row.get("run"):
            why = f"{row['run']}: {why}"
        name = f"{row['model']}, {row['data']}, {change}"
        cells.append(Cell(name, known, 100 * mean(row["accuracy"]), unit="accuracy", why=why))
    return cells
