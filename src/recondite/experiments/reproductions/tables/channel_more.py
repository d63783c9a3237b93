"""Tan et al. (2024): Table 2, Figures 5, 7, 10, 13, 16 and 17, embeddings, other networks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from recondite.experiments.reproductions.printed import channel as tan
from recondite.experiments.reproductions.tables.cells import Cell, Verdict, mean
from recondite.metrics.defence import improvement_membership, improvement_reconstruction

__all__ = [
    "beta_weights", "by_capacity", "by_rounds", "compression", "embedding", "faces", "networks",
    "networks_inversion", "planes", "times", "verdicts",
]  # fmt: skip

Rows = Sequence[dict[str, Any]]


def _name(row: dict[str, Any]) -> str:
    return str(row["defence"]) + (f" {row['value']:g}" if row["value"] else "")


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
    """Figure 5, on LFW in place of CelebA: error of the noisy picture, (x - .5)/.5."""
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
    """Figure 17: the weights β in one channel of a picture."""
    import numpy as np  # noqa: PLC0415

    from recondite.experiments.reproductions.jobs.channels import beta  # noqa: PLC0415

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
            cells.append(Cell(name, None, row["mse_inversion"], unit="MSE", why=why))
    for row in inversion:
        if row["defence"] in ("none", "natural") and row.get("total_variation", 1e-4) == 1e-4:
            name = f"gradient inversion, {row['data']}, {_name(row)}"
            cells.append(Cell(name, None, row["mse_scaled"], unit="MSE"))
    return cells


def _size(row: dict[str, Any]) -> str:
    size = f"{row['members']:,} records, {row['steps']:,} steps of {row['batch']}"
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


def improvements(rows: Rows) -> list[dict[str, Any]]:
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
        name, why = f"{row['data']}, {_name(row)}", f"accuracy {100 * mean(row['accuracy']):.1f} %"
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
    """Figure 9's other networks."""
    cells = []
    for row in rows:
        size = f"{row['steps']:,} steps of {row['batch']}"
        why = f"{row['run']}: {size}" if row.get("run") else size
        name = f"{row['model']}, {row['data']}, {_name(row)}"
        cells.append(Cell(name, None, 100 * mean(row["accuracy"]), unit="accuracy", why=why))
    return cells


def networks_inversion(rows: Rows) -> list[Cell]:
    """Figure 14's other networks."""
    cells = []
    for (model, channel, kappa), known in tan.FIGURE_14.items():
        if model == "lenet" or (kappa == 0 and channel != "natural"):
            continue
        kind = channel if kappa else "none"
        row = next((r for r in rows if (r["model"], r["defence"], r["value"])
                    == (model, kind, kappa)), None)  # fmt: skip
        why = "" if row is None else f"{row['images']} images, {row['iterations']} iterations"
        if row is not None and row.get("run"):
            why = f"{row['run']}: {why}"
        ours = None if row is None else row["mse_scaled"]
        cells.append(Cell(f"{model}, {kind} {kappa:g}", known, ours, unit="MSE", why=why))
    return cells


def verdicts(defence: Rows, embedded: Rows, timed: Rows, drawn: Rows) -> list[Verdict]:
    """What became of the claims behind these figures."""
    out = []
    note = next((f"; {r['run']}" for r in defence if r.get("run")), "")
    one = [r for r in defence if r["defence"] == "natural"]
    if one:
        errors = [r["mse_inversion"] for r in sorted(one, key=lambda r: r["value"])]
        said = " → ".join(f"{e:.3f}" for e in errors) + f" by rising κ{note}"
        said += f"; the image the attack starts from is already at {one[0]['mse_start']:.3f}"
        stands = "stands" if errors == sorted(errors, reverse=True) else "not seen"
        if stands != "stands" and errors[-1] < errors[0]:
            stands = "in part"
        out.append(Verdict("Model inversion gets closer as κ rises (Figure 10).", stands, said))
        last = max(one, key=lambda r: r["value"])
        steps = list(last["by_steps"].values())
        said = (
            " → ".join(f"{e:.3f}" for e in steps) + f" by rising n at κ = {last['value']:g}{note}"
        )
        stands = "stands" if steps[-1] < steps[0] else "not seen"
        out.append(Verdict("Model inversion gets closer as n rises (Figure 13).", stands, said))
        gains = improvements(defence)
        private = [r for r in gains if r["defence"].startswith("dp-")]
        ours = [r for r in gains if not r["defence"].startswith("dp-")]
        if private and ours:
            parts = []
            for key, label in (("imp_mia", "IMP_MIA"), ("imp_dra", "IMP_DRA")):
                a = max(r[key] for r in private)
                b = max(r[key] for r in ours)
                parts.append((a, b, f"best {label}: DP {a:.2f}, channels {b:.2f}"))
            right = (parts[0][0] >= parts[0][1]) + (parts[1][1] >= parts[1][0])
            stands = ("falls", "in part", "stands")[right]
            said = "; ".join(part[2] for part in parts) + note
            claim = "DP is better against membership, channels against reconstruction (Figure 16)."
            out.append(Verdict(claim, stands, said))
    made = [r for r in embedded if r["defence"] == "embedding" and r["value"]]
    if made:
        exact = all(abs(r["capacity"] / r["value"] - 1) < 1e-3 for r in made)
        scores = [100 * mean(r["accuracy"]) for r in made]
        pixels = [100 * mean(r["accuracy"]) for r in embedded
                  if r["defence"] == "pixels" and r["value"]]  # fmt: skip
        said = (f"the fitted channel tells κ nats {'exactly' if exact else 'nearly'}; at κ = "
                f"{made[0]['value']:g} accuracy is {scores[0]:.1f} % on embeddings and "
                f"{pixels[0]:.1f} % on pixels")  # fmt: skip
        said += f"; {made[0]['run']}" if made[0].get("run") else ""
        out.append(Verdict(tan.CLAIMS["embedding"], "stands" if exact else "falls", said))
    if timed:
        ratios = [(r["model"], r["seconds_dp"] / r["seconds_sgd"],
                   r["seconds_data"] / r["seconds_sgd"]) for r in timed]  # fmt: skip
        said = "; ".join(f"{m}: DP-SGD ×{a:.1f}, noise on data ×{b:.2f}" for m, a, b in ratios)
        stands = "stands" if all(a > b for _, a, b in ratios) else "in part"
        said += f"; {timed[0]['run']}" if timed[0].get("run") else ""
        out.append(Verdict(tan.CLAIMS["cost"], stands, said))
    eyes = [r for r in drawn if r["defence"] == "personalized-paper"]
    if eyes:
        least = min(r["mse_eyes"] / r["mse_rest"] for r in eyes)
        said = f"noise power around the eyes at least {least:.0f} times the rest's (LFW for CelebA)"
        claim = "The Personalized channel hides the eyes (Figures 5 and 17)."
        out.append(Verdict(claim, "stands" if least > 10 else "falls", said))
    return out
