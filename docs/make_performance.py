"""Makes the figures and tables of the performance page from committed results.

``python docs/make_performance.py`` writes ``docs/images/performance-*.svg`` from
``results/gpu-*.json`` and ``results/epsilon-steps.json`` and prints the tables;
``--epsilon`` computes the latter file first.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
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


def short(value: float | None) -> str:
    """Three digits, as a table shows them."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{float(f'{value:.3g}'):g}"


def table(head: Sequence[str], lines: Sequence[Sequence[Any]]) -> str:
    """A table of Markdown; the first column is text, and numbers are shortened."""
    cells = [[c if isinstance(c, str) else short(c) for c in line] for line in lines]
    rules = [":--", *["--:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rules, *cells)) + "\n"


_RELEASES = {
    "VMF, p = 1e8": (10**8, "vmf"),
    "VMF, p = 1e6": (10**6, "vmf"),
    "partitioned VMF, 10 blocks, p = 1e6": (10**6, "partitioned, 10 blocks"),
    "Gaussian, p = 1e8": (10**8, "gaussian"),
    "Gaussian, p = 1e6": (10**6, "gaussian"),
    "directional, 512 × 62,006": (62_006, "directional, 512 records, 1 blocks"),
}
_NETWORKS = {
    "mlp": "MLP, 128",
    "lenet": "LeNet, 512",
    "vgg16": "VGG16, 64",
    "alexnet": "AlexNet, 64",
}
_CPU = {"mlp": "MLP, 128", "lenet-dlg": "LeNet, 64"}


def noise_table() -> str:
    """Releases on a GPU."""
    now = {(r["p"], r["noise"]): r for r in rows("gpu-noise.json")}
    before = {(r["p"], r["noise"]): r for r in rows("gpu-before.json") if r["part"] == "noise"}
    lines = []
    for name, key in _RELEASES.items():
        found = now[key]
        memory = (found["peak_mib"], before[key]["peak_mib"])
        lines.append((name, before[key]["ms"], found["ms"], found.get("ratio"), *memory))
    return table(
        ("release", "before", "now", "over an eager Gaussian add", "peak MiB", "peak MiB before"),
        lines,
    )


def steps_table() -> str:
    """Steps on a GPU."""
    now = {(r["model"], r["side"]): r for r in rows("gpu-steps.json")}
    before = {
        (r["model"], r["side"]): r["ms"] for r in rows("gpu-before.json") if r["part"] == "steps"
    }
    lines = []
    for model, name in _NETWORKS.items():
        plain, graph, eager, compiled, vmf = (
            now[model, side]
            for side in (
                "plain",
                "plain, CUDA graph",
                "gaussian",
                "gaussian, compiled",
                "vmf, compiled",
            )
        )
        was = before.get((model, "gaussian"))
        speeds = (plain["ms"], graph["ms"], was, eager["ms"], compiled["ms"])
        ratios = (compiled["over_plain"], vmf["over_plain"])
        lines.append((name, *speeds, *ratios, *(r["peak_mib"] for r in (plain, eager, compiled))))
    return table(
        (
            "model, batch",
            "plain, eager",
            "plain, CUDA graph",
            "private, eager (before)",
            "private, eager",
            "private, compiled",
            "compiled over the graph",
            "the same, VMF",
            "peak MiB: plain",
            "private, eager",
            "private, compiled",
        ),
        lines,
    )


def cpu_table() -> str:
    """Everything on a CPU that is held against something else."""
    lines = []
    for row in rows("cpu-steps.json"):
        if row["peer_name"] == "plain SGD on indexed tensors":
            continue
        lines.append(
            (
                row["name"],
                row["peer_name"],
                row["ours"],
                row["peer"],
                row["ratio"],
                row["processor_ratio"],
            )
        )
    head = ("what", "against", "ms", "its ms", "ratio", "ratio in processor time")
    return table(head, lines)


def parts_table() -> str:
    """Where a private step on a CPU spends its time."""
    found = {(r["model"], r["side"], r["part"]): r["ms"] for r in rows("cpu-step-parts.json")}
    parts = dict.fromkeys(part for _, _, part in found)
    sides = [(model, side) for model in _CPU for side in ("plain", "private")]
    lines: list[tuple[Any, ...]] = [
        (part, *(found.get((*side, part)) for side in sides)) for part in parts
    ]
    sums = (
        sum(ms for (model, side, _), ms in found.items() if (model, side) == where)
        for where in sides
    )
    return table(
        ("part of a step", *(f"{_CPU[model]}, {side}" for model, side in sides)),
        [*lines, ("all", *sums)],
    )


def tables() -> list[str]:
    """The tables of the page."""
    return [noise_table(), steps_table(), cpu_table(), parts_table()]


def make_tables() -> None:
    """Puts each table into the page in the place of the one that has its first line."""
    path = ROOT / "docs" / "performance.md"
    page = path.read_text(encoding="utf-8")
    for made in tables():
        first = made.splitlines()[0]
        there = re.escape(first) + r"\n(?:\|.*\n)*"
        if not re.search(there, page):
            raise SystemExit(f"the page has no table that begins with {first}")
        page = re.sub(there, lambda _, made=made: made, page)
    path.write_text(page, encoding="utf-8")


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
    make_tables()


if __name__ == "__main__":
    main()
