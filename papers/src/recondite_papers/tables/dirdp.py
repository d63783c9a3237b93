"""Faustini et al. (2023): our cells beside the printed ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from recondite_papers.printed import dirdp
from recondite_papers.tables.cells import Cell, Row, Verdict, cut_short, find, having, mean, spread
from recondite_papers.tables.guesses import fails
from recondite_papers.tables.intruder import beside

__all__ = [
    "SILENT",
    "WORSE",
    "dirdp_accuracy",
    "dirdp_images",
    "dirdp_puzzle",
    "membership",
    "share_better",
    "trade_off",
    "verdict",
]

Rows = Sequence[Row]
Points = list[tuple[float, float]]


def membership(rows: Rows) -> list[Cell]:
    """Table 3: AUC of MIA-R in per cent."""
    cells = []
    for (model, defence, value, data), known in dirdp.TABLE_3.items():
        row = find(rows, model=model, defence=defence, value=value, data=data)
        label = "" if defence == "none" else f" {value:g}"
        why = ""
        if row is not None:
            parts = [
                row.get("run") or "",
                f"95%: {100 * row['auc_low']:.0f} to {100 * row['auc_high']:.0f}",
                f"{row['members']:,} members, "
                f"{row['references']} references, {row['epochs']} epochs, "
                f"batch {row['batch']}",
            ]
            other = find(rows, model=model, data=data, defence=f"{defence}-sgd")
            if defence == "none" and not _tells(row):
                parts.append(f"nothing to tell apart: the network gets {_right(row)} right")
            if other is not None:
                parts.append(f"tested: {100 * other['auc']:.1f} by SGD ({_right(other)} right)")
            why = "; ".join(part for part in parts if part)
        ours = None if row is None else 100 * row["auc"]
        tested = () if row is None or other is None else (100 * other["auc"],)
        name = f"{model}, {data}, {defence}{label}"
        cells.append(Cell(name, known, ours, unit="AUC", why=why, tested=tested))
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
        found = [100 * r["auc"] for r in mine]
        beside = "" if plain is None else f" (undefended {100 * plain['auc']:.1f})"
        said.append(f"{model} on {data}: {min(found):.1f} to {max(found):.1f}{beside}")
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
    if not tested:
        return Verdict(
            claim, "nothing to tell", told, "Nothing: the attack is at chance undefended."
        )
    # Noise on single weights is not the mechanism as written, which is flat.
    flat = [r for r in tested if r.get("blocks") == "flat"]
    if flat:
        return Verdict(claim, stands, told, "As written it does, at no accuracy worth having.")
    return Verdict(
        claim,
        f"{stands} for single weights; undecided as written" if stands != "stands" else stands,
        told,
        "Noise on single weights leaves membership as open as none.",
    )


SILENT = "nothing to tell: the attack is at chance without defence too"
WORSE = "nothing to tell: without defence too the attack does worse than the mean image"


def _tells(plain: Row) -> bool:
    """Whether the attack works without defence, so that a defence can show."""
    return bool(plain["auc_low"] > 0.5)


def _right(row: Row) -> str:
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


def trade_off(accuracy: Rows, members: Rows, images: Rows, blind: Rows = ()) -> list[Cell]:
    """Figure 2: in what share of its points Gaussian noise is beaten by VMF noise.

    Args:
      accuracy: Of the job "dirdp-accuracy".
      members: Of the job "dirdp-membership".
      images: Of the job "dirdp-iga".
      blind: Of the job "blind": what a guess that sees nothing scores.
    """
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
        bare = find(images, model=model, data=data, defence="none")
        if kind == "IGA" and bare is not None and fails(bare, blind, "dirdp"):
            why += f"; {WORSE}"
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


def dirdp_accuracy(rows: Rows, usual: Rows = ()) -> list[Cell]:
    """Table 2; VMF by the partition that was trained.

    Args:
      rows: Of the job "dirdp-accuracy".
      usual: Of the job "dirdp-usual": the same from torch's own initial weights.
    """
    cells = []
    for (model, defence, value, data), known in dirdp.TABLE_2.items():
        if data == "cifar100":
            continue
        where: Row = {"model": model, "data": data, "defence": defence}
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
        tested = () if other is None else (100 * mean(other["accuracy"]),)
        if tested:
            why = f"{tested[0]:.1f} from torch's own initial weights"
        label = "" if defence == "none" else f" {value:g}"
        cells.append(
            Cell(
                f"{model}, {data}, {defence}{label}",
                known,
                mean(scores) if scores else None,
                spread(scores) if scores else None,
                "accuracy",
                why,
                tested,
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


def dirdp_images(rows: Rows, relu: Rows = (), intruder: Rows = ()) -> list[Cell]:
    """Table 4: median MSE on the scale (x - .5)/.5.

    Args:
      rows: Of the job "dirdp-iga".
      relu: Of the job "dirdp-iga-relu": the same on networks with ReLU.
      intruder: Of the job "intruder": the strongest attacks known.
    """
    cells = []
    for (model, defence, value, data), known in dirdp.TABLE_4.items():
        where = {"model": model, "data": data, "defence": defence, "value": value}
        found: list[Row | None] = [*having(rows, **where)]
        label = "" if defence == "none" else f" {value:g}"
        for row in found or [None]:
            blocks, other = "", None
            if row is not None:
                partition = {key: row.get(key) for key in ("blocks", "weights")}
                blocks = " ({blocks}, {weights})".format(**partition) if partition["blocks"] else ""
                other = find(relu, **where, **partition)
            why = cut_short(row)
            if other is not None:
                said = f"{other['mse_scaled_median']:.3g} with ReLU and torch's own initial weights"
                why = f"{why}; {said}" if why else said
            ours = None if row is None else row["mse_scaled_median"]
            name = f"{model}, {data}, {defence}{label}{blocks}"
            tested = () if other is None else (other["mse_scaled_median"],)
            more = {} if row is None or not blocks else {"blocks": row["blocks"]}
            told = beside(intruder, study="dirdp", **where, **more)
            cell = Cell(name, known, ours, unit="MSE", why=why, tested=tested, intruder=told)
            cells.append(cell)
    return cells
