"""What each figure shows, taken from the rows of its jobs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from recondite_papers.figures.draw import lines, pictures, pyplot, scatter
from recondite_papers.jobs.gallery import stored
from recondite_papers.printed import compare as biswas
from recondite_papers.tables.cells import Row, mean
from recondite_papers.tables.channel import improvements
from recondite_papers.tables.dirdp import (
    our_points,
    panels,
    printed_points,
)

__all__ = [
    "accuracy_by_capacity",
    "accuracy_by_rounds",
    "accuracy_plane",
    "batches",
    "capacity_by_noise",
    "compare_accuracy",
    "compare_capacity",
    "compare_dlg",
    "compare_error",
    "compare_iga",
    "directional_trade_off",
    "early_dlg",
    "early_iga",
    "early_trained",
    "eigenvalues",
    "error_by_capacity",
    "error_by_rounds",
    "improvement_plane",
    "noisy_faces",
    "weights",
]  # fmt: skip

Rows = Mapping[str, list[Row]]
_PAIRS = {("vmf", float(p[1])): float(p[0]) for p in biswas.TABLE_4} | {
    ("gaussian", float(p[2])): float(p[0]) for p in biswas.TABLE_4
}


def _grouped(
    rows: list[Row],
    panel: Callable[[Row], str],
    name: Callable[[Row], str | None],
    point: Callable[[Row], tuple[float, float] | None],
) -> dict[str, dict[str, list[tuple[float, float]]]]:
    out: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for row in rows:
        label = name(row)
        where = point(row) if label is not None else None
        if label is not None and where is not None:
            out.setdefault(panel(row), {}).setdefault(label, []).append(where)
    return out


def _defence(row: Row) -> str | None:
    return None if row["defence"] in ("none", "clip") else str(row["defence"])


def _accuracy(row: Row) -> float:
    return 100 * mean(row["accuracy"])


def compare_error(rows: Rows, folder: Path | None) -> Any:
    """Figure 1: MSE against the printed ε."""

    def point(row: Row) -> tuple[float, float] | None:
        epsilon = _PAIRS.get((row["defence"], row["value"]))
        return None if epsilon is None else (epsilon, row["mse_scaled_placed"])

    found = [row for row in rows["compare-iga"] if row["block"].startswith("iga-128")]
    grouped = _grouped(found, lambda r: r["data"], _defence, point)
    return lines(grouped, "ε as printed", "MSE", log=True)


def compare_accuracy(rows: Rows, folder: Path | None) -> Any:
    """Figure 2: accuracy against the printed ε."""

    def point(row: Row) -> tuple[float, float] | None:
        epsilon = _PAIRS.get((row["defence"], row["value"]))
        return None if epsilon is None else (epsilon, _accuracy(row))

    found = [row for row in rows["compare-accuracy"] if row["block"].startswith("main")]
    grouped = _grouped(found, lambda r: r["data"], _defence, point)
    return lines(grouped, "ε as printed", "test accuracy, %", log=True)


def compare_capacity(rows: Rows, folder: Path | None) -> Any:
    """Figure 4: MSE against log Bayes' capacity of what leaks."""
    import recondite as rc
    from recondite.numerics.ball import log_gaussian_ball_capacity
    from recondite_papers.tables.accounting import DIM

    def point(row: Row) -> tuple[float, float]:
        if row["defence"] == "vmf":
            nats = rc.VonMisesFisher(row["value"], DIM).log_bayes_capacity()
        else:
            nats = log_gaussian_ball_capacity(DIM, row["batch"] / row["value"])
        return nats, row["mse_scaled_placed"]

    found = [row for row in rows["compare-iga"] if row["block"].startswith("iga-128")]
    grouped = _grouped(found, lambda r: r["data"], _defence, point)
    return lines(grouped, "log Bayes' capacity of the leak, nats", "MSE", log=True, marker="o")


def _compare_pictures(folder: Path | None, pattern: str) -> Any:
    strips: dict[str, np.ndarray] = {}
    for file in sorted(folder.glob(pattern)) if folder is not None else []:
        data = file.stem.split("-", 3)[3]  # of gallery-iga-128-fashion-mnist
        with np.load(file) as kept:
            for key in ("originals", *[k for k in kept.files if k != "originals"][:8]):
                strips[f"{data}: {_picture(key)}"] = kept[key]
    return pictures(strips)


