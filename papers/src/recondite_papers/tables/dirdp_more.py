"""Faustini et al.: Table 3 and Figure 2 (2023); Tables 1, 2 and Figures 4 to 6 (2022)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from recondite_papers.printed import dirdp, dirdp_v1
from recondite_papers.tables.cells import Cell, Verdict, find, having, mean

__all__ = [
    "SILENT", "membership", "pictures", "share_better", "trade_off", "v1_accuracy", "v1_faces",
    "v1_verdict", "verdict",
]  # fmt: skip

Rows = Sequence[dict[str, Any]]
Points = list[tuple[float, float]]


def membership(rows: Rows) -> list[Cell]:
    """Table 3: area of MIA-R in per cent."""
    cells = []
    for (model, defence, value, data), known in dirdp.TABLE_3.items():
        row = find(rows, model=model, defence=defence, value=value, data=data)
        label = "" if defence == "none" else f" {value:g}"
        why = ""
        if row is not None:
            parts = [row.get("run") or "", f"95%: {100 * row['auc_low']:.0f} to "
                     f"{100 * row['auc_high']:.0f}", f"{row['members']:,} members, "
                     f"{row['references']} references, {row['epochs']} epochs, "
                     f"batch {row['batch']}"]  # fmt: skip
            other = find(rows, model=model, data=data, defence=f"{defence}-sgd")
            if defence == "none" and not _tells(row):
                parts.append(f"nothing to tell apart: the network gets {_right(row)} right")
            if other is not None:
                parts.append(f"tested: {100 * other['auc']:.1f} by SGD ({_right(other)} right)")
            why = "; ".join(part for part in parts if part)
        ours = None if row is None else 100 * row["auc"]
        cells.append(Cell(f"{model}, {data}, {defence}{label}", known, ours, unit="AUC", why=why))
    return cells


def verdict(rows: Rows) -> Verdict:
    """Does VMF noise bring membership to chance, as Table 3 has it?"""
    claim = "VMF noise with ε_V up to 50 brings MIA-R to chance."
    weak = [r for r in rows if r["defence"] == "vmf" and r["value"] <= 50]
    if not weak:
        return Verdict(claim, "not run", "")
    said, dead, tested = [], [], []
    for model, data in dict.fromkeys((r["model"], r["data"]) for r in weak):
        mine = [r for r in weak if (r["model"], r["data"]) == (model, data)]
        plain = find(rows, model=model, data=data, defence="none")
        if plain is not None and not _tells(plain):
            dead.append(f"{model} on {data} ({_right(plain)} right)")
            continue
        tested += mine
        areas = [100 * r["auc"] for r in mine]
        beside = "" if plain is None else f" (undefended {100 * plain['auc']:.1f})"
        said.append(f"{model} on {data}: {min(areas):.1f} to {max(areas):.1f}{beside}")
    note = f", {weak[0]['run']}" if weak[0].get("run") else ""
    told = (
        f"AUC {'; '.join(said)}; with noise on single weights, flat noise was not run{note}"
        if said
        else ""
    )
    if dead:
        told += ". " if told else ""
        told += "Nothing to tell where the attack is at chance without defence too, since the "
        told += f"printed rates teach the network too little: {', '.join(dead)}"
    above = [r for r in tested if r["auc_low"] > 0.5]
    stands = "stands" if not above else "falls" if len(above) == len(tested) else "in part"
    return Verdict(claim, stands if tested else "nothing to tell", told)


SILENT = "nothing to tell: the attack is at chance without defence too"


def _tells(plain: dict[str, Any]) -> bool:
    """Whether the attack works without defence, so that a defence can show."""
    return bool(plain["auc_low"] > 0.5)


def _right(row: dict[str, Any]) -> str:
    return f"{100 * row['accuracy'][0]:.0f} %"


def share_better(gaussian: Points, vmf: Points) -> float | None:
    """Share of Gaussian points that some VMF point beats: as safe or safer, and more accurate.

    Args:
      gaussian: (safety, accuracy); more is better in both.
      vmf: The same.
    """
    if not gaussian or not vmf:
        return None
    won = sum(any(v[0] >= g[0] and v[1] > g[1] for v in vmf) for g in gaussian)
    return won / len(gaussian)


def panels() -> list[tuple[str, str, str]]:
    """Model, data and attack of the eight panels, in the figure's order."""
    pairs = [(m, d) for d in ("cifar10", "fashion-mnist") for m in ("lenet", "mlp2")]
    return [(m, d, kind) for kind in ("MIA-R", "IGA") for m, d in pairs]


