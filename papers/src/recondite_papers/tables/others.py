"""Tan et al. (2024) and Faustini et al. (2023, 2022): our cells beside the printed ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recondite_papers.printed import channel as tan
from recondite_papers.printed import dirdp, dirdp_v1
from recondite_papers.tables.cells import Cell, find, having, mean, spread

__all__ = [
    "dirdp_accuracy", "dirdp_images", "dirdp_puzzle", "tan_accuracy", "tan_eigenvalues",
    "tan_guidelines", "tan_inversion", "tan_rounds", "v1_attacks", "v1_trained",
]  # fmt: skip

Rows = Sequence[dict[str, Any]]


def _cut(row: dict[str, Any] | None) -> str:
    """Says of an attack that its time was up, or that it was a small run."""
    if row is None:
        return ""
    cut = f"stopped by the time limit after {row.get('iterations')} iterations"
    return "; ".join(p for p in (row.get("run"), cut if row.get("interrupted") else "") if p)


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


def tan_inversion(rows: Rows) -> list[Cell]:
    """Figure 14: MSE on the scale (x - .5)/.5; LeNet."""
    cells = []
    for (model, channel, kappa), known in tan.FIGURE_14.items():
        if model != "lenet" or (kappa == 0 and channel != "natural"):
            continue
        kind = channel if kappa else "none"
        found = [r for r in rows if r["defence"] == kind and r["value"] == kappa]
        best = min(found, key=lambda r: r["mse_scaled"], default=None)
        ours = None if best is None else best["mse_scaled"]
        why = _cut(best)
        if best is not None and len(found) > 1:
            why = f"the better of two priors, {best['total_variation']:g}" + (why and f"; {why}")
        cells.append(Cell(f"LeNet, {kind} {kappa:g}", known, ours, unit="MSE", why=why))
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


def dirdp_accuracy(rows: Rows, usual: Rows = ()) -> list[Cell]:
    """Table 2; VMF by the partition that was trained.

    Args:
      rows: Of the job "dirdp-accuracy".
      usual: Of the job "dirdp-usual": the same from torch's own first weights.
    """
    cells = []
    for (model, defence, value, data), known in dirdp.TABLE_2.items():
        if data == "cifar100":
            continue
        where: dict[str, Any] = {"model": model, "data": data, "defence": defence}
        if defence == "vmf":
            where |= {"defence": "directional", "value": value}
        elif defence == "gaussian":
            where["epsilon"] = value
        row = find(rows, **where)
        scores = [] if row is None else [100 * v for v in row["accuracy"]]
        why = ""
        if row is not None and defence == "vmf":
            why = f"{row['blocks']}, {row['weights']} weights"
        other = find(usual, **where)
        if other is not None:
            why = f"{100 * mean(other['accuracy']):.1f} from torch's own first weights"
        label = "" if defence == "none" else f" {value:g}"
        cells.append(
            Cell(
                f"{model}, {data}, {defence}{label}",
                known,
                mean(scores) if scores else None,
                spread(scores) if scores else None,
                "accuracy",
                why,
            )
        )
    return cells


def dirdp_puzzle(rows: Rows) -> list[Cell]:
    """Accuracy of LeNet by partition and κ, beside Table 2's."""
    cells = []
    for row in rows:
        known = dirdp.TABLE_2.get(("lenet", "vmf", row["value"], row["data"]))
        label = f"{row['blocks']}, {row['weights']} weights, κ = {row['value']:g}"
        network = "tanh" if "tanh" in row.get("network", "") else "ReLU"
        how = f"{row.get('note') or str(row['epochs']) + ' epochs'}, {network}"
        ours = 100 * mean(row["accuracy"])
        cells.append(Cell(f"{row['data']}, {label}", known, ours, unit="accuracy", why=how))
    return cells


def dirdp_images(rows: Rows, relu: Rows = ()) -> list[Cell]:
    """Table 4: median MSE on the scale (x - .5)/.5.

    Args:
      rows: Of the job "dirdp-iga".
      relu: Of the job "dirdp-iga-relu": the same on networks with ReLU.
    """
    cells = []
    for (model, defence, value, data), known in dirdp.TABLE_4.items():
        where = {"model": model, "data": data, "defence": defence, "value": value}
        found: list[dict[str, Any] | None] = [*having(rows, **where)]
        label = "" if defence == "none" else f" {value:g}"
        for row in found or [None]:
            blocks, other = "", None
            if row is not None:
                partition = {key: row.get(key) for key in ("blocks", "weights")}
                blocks = " ({blocks}, {weights})".format(**partition) if partition["blocks"] else ""
                other = find(relu, **where, **partition)
            why = _cut(row)
            if other is not None:
                said = f"{other['mse_scaled_median']:.3g} with ReLU and torch's own first weights"
                why = f"{why}; {said}" if why else said
            ours = None if row is None else row["mse_scaled_median"]
            name = f"{model}, {data}, {defence}{label}{blocks}"
            cells.append(Cell(name, known, ours, unit="MSE", why=why))
    return cells


def _attacked(row: dict[str, Any], attack: str, net: str, data: str) -> bool:
    # Blocks of a job end with "plain" or "noisy", those of a study do not.
    return str(row["block"]).split("/")[:3] == [attack, net, data]


def v1_attacks(rows: Rows, attack: str) -> list[Cell]:
    """Tables 3 (DLG) and 4 (Inverting Gradients) of the first version."""
    table = dirdp_v1.TABLE_3 if attack == "dlg" else dirdp_v1.TABLE_4
    cells = []
    for (model, defence, value, data), (ssim, mse) in table.items():
        net = "lenet-dlg" if model == "lenet" else model
        found: list[dict[str, Any] | None] = [
            r
            for r in rows
            if _attacked(r, attack, net, data)
            and r["victim"] == "untrained"
            and r["defence"] == defence
            and (defence == "none" or r["value"] == value)
        ]
        label = "" if defence == "none" else f" {value:g}"
        for row in found or [None]:
            blocks = "" if row is None or "blocks" not in row else f" ({row['blocks']})"
            name = f"{model}, {data}, {defence}{label}{blocks}"
            cells.append(
                Cell(f"{name}: SSIM", ssim, None if row is None else row["ssim"], unit="SSIM")
            )
            ours = None if row is None else row["mse_scaled_median"]
            cells.append(Cell(f"{name}: MSE", mse, ours, unit="MSE", why=_cut(row)))
    return cells


def v1_trained(rows: Rows) -> list[Cell]:
    """Table 6 of the first version: victims trained or not, no noise."""
    cells = []
    for (attack, model, weights, data), (ssim, mse) in dirdp_v1.TABLE_6.items():
        net = "lenet-dlg" if model == "lenet" else model
        row = next(
            (
                r
                for r in rows
                if _attacked(r, attack, net, data)
                and r["victim"] == weights
                and r["defence"] == "none"
            ),
            None,
        )
        name = f"{attack}, {model}, {data}, {weights}"
        cells.append(Cell(f"{name}: SSIM", ssim, None if row is None else row["ssim"], unit="SSIM"))
        ours = None if row is None else row["mse_scaled_median"]
        cells.append(Cell(f"{name}: MSE", mse, ours, unit="MSE", why=_cut(row)))
    return cells