def _picture(key: str) -> str:
    """Of a key of a gallery, as "vmf_75_flat"."""
    kind, _, rest = key.partition("_")
    value, _, clipping = rest.partition("_")
    if kind in ("vmf", "gaussian"):
        return f"{'κ' if kind == 'vmf' else 'σ'} = {value}"
    by_layer = " by layer" if clipping == "per-layer" else ""
    return {"none": "undefended", "clip": f"clipped{by_layer}"}.get(kind, key)


def compare_iga(rows: Rows, folder: Path | None) -> Any:
    """Figure 3."""
    return _compare_pictures(folder, "gallery-iga-*.npz")


def compare_dlg(rows: Rows, folder: Path | None) -> Any:
    """Figure 6."""
    return _compare_pictures(folder, "gallery-dlg-*.npz")


def capacity_by_noise(rows: Rows, folder: Path | None) -> Any:
    """Figure 3 of Tan et al.: ½ ln(1 + λ/σ)."""
    grid = [10 ** (k / 10) for k in range(-20, 21)]
    series = {
        f"σ = {sigma:g}": [(value, 0.5 * math.log1p(value / sigma)) for value in grid]
        for sigma in (0.1, 1.0, 10.0)
    }
    return lines({"one direction": series}, "λ", "capacity, nats", log=True, marker="-")


def batches(rows: Rows, folder: Path | None) -> Any:
    """Figure 6 of Tan et al."""
    found = [r for r in rows["channel-guidelines"] if r["block"].startswith("batch")]
    grouped = _grouped(
        found, lambda r: r["data"], lambda r: r["defence"], lambda r: (r["batch"], r["mse_scaled"])
    )
    return lines(grouped, "batch size", "MSE of the mean image", log=True)


def eigenvalues(rows: Rows, folder: Path | None) -> Any:
    """Figure 8 of Tan et al."""
    found = [r for r in rows["channel-guidelines"] if r["block"].startswith("compression")]
    grouped = _grouped(
        found, lambda r: r["data"], _defence, lambda r: (r["value"], r["mse_scaled"])
    )
    return lines(grouped, "eigenvalue removed", "MSE", log=True)


def accuracy_by_capacity(rows: Rows, folder: Path | None) -> Any:
    """Figure 9."""
    found = [r for part in rows.values() for r in part if r.get("noise", "per_step") == "per_step"]
    grouped = _grouped(
        found,
        lambda r: f"{r['model']}, {r['data']}",
        _defence,
        lambda r: (r["value"], _accuracy(r)),
    )
    return lines(grouped, "capacity, nats", "test accuracy, %", log=True)


def error_by_capacity(rows: Rows, folder: Path | None) -> Any:
    """Figures 10 and 14."""
    found = [r for part in rows.values() for r in part if r.get("total_variation", 1e-4) == 1e-4]

    def panel(row: Row) -> str:
        kind = "model" if "mse_inversion" in row else "gradient"
        return f"{kind} inversion, {row['model']}, {row['data']}"

    def channel(row: Row) -> str | None:
        # A multiplier of DP is no capacity.
        return None if row["defence"].startswith("dp-") else _defence(row)

    grouped = _grouped(
        found,
        panel,
        channel,
        lambda r: (r["value"], r["mse_inversion" if "mse_inversion" in r else "mse_scaled"]),
    )
    return lines(grouped, "capacity, nats", "MSE", log=True)


def accuracy_by_rounds(rows: Rows, folder: Path | None) -> Any:
    """Figure 12."""
    return _rounds(rows["channel-accuracy"], "test accuracy, %", lambda v: 100 * mean(v))


def error_by_rounds(rows: Rows, folder: Path | None) -> Any:
    """Figure 13."""
    return _rounds(rows["channel-defence"], "MSE of model inversion", float)