def printed_points(model: str, data: str, kind: str) -> dict[str, Points]:
    """(safety, accuracy) of a panel, from the printed Tables 2 to 4; 300k is left out, as drawn."""
    table: Mapping[tuple[str, str, float, str], float] = (
        dirdp.TABLE_3 if kind == "MIA-R" else dirdp.TABLE_4
    )
    sign = -1.0 if kind == "MIA-R" else 1.0
    out: dict[str, Points] = {"gaussian": [], "vmf": []}
    for (m, defence, value, d), accuracy in dirdp.TABLE_2.items():
        if (m, d) == (model, data) and defence != "none" and value <= 500:
            out[defence].append((sign * table[m, defence, value, d], accuracy))
    return out


def our_points(
    model: str, data: str, kind: str, accuracy: Rows, members: Rows, images: Rows
) -> dict[str, Points]:
    """The same from our rows; membership rows have accuracies of their own."""
    out: dict[str, Points] = {"gaussian": [], "vmf": []}
    if kind == "MIA-R":
        for row in members:
            same = (row["model"], row["data"]) == (model, data)
            if same and row["defence"] in out and row["value"] <= 500:
                out[row["defence"]].append((-100 * row["auc"], 100 * mean(row["accuracy"])))
        return out
    for row in images:
        if (row["model"], row["data"]) != (model, data) or row["defence"] not in out:
            continue
        wanted = {"model": model, "data": data}
        if row["defence"] == "gaussian":
            found = find(accuracy, defence="gaussian", epsilon=row["value"], **wanted)
        else:
            found = find(accuracy, defence="directional", value=row["value"],
                         blocks=row["blocks"], **wanted)  # fmt: skip
        if found is not None and row["value"] <= 500:
            point = (row["mse_scaled_median"], 100 * mean(found["accuracy"]))
            out[row["defence"]].append(point)
    return out


def trade_off(accuracy: Rows, members: Rows, images: Rows) -> list[Cell]:
    """Figure 2: in what share of its points Gaussian noise is beaten by VMF noise."""
    cells = []
    for model, data, kind in panels():
        known = printed_points(model, data, kind)
        ours = our_points(model, data, kind, accuracy, members, images)
        why = "share of Gaussian points that a VMF point beats in both; 1 is a clear win"
        if any(r.get("run") for r in members) and kind == "MIA-R":
            why += "; small run on a CPU"
        plain = find(members, model=model, data=data, defence="none")
        if kind == "MIA-R" and plain is not None and not _tells(plain):
            why += f"; {SILENT}"
        cells.append(
            Cell(
                f"{model}, {data}, {kind}",
                share_better(known["gaussian"], known["vmf"]),
                share_better(ours["gaussian"], ours["vmf"]),
                unit="share",
                why=why,
            )
        )
    return cells


def _how(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    blocks = f"{row['blocks']}" if row.get("blocks") else ""
    size = f"{row['records']:,} records, {row['epochs']} epochs"
    return ", ".join(part for part in (row.get("run") or "", size, blocks) if part)


def v1_accuracy(rows: Rows, usual: Rows = ()) -> list[Cell]:
    """Table 1: MNIST and CIFAR-10; CIFAR-100 is not here.

    Args:
      rows: Of the job "dirdp-v1-accuracy".
      usual: Of the job "dirdp-v1-usual": the same from torch's own first weights.
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
    found: list[dict[str, Any] | None] = [*having(rows, **wanted)]
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
            if other is not None:
                why += f"; {100 * other['top'][str(top)]:.1f} from torch's own first weights"
            cells.append(Cell(name, cell, ours, unit="accuracy", why=why))
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
    return Verdict(claim, stands, f"LeNet, {', '.join(said)}{note}")


def pictures(rows: Rows, attack: str, victim: str = "untrained") -> list[Cell]:
    """Figures 4, 5 and 6: SSIM of the pictures drawn, beside the tables' means."""
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
        shown = "one picture" if count == 1 else f"mean of {count} pictures"
        why = f"{shown}; the paper's is the mean of its table; {row['iterations']} iterations"
        if row.get("run"):
            why = f"{row['run']}; {why}"
        paper = None if known is None else known[0]
        cells.append(Cell(name, paper, row["ssim"], unit="SSIM", why=why))
    return cells
