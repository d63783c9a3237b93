"""Tan et al. (2024): our cells beside the printed ones, and what else its figures show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from recondite.metrics.defence import improvement_membership, improvement_reconstruction
from recondite_papers.printed import channel as tan
from recondite_papers.tables.cells import Cell, Row, cut_short, mean, spread
from recondite_papers.tables.intruder import beside

__all__ = [
    "DIED",
    "beta_weights",
    "by_capacity",
    "by_rounds",
    "compression",
    "embedding",
    "faces",
    "improvements",
    "networks",
    "networks_inversion",
    "planes",
    "tan_accuracy",
    "tan_eigenvalues",
    "tan_guidelines",
    "tan_inversion",
    "tan_rounds",
    "times",
    "without_small",
]

Rows = Sequence[Row]
_NATURAL, _WIDE = (50.0, 100.0, 200.0, 300.0), (500.0, 800.0, 1000.0, 1500.0)
_DATA = ("fashion-mnist", "cifar10")
DIED = 0.11  # accuracy of a network of ten classes that says the same of every image


def _name(row: Row) -> str:
    return str(row["defence"]) + (f" {row['value']:g}" if row["value"] else "")


def without_small(rows: Rows) -> list[Row]:
    """Rows without those of a small run that a run in full has too."""
    keys = ("data", "model", "defence", "value", "noise", "attack")

    def key(row: Row) -> tuple[Any, ...]:
        return tuple(row.get(name) for name in keys)

    full = {key(row) for row in rows if "small run" not in (row.get("run") or "")}
    return [r for r in rows if "small run" not in (r.get("run") or "") or key(r) not in full]


def times(rows: Rows) -> list[Cell]:
    """Table 2: times in units of plain training."""
    cells = []
    for model, (_, plain, private, noisy) in tan.TABLE_2.items():
        row = next((r for r in rows if r["model"] == model), None)
        for name, key, known in (("DP-SGD", "dp", private), ("noise on data", "data", noisy)):
            ours = None if row is None else row[f"seconds_{key}"] / row["seconds_sgd"]
            why = "" if row is None else (
                f"{row['steps']} steps of {row['batch']}, least of {row['repeats']}; "
                "±30% on a shared machine")  # fmt: skip
            if row is not None and row.get("run"):
                why = f"{row['run']}: {why}"
            cells.append(Cell(f"{model}, {name} over SGD", known / plain, ours,
                              unit="ratio", why=why))  # fmt: skip
    return cells


def faces(rows: Rows) -> list[Cell]:
    """Figure 5, on LFW in place of CelebA: error of the noisy image, (x - .5)/.5."""
    cells = []
    for row in rows:
        why = f"LFW for CelebA; eyes {row['mse_eyes']:.3g}, rest {row['mse_rest']:.3g}"
        cells.append(Cell(f"{_name(row)}: MSE", None, row["mse_scaled"], unit="MSE", why=why))
        cells.append(Cell(f"{_name(row)}: SSIM", None, row["ssim"], unit="SSIM"))
    return cells


def compression() -> list[Cell]:
    """Figure 7: nats lost with one of the printed eigenvalues, and the noise that loses as many.

    Of the four printed eigenvalues of a data set alone, at a variance of 1 and of 10.
    """
    cells = []
    for data, values in tan.EIGENVALUES.items():
        for sigma in (1.0, 10.0):
            for place, gone in zip((0, 1, 10), values, strict=True):
                kept = [v for v in values if v != gone]
                left = sum(0.5 * math.log1p(v / sigma) for v in kept)
                equal = _noise_for(values, left)
                lost = 0.5 * math.log1p(gone / sigma)
                cells.append(
                    Cell(
                        f"{data}, λ_{place} = {gone:g} removed, σ = {sigma:g}",
                        None,
                        equal / sigma,
                        unit="× noise",
                        why=f"{lost:.2f} nats fewer, as with so many times the noise on all three",
                    )
                )
    return cells


def _noise_for(values: Sequence[float], nats: float) -> float:
    low, high = 1e-9, 1e9
    for _ in range(200):
        middle = math.sqrt(low * high)
        told = sum(0.5 * math.log1p(v / middle) for v in values)
        low, high = (middle, high) if told > nats else (low, middle)
    return high


def beta_weights() -> list[Cell]:
    """Figure 17: the weights β in one channel of an image."""
    import numpy as np

    from recondite_papers.jobs.channels import beta

    weights = beta((1, 32, 32)).reshape(32, 32)
    inside = np.argwhere(weights > 1)
    return [
        Cell("weight inside", 50.0, float(weights.max()), unit="β"),
        Cell("weight outside", 1.0, float(weights.min()), unit="β"),
        Cell("first row", 12.0, float(inside[:, 0].min()), unit="row"),
        Cell("last row", 19.0, float(inside[:, 0].max()), unit="row"),
        Cell("first column", 8.0, float(inside[:, 1].min()), unit="column"),
        Cell("last column", 23.0, float(inside[:, 1].max()), unit="column"),
    ]


def by_capacity(rows: Rows, inversion: Rows = ()) -> list[Cell]:
    """Figure 10: model inversion (trained LeNet) and gradient inversion by κ, Natural."""
    cells = []
    for row in rows:
        if row["defence"] in ("none", "natural"):
            why = _size(row) + f"; start image {row['mse_start']:.3f}"
            name = f"model inversion, {row['data']}, {_name(row)}"
            cells.append(
                Cell(
                    name,
                    None,
                    row["mse_inversion"],
                    spread(row.get("mse_inversion_seeds", [])),
                    unit="MSE",
                    why=why,
                )
            )
    for row in inversion:
        if row["defence"] in ("none", "natural") and row.get("total_variation", 1e-4) == 1e-4:
            name = f"gradient inversion, {row['data']}, {_name(row)}"
            cells.append(Cell(name, None, row["mse_scaled"], unit="MSE"))
    return cells


def _size(row: Row) -> str:
    size = f"{row['members']:,} records, {row['steps']:,} steps of {row['batch']}"
    size += f", {row['seeds']} seeds" if row.get("seeds", 1) > 1 else ""
    size += f"; {row['cut']}" if row.get("cut") else ""
    return f"{row['run']}: {size}" if row.get("run") else size


def by_rounds(rows: Rows) -> list[Cell]:
    """Figure 13: model inversion after n steps at κ = 300."""
    cells = []
    for row in rows:
        if row["defence"] == "natural" and row["value"] == 300:
            for step, error in row["by_steps"].items():
                name = f"{row['data']}, natural 300, n = {step}"
                why = _size(row) + f"; start image {row['mse_start']:.3f}"
                cells.append(Cell(name, None, error, unit="MSE", why=why))
    return cells


def improvements(rows: Rows) -> list[Row]:
    """IMP_MIA and IMP_DRA of every defended run."""
    out = []
    for row in rows:
        plain = next(r for r in rows if r["data"] == row["data"] and r["defence"] == "none")
        if row["defence"] != "none":
            mia = improvement_membership(row["auc"], plain["auc"])
            dra = improvement_reconstruction(row["mse_inversion"], plain["mse_inversion"])
            out.append({**row, "imp_mia": mia, "imp_dra": dra, "gdc": (mia + dra) / 2})
    return out


def planes(rows: Rows) -> list[Cell]:
    """Figures 15 and 16: improvements against membership and model inversion, and accuracy."""
    cells = []
    for row in improvements(rows):
        name = f"{row['data']}, {_name(row)}"
        why = f"accuracy {100 * mean(row['accuracy']):.1f} %, AUC {row['auc']:.3f}"
        if row.get("run"):
            why += f"; {row['run']}"
        cells.append(Cell(f"{name}: IMP_MIA", None, row["imp_mia"], unit="share", why=why))
        cells.append(Cell(f"{name}: IMP_DRA", None, row["imp_dra"], unit="share", why=why))
    return cells


def embedding(rows: Rows) -> list[Cell]:
    """The guideline: capacity, accuracy and the best linear guess of the pixels."""
    cells = []
    for row in rows:
        name = f"{row['data']}, {row['defence']} ({row['features']} features), κ = {row['value']:g}"
        note = f"{row['run']}; " if row.get("run") else ""
        if row["value"]:
            cells.append(Cell(f"{name}: nats", row["value"], row["capacity"], unit="nats",
                              why="½ Σ ln(1 + λ/σ) of the fitted channel"))  # fmt: skip
        why = f"{note}error of the best linear guess {row['mse_scaled']:.3f}"
        ours = 100 * mean(row["accuracy"])
        cells.append(Cell(f"{name}: accuracy", None, ours, unit="accuracy", why=why))
    return cells


def networks(rows: Rows) -> list[Cell]:
    """Figure 9's other networks: every setting of the paper, run or not."""
    at = {(r["model"], r["data"], r["defence"], r["value"]): r for r in rows}
    wanted = [("none", 0.0), *(("natural", kappa) for kappa in _NATURAL)]
    wanted += [(kind, kappa) for kind in ("white", "personalized-paper") for kappa in _WIDE]
    places = [(model, data) for model in list(tan.TABLE_2)[1:] for data in _DATA]
    cells = []
    for model, data in places:
        for kind, kappa in wanted:
            name = f"{model}, {data}, {_name({'defence': kind, 'value': kappa})}"
            row = at.get((model, data, kind, kappa))
            ours = None if row is None else 100 * mean(row["accuracy"])
            why = "" if row is None else _trained(row)
            cells.append(Cell(name, None, ours, unit="accuracy", why=why))
    return cells


