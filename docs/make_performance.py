"""Makes the figures and tables of the performance page from committed results.

``python docs/make_performance.py`` writes ``docs/images/performance-*.svg`` from
``results/gpu-*.json`` and ``results/epsilon-steps.json`` and prints the tables;
``--epsilon`` computes the latter file first.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt

import recondite as rc
from recondite.accounting.schedules import Poisson

ROOT = Path(__file__).resolve().parent.parent
RESULTS, IMAGES = ROOT / "results", ROOT / "docs" / "images"
DIM, RATE, DELTA = 13_700, 128 / 60_000, 1 / 60_000
STEPS = (1, 10, 100, 469, 1_407, 10_000, 100_000)


def rows(name: str) -> list[dict[str, Any]]:
    """Rows of a file of results."""
    found: list[dict[str, Any]] = json.loads((RESULTS / name).read_text(encoding="utf-8"))["rows"]
    return found


def compute_epsilon() -> None:
    """ε of the README's runs against their number of steps."""
    sides = {"Gaussian σ = 1.23": rc.Gaussian(1.23), "VMF κ = 75": rc.VonMisesFisher(75.0, DIM)}
    found = [
        {"side": side, "x": steps, "epsilon": rc.epsilon(made, Poisson(RATE, steps), DELTA)}
        for side, made in sides.items()
        for steps in STEPS
    ]
    out = {"rows": found, "command": "python docs/make_performance.py --epsilon"}
    path = RESULTS / "epsilon-steps.json"
    path.write_text(json.dumps(out, indent=1) + "\n", encoding="utf-8")


def plot(name: str, panels: dict[str, list[dict[str, Any]]], value: str, label: str) -> None:
    """One figure, a panel for what each is drawn against, a line for each side."""
    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "recondite"
    figure, axes = plt.subplots(1, len(panels), figsize=(3.2 * len(panels) + 1, 3.2), squeeze=False)
    for axis, (against, found) in zip(axes[0], panels.items(), strict=True):
        for side in dict.fromkeys(row["side"] for row in found):
            own = [row for row in found if row["side"] == side]
            axis.plot([r["x"] for r in own], [r[value] for r in own], marker="o", ms=3, label=side)
        axis.set(xscale="log", yscale="log", xlabel=against)
    axes[0][0].set_ylabel(label)
    axes[0][0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(IMAGES / f"performance-{name}.svg", metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    """Writes the figures, prints the tables."""
    if "--epsilon" in sys.argv:
        compute_epsilon()
    grown = rows("gpu-growth.json")
    panels = {
        kind: [r for r in grown if r["against"] == kind] for kind in ("batch", "width", "depth")
    }
    plot("growth", panels, "ms", "ms a step, H200")
    noise = [{**r, "x": r["p"], "side": r["noise"]} for r in rows("gpu-noise.json") if "ratio" in r]
    plot("noise", {"p": noise}, "ms", "ms a release, H200")
    plot("epsilon", {"steps": rows("epsilon-steps.json")}, "epsilon", "ε")
    before = {(r.get("model"), r.get("side")): r["ms"] for r in rows("gpu-before.json")}
    for row in rows("gpu-steps.json"):
        was = before.get((row["model"], row["side"]))
        cells = (row["model"], row["side"], was, row["ms"], row["over_plain"], row["peak_mib"])
        print(
            "| " + " | ".join(f"{c:.3g}" if isinstance(c, float) else str(c) for c in cells) + " |"
        )


if __name__ == "__main__":
    main()
