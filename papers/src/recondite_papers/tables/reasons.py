"""Reasons tested for cells that are off."""

from __future__ import annotations

from collections.abc import Sequence

from recondite_papers.printed import compare as biswas
from recondite_papers.printed import dirdp
from recondite_papers.tables.cells import Cell, Row, find, mean

__all__ = ["again", "noise_size", "norms", "readings", "signal"]

Rows = Sequence[Row]


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


def signal(rows: Rows) -> list[Cell]:
    """Signal over noise of what leaks, by step."""
    symbol = {"gaussian": "σ", "vmf": "κ"}
    return [
        Cell(
            f"{r['data']}, {symbol[r['defence']]} = {r['value']:g}, after {r['steps']:,} steps",
            None,
            r["signal_to_noise"],
            unit="signal/noise",
            why=f"average gradient {r['length']:.3f} long; accuracy {100 * r['accuracy']:.1f} %"
            + (f"; {r['run']}" if r.get("run") else ""),
        )
        for r in rows
    ]


def norms(rows: Rows) -> list[Cell]:
    """Table 2's Gaussian cells by the norm that gradients are clipped to."""
    cells = []
    for row in rows:
        known = dirdp.TABLE_2[row["model"], "gaussian", row["epsilon"], row["data"]]
        how = "by layer, " if row["clipping"] == "per-layer" else ""
        name = (
            f"{row['model']}, {row['data']}, gaussian {row['epsilon']:g}, {how}C = {row['norm']:g}"
        )
        cells.append(Cell(name, known, 100 * mean(row["accuracy"]), unit="accuracy"))
    return cells


def again(rows: Rows, moved: Rows = ()) -> list[Cell]:
    """Table 2's cells that are off, once more.

    Args:
      rows: Of the job "dirdp-again": another seed, other widths.
      moved: Of the job "dirdp-moved": faces that are not aligned.
    """
    cells = []
    for row in [*rows, *moved]:
        epsilon = row["epsilon"] or 0.0
        known = dirdp.TABLE_2[row["model"], row["defence"], epsilon, row["data"]]
        label = f"gaussian {epsilon:g}" if epsilon else "none"
        name = f"{row['model']}, {row['data']}, {label}"
        if row["model"] == "mlp2":
            name += f", hidden layers {row['network'].split('/')[2]}"
        if "moved" in row:
            name += f", faces moved by up to {row['moved']} pixels"
        why = f"seed {row['seed']}" if "seed" in row else ""
        cells.append(Cell(name, known, 100 * mean(row["accuracy"]), unit="accuracy", why=why))
    for epsilon in (0.8, 1.0):  # hours on a CPU: say where they are missing
        if find(rows, model="lenet", data="cifar10", epsilon=epsilon) is None:
            known = dirdp.TABLE_2["lenet", "gaussian", epsilon, "cifar10"]
            cells.append(Cell(f"lenet, cifar10, gaussian {epsilon:g}", known, None))
    return cells


def readings(rows: Rows) -> list[Cell]:
    """Table 2's undefended and Gaussian cells by the network that is meant, the best fit first."""
    found: dict[tuple[str, str, str], dict[float, float]] = {}
    for row in rows:
        key = row["model"], row["data"], row["network"]
        found.setdefault(key, {})[row["epsilon"] or 0.0] = 100 * mean(row["accuracy"])
    cells = []
    for (model, data, network), ours in found.items():
        known = {
            e: dirdp.TABLE_2[model, "gaussian" if e else "none", e, data] for e in sorted(ours)
        }
        gap = max(abs(ours[e] - known[e]) for e in known)
        said = ", ".join(f"{ours[e]:.1f} ({known[e]:.1f})" for e in known if e)
        asked = ", ".join(f"{e:g}" for e in known if e)
        why = f"ε = {asked}: {said}; largest gap {gap:.1f}"
        name = f"{data}, {network.replace('/', ', ')}"
        cells.append(
            (model, data, gap, Cell(name, known.get(0.0), ours.get(0.0), unit="accuracy", why=why))
        )
    return [cell for *_, cell in sorted(cells, key=lambda entry: entry[:3])]