def _trained(row: Row) -> str:
    why = f"{row['steps']:,} steps of {row['batch']}"
    if row.get("run"):
        why = f"{row['run']}: {why}"
    if row.get("rate", 0.001) != 0.001:
        why += f"; Adam {row['rate']:g}, since it does not learn with 0.001"
    if mean(row["accuracy"]) <= DIED and not row.get("run"):
        why += "; it died at this rate"
    why += "; TF32" if "TF32" in row.get("precision", "") else ""
    return why + (f"; {row['cut']}" if row.get("cut") else "")


def networks_inversion(rows: Rows) -> list[Cell]:
    """Figure 14's other networks."""
    cells = []
    for (model, channel, kappa), known in tan.FIGURE_14.items():
        if model == "lenet" or (kappa == 0 and channel != "natural"):
            continue
        kind = channel if kappa else "none"
        row = next((r for r in rows if (r["model"], r["defence"], r["value"])
                    == (model, kind, kappa)), None)  # fmt: skip
        why = "" if row is None else f"{row['images']} images, {row['iterations']:,} iterations"
        if row is not None and row.get("run"):
            why = f"{row['run']}: {why}"
        ours = None if row is None else row["mse_scaled"]
        cells.append(Cell(f"{model}, {kind} {kappa:g}", known, ours, unit="MSE", why=why))
    return cells


