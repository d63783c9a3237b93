"""Faustini et al. (2022): our cells beside the printed ones."""

from __future__ import annotations

from collections.abc import Sequence

from recondite_papers.printed import dirdp_v1
from recondite_papers.tables.cells import Cell, Row, Verdict, cut_short, find, having
from recondite_papers.tables.intruder import beside

__all__ = ["pictures", "v1_accuracy", "v1_attacks", "v1_faces", "v1_trained", "v1_verdict"]

Rows = Sequence[Row]


def _how(row: Row | None) -> str:
    if row is None:
        return ""
    blocks = f"{row['blocks']}" if row.get("blocks") else ""
    size = f"{row['records']:,} records, {row['epochs']} epochs"
    return ", ".join(part for part in (row.get("run") or "", size, blocks) if part)


def v1_accuracy(rows: Rows, usual: Rows = ()) -> list[Cell]:
    """Table 1: MNIST and CIFAR-10; CIFAR-100 is not here.

    Args:
      rows: Of the job "dirdp-v1-accuracy".
      usual: Of the job "dirdp-v1-usual": the same from torch's own initial weights.
    """
    cells = []
    for (model, defence, value, data), known in dirdp_v1.TABLE_1.items():
        if data == "cifar100":
            continue
        cells += _v1(rows, usual, model, defence, value, data, {1: known})
    return cells


def v1_faces(rows: Rows, usual: Rows = ()) -> list[Cell]:
    """Table 2: Top-1, Top-5 and Top-10 on LFW; arguments as above."""
    cells = []
    for model, defence, value in dict.fromkeys(key[:3] for key in dirdp_v1.TABLE_2):
        known = {k: dirdp_v1.TABLE_2[model, defence, value, k] for k in (1, 5, 10)}
        cells += _v1(rows, usual, model, defence, value, "lfw", known)
    return cells


def _v1(
    rows: Rows,
    usual: Rows,
    model: str,
    defence: str,
    value: float,
    data: str,
    known: dict[int, float],
) -> list[Cell]:
    wanted = {"model": model, "defence": defence, "value": value, "data": data}
    found: list[Row | None] = [*having(rows, **wanted)]
    label = "" if defence == "none" else f" {value:g}"
    cells = []
    for row in found or [None]:
        other = None if row is None else find(usual, **wanted, blocks=row.get("blocks"))
        for top, cell in known.items():
            name = f"{model}, {data}, {defence}{label}" + (f", Top-{top}" if data == "lfw" else "")
            if row is not None and row.get("blocks"):
                name += f" ({row['blocks']})"
            ours = None if row is None else 100 * row["top"][str(top)]
            why = _how(row)
            tested = () if other is None else (100 * other["top"][str(top)],)
            if tested:
                why += f"; {tested[0]:.1f} from torch's own initial weights"
            cells.append(Cell(name, cell, ours, unit="accuracy", why=why, tested=tested))
    return cells


def v1_verdict(rows: Rows) -> Verdict:
    """Is VMF noise cheaper than Gaussian noise on CIFAR-10?"""
    claim = dirdp_v1.CLAIMS["utility"]
    said, gaps, used = [], [], []
    wanted = {"data": "cifar10", "model": "lenet"}
    for blocks in ("elements", "rows"):
        vmf = find(rows, defence="vmf", value=5.0, blocks=blocks, **wanted)
        for epsilon in (0.8, 8.0):
            gauss = find(rows, defence="gaussian", value=epsilon, **wanted)
            if vmf is not None and gauss is not None:
                gaps.append(100 * (vmf["top"]["1"] - gauss["top"]["1"]))
                said.append(f"κ = 5 by {blocks} against ε = {epsilon:g}: {gaps[-1]:+.1f} points")
                used += [vmf, gauss]
    if not said:
        return Verdict(claim, "not run", "")
    note = next((f"; {row['run']}" for row in used if row.get("run")), "")
    enough = [gap >= 10.0 for gap in gaps]
    stands = "stands" if all(enough) else "in part" if any(enough) else "falls"
    believe = "Only by single weights, which protect nobody."
    return Verdict(claim, stands, f"LeNet, {', '.join(said)}{note}", believe)


def pictures(rows: Rows, attack: str, victim: str = "untrained") -> list[Cell]:
    """Figures 4, 5 and 6: SSIM of the images drawn, beside the tables' means."""
    table = dirdp_v1.TABLE_3 if attack == "dlg" else dirdp_v1.TABLE_4
    cells = []
    for row in rows:
        if attack not in ("both", row["attack"]) or (victim != "both" and row["victim"] != victim):
            continue
        if victim == "both" and row["defence"] != "none":
            continue
        model = row["model"].replace("-dlg", "")
        if victim == "both":
            known = dirdp_v1.TABLE_6.get((row["attack"], model, row["victim"], row["data"]))
        else:
            known = table.get((model, row["defence"], row["value"], row["data"]))
        label = row["defence"] + (f" {row['value']:g}" if row["value"] else "")
        name = f"{row['attack']}, {model}, {row['data']}, {row['victim']}, {label}"
        count = row.get("images", 1)
        shown = "one image" if count == 1 else f"mean of {count} images"
        why = f"{shown}; the paper's is the mean of its table; {row['iterations']} iterations"
        if row.get("run"):
            why = f"{row['run']}; {why}"
        paper = None if known is None else known[0]
        cells.append(Cell(name, paper, row["ssim"], unit="SSIM", why=why))
    return cells


def _attacked(row: Row, attack: str, net: str, data: str) -> bool:
    # Blocks of a job end with "plain" or "noisy", those of a study do not.
    return str(row["block"]).split("/")[:3] == [attack, net, data]


def v1_attacks(rows: Rows, attack: str, intruder: Rows = ()) -> list[Cell]:
    """Tables 3 (DLG) and 4 (Inverting Gradients) of the first version."""
    table = dirdp_v1.TABLE_3 if attack == "dlg" else dirdp_v1.TABLE_4
    cells = []
    for (model, defence, value, data), (ssim, mse) in table.items():
        net = "lenet-dlg" if model == "lenet" else model
        found: list[Row | None] = [
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
            where = {"model": net, "data": data, "defence": defence, "value": value}
            more = {"blocks": row["blocks"]} if row is not None and "blocks" in row else {}
            told = beside(intruder, study="dirdp-v1", **where, **more)
            why = cut_short(row)
            cells.append(Cell(f"{name}: MSE", mse, ours, unit="MSE", why=why, intruder=told))
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
        cells.append(Cell(f"{name}: MSE", mse, ours, unit="MSE", why=cut_short(row)))
    return cells