def _rounds(found: list[Row], label: str, value: Callable[[Any], float]) -> Any:
    series: dict[str, list[tuple[float, float]]] = {}
    for row in found:
        if row["defence"] == "natural" and row.get("noise", "per_step") == "per_step":
            points = [(float(n), value(v)) for n, v in row["by_steps"].items()]
            series[f"{row['data']}, κ = {row['value']:g}"] = points
    return lines({"Natural channel": series}, "n", label)


def accuracy_plane(rows: Rows, folder: Path | None) -> Any:
    """Figure 15: accuracy against GDC."""
    found = improvements(rows["channel-defence"])
    points = _grouped(found, lambda r: r["data"], lambda r: r["defence"],
                      lambda r: (r["gdc"], _accuracy(r) / 100))  # fmt: skip
    return scatter(points, "GDC", "accuracy")


def improvement_plane(rows: Rows, folder: Path | None) -> Any:
    """Figure 16: the improvements against membership and against model inversion."""
    found = improvements(rows["channel-defence"])
    points = _grouped(found, lambda r: r["data"], lambda r: r["defence"],
                      lambda r: (r["imp_dra"], r["imp_mia"]))  # fmt: skip
    return scatter(points, "IMP_DRA", "IMP_MIA")


def weights(rows: Rows, folder: Path | None) -> Any:
    """Figure 17: β as an image."""
    from recondite_papers.jobs.channels import beta

    figure, axis = pyplot().subplots(figsize=(3, 3))
    shown = axis.imshow(beta((1, 32, 32)).reshape(32, 32), cmap="gray_r")
    figure.colorbar(shown, label="β")
    return figure


def _strips(folder: Path | None, job: str, block: str, columns: str = "") -> dict[str, np.ndarray]:
    file = None if folder is None else folder / stored(job, block)
    if file is None or not file.exists():
        return {}
    with np.load(file) as kept:
        return {key: kept[key] for key in kept.files if columns in key or key == "original"}


def noisy_faces(rows: Rows, folder: Path | None) -> Any:
    """Figure 5 on LFW."""
    return pictures(_strips(folder, "channel-pictures", "lfw"))


def _early(rows: Rows, folder: Path | None, attack: str, victim: str) -> Any:
    strips: dict[str, np.ndarray] = {}
    blocks = dict.fromkeys(row["block"] for row in rows["dirdp-v1-pictures"])
    for block in blocks:
        if block.startswith(attack):
            kept = _strips(folder, "dirdp-v1-pictures", block)
            keys = [k for k in kept if victim in k and (victim != "" or ", none" in k)]
            shown = [kept["original"], *(kept[k] for k in keys)] if kept else []
            if shown:
                label = ", ".join(k.partition(", ")[2] if victim else k for k in keys)
                strips[f"{block}\noriginal, {label}"] = np.concatenate(shown)
    return pictures(strips, columns=8)


def early_dlg(rows: Rows, folder: Path | None) -> Any:
    """Figure 4 of the first version."""
    return _early(rows, folder, "dlg", "untrained")


def early_iga(rows: Rows, folder: Path | None) -> Any:
    """Figure 5 of the first version."""
    return _early(rows, folder, "iga", "untrained")


def early_trained(rows: Rows, folder: Path | None) -> Any:
    """Figure 6 of the first version."""
    return _early(rows, folder, "", "")


def directional_trade_off(rows: Rows, folder: Path | None) -> Any:
    """Figure 2 of Faustini et al. (2023): printed and ours."""
    drawn: dict[str, dict[str, list[tuple[float, float]]]] = {}
    given = [rows[key] for key in ("dirdp-accuracy", "dirdp-membership", "dirdp-iga")]
    for model, data, kind in panels():
        series: dict[str, list[tuple[float, float]]] = {}
        for source, points in (("paper", printed_points(model, data, kind)),
                               ("ours", our_points(model, data, kind, *given))):  # fmt: skip
            for defence, found in points.items():
                series[f"{defence}, {source}"] = [(abs(s), a) for s, a in found]
        drawn[f"{model}, {data}, {kind}"] = series
    return scatter(drawn, "AUC, % (MIA-R) or MSE (IGA)", "test accuracy, %")