def tan_accuracy(rows: Rows) -> list[Cell]:
    """Figures 9, 11 and 15: the printed values cannot be read."""
    cells = []
    for row in rows:
        scores = [100 * v for v in row["accuracy"]]
        kind = row["defence"] + (" (once)" if row.get("noise") == "once" else "")
        name = f"{row['data']}, {kind}" + (f" {row['value']:g}" if row["value"] else "")
        cells.append(Cell(name, None, mean(scores), spread(scores), "accuracy"))
    return cells


def tan_rounds(rows: Rows) -> list[Cell]:
    """Figure 12: accuracy after n steps at κ = 300."""
    cells = []
    for row in rows:
        if row["defence"] == "natural" and row["value"] == 300 and row["noise"] == "per_step":
            for step, scores in row["by_steps"].items():
                name = f"{row['data']}, natural 300, n = {step}"
                cells.append(Cell(name, None, 100 * mean(scores), unit="accuracy"))
    return cells


def tan_eigenvalues(rows: Rows) -> list[Cell]:
    """λ at places 0, 1 and 10 of the training records' covariance."""
    cells = []
    for data in ("cifar10", "fashion-mnist"):
        row = next((r for r in rows if r["data"] == data), None)
        for number, place in enumerate((0, 1, 10)):
            ours = None if row is None else row["eigenvalues"][number]
            cells.append(Cell(f"{data}, λ_{place}", tan.EIGENVALUES[data][number], ours, unit="λ"))
    return cells


def tan_inversion(rows: Rows, intruder: Rows = ()) -> list[Cell]:
    """Figure 14: MSE on the scale (x - .5)/.5; LeNet."""
    cells = []
    for (model, channel, kappa), known in tan.FIGURE_14.items():
        if model != "lenet" or (kappa == 0 and channel != "natural"):
            continue
        kind = channel if kappa else "none"
        found = [r for r in rows if r["defence"] == kind and r["value"] == kappa]
        best = min(found, key=lambda r: r["mse_scaled"], default=None)
        ours = None if best is None else best["mse_scaled"]
        why = cut_short(best)
        if best is not None and len(found) > 1:
            why = f"the better of two priors, {best['total_variation']:g}" + (why and f"; {why}")
        where = {"data": "cifar10", "model": "copy", "defence": kind, "value": kappa}
        told = beside(intruder, study="channel", **where)
        name = f"LeNet, {kind} {kappa:g}"
        cells.append(Cell(name, known, ours, unit="MSE", why=why, intruder=told))
    return cells


def tan_guidelines(rows: Rows) -> list[Cell]:
    """Figures 6 and 8."""
    cells = []
    for row in rows:
        if "batch" in row and row["block"].startswith("batch"):
            name = f"{row['defence']}, batch {row['batch']}"
        else:
            name = f"{row['defence']}, λ = {row['value']:.3g}"
        cells.append(Cell(name, None, row["mse_scaled"], row["mse_scaled_sd"], "MSE"))
    return cells
