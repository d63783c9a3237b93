"""What the pages of the studies are made of: stored rows, tables, figures, verdicts."""

# ruff: noqa: D103, E501
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from recondite_papers.figures.draw import draw
from recondite_papers.registry import ITEMS
from recondite_papers.tables import channel as channel_cells
from recondite_papers.tables.cells import Cell, Verdict, agreement, find, mean

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results"
IMAGES = ROOT / "docs" / "images" / "studies"
PAGES = ROOT / "docs" / "studies"
NOT_RUN = "not run"
NO_CIFAR100 = (
    "CIFAR-100's column was not run: its files cannot be had here. With them in the data directory: `recondite reproduce {study}/table-{table} --study --out studies`, "
    "write `data: cifar100` into the files named `cifar10`, and `recondite compare` each (with the batch, rate and epochs that the paper prints for it).\n"
)


def rows(job: str) -> list[dict[str, Any]]:
    """Rows of a job from all of its files; of a block in several, the last one's, full ones last."""
    blocks: dict[str, list[dict[str, Any]]] = {}
    stored = [(file.name, json.loads(file.read_text())) for file in RESULTS.glob(f"{job}*.json")]
    for _, content in sorted(stored, key=lambda pair: (not pair[1].get("small"), pair[0])):
        if content.get("job") != job or content.get("quick"):
            continue
        fresh: dict[str, list[dict[str, Any]]] = {}
        for row in content["rows"]:
            fresh.setdefault(row["block"], []).append(row)
        blocks.update(fresh)
    found = [row for part in blocks.values() for row in part]
    # Blocks of a channel job have other names in a small run.
    return channel_cells.without_small(found) if job.startswith("channel-") else found


def sources(*jobs: str) -> str:
    """Where the numbers come from, for the foot of a page."""
    lines = []
    for job in jobs:
        for file in sorted(RESULTS.glob(f"{job}*.json")):
            content = json.loads(file.read_text())
            if content.get("job") == job:
                where = content["provenance"]
                lines.append(
                    f"- `results/{file.name}`: {where['device']}, torch {where['torch']}, "
                    f"{where['created'][:10]}"
                    + (f" ({content['note']})" if "note" in content else "")
                )
    if not lines:
        return "No run in full is stored yet.\n"
    return "\n".join(lines) + "\n"


def number(value: float | None, unit: str = "") -> str:
    if value is None:
        return "–"
    if unit == "accuracy":
        return f"{value:.1f}"
    if unit == "SSIM":
        return f"{value:.3f}"
    return f"{value:.4g}" if abs(value) < 1e6 else f"{value:.1e}"


def table(cells: list[Cell], *, skip_missing: bool = True) -> str:
    """Paper, ours, difference, why; cells that were not run are counted below."""
    shown = [c for c in cells if c.ours is not None] if skip_missing else cells
    if not shown:
        return "Not run yet.\n"
    known = any(cell.intruder for cell in shown)
    lines = ["| cell | paper | ours | difference | why |", "| :-- | --: | --: | --: | :-- |"]
    if known:
        lines = [
            f"{lines[0]} attackers who know the defence: gain over a blind guess; games, bound |",
            f"{lines[1]} :-- |",
        ]
    for cell in shown:
        ours = number(cell.ours, cell.unit)
        if cell.spread is not None:
            ours += f" ± {number(cell.spread, cell.unit)}"
        gap = "–" if cell.difference is None else f"{cell.difference:+.3g}"
        lines.append(
            f"| {cell.name} | {number(cell.paper, cell.unit)} | {ours} | {gap} | {cell.why} |"
            + (f" {cell.intruder} |" if known else "")
        )
    missing = len(cells) - len(shown)
    if missing:
        lines += ["", f"{missing} cells were not run."]
    return "\n".join(lines) + "\n"


def folded(title: str, text: str) -> str:
    """A long table that opens on a click."""
    return f"<details markdown><summary>{title}</summary>\n\n{text}\n</details>\n"


def claims(lines: list[Verdict]) -> str:
    """The verdicts, first on every page: what to believe now, then why."""
    out = ["| claim | verdict | what to believe now |", "| :-- | :-- | :-- |"]
    for one in lines:
        # A small run settles nothing: the verdict says so itself.
        small = "small run" in one.evidence and one.stands != NOT_RUN
        sure = " (small run)" if small else ""
        out.append(f"| {one.claim} | **{one.stands}{sure}** | {one.believe} |")
    why = [f"- *{one.claim}* {one.evidence}." for one in lines if one.evidence]
    return "\n".join(out) + "\n\n### Why\n\n" + "\n".join(why) + "\n"


def within(cells: list[Cell], points: float = 3.0) -> str:
    """'n of m (x%)' cells within so many points."""
    near, run = agreement(cells, points)
    return f"{near} of {run} ({100 * near / run:.0f}%)" if run else "none run"


def printed_cells(study: str) -> list[Cell]:
    """Every cell of the paper's own tables and figures, from the stored rows; not our pairs."""
    cells = []
    for item in ITEMS.values():
        if item.study == study and not item.beyond:
            cells += item.cells({job: rows(job) for _, job, _ in item.jobs})
    return [cell for cell in cells if " against " not in cell.name]


def save(figure: Any, name: str) -> str:
    """An SVG, and the line that shows it."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    figure.savefig(IMAGES / f"{name}.svg", bbox_inches="tight", metadata={"Date": None})
    return f"![{name}](../images/studies/{name}.svg)\n"


def figures(study: str) -> str:
    """The study's figures, drawn from the stored rows as the command draws them."""
    out = []
    for item in ITEMS.values():
        if item.study != study or not item.drawn:
            continue
        found = {job: rows(job) for _, job, _ in item.jobs}
        name = item.name.replace("/", "-")
        marks = [row["run"] for part in found.values() for row in part if row.get("run")]
        if draw(item.figure, found, item.cells(found), RESULTS, IMAGES / f"{name}.svg"):
            mark = f" S{marks[0][1:]}, in part or in whole." if marks else ""
            out.append(f"**{item.name}**: {item.title}.{mark}\n")
            out.append(f"![{item.title}](../images/studies/{name}.svg)\n")
    return "\n".join(out)


def commands(study: str, short_of: dict[str, str] | None = None) -> str:
    """What was run small or not at all, with the command that would run it in full.

    Args:
      study: Whose items.
      short_of: By item, what else its rows lack of what is printed.
    """
    lines = ["| item | here | in full | time on one H200 (estimate) |", "| :-- | :-- | :-- | --: |"]
    for item in ITEMS.values():
        if item.study != study or not item.jobs:
            continue
        found = [
            row
            for _, job, only in item.jobs
            for row in rows(job)
            if not only or any(part in row["block"] for part in only)
        ]
        cells = item.cells({job: rows(job) for _, job, _ in item.jobs})
        run = sum(cell.ours is not None for cell in cells)
        marks = [row["run"] for row in found if "small run" in (row.get("run") or "")]
        small = len(marks)
        cuts = list(dict.fromkeys(row["cut"] for row in found if row.get("cut")))
        cuts += [text for text in [(short_of or {}).get(item.name)] if text]
        short = sum("stopped by the time limit" in cell.why for cell in cells)
        if short:
            cuts.append(f"{short} attacks stopped by our time limit, see the column why")
        if run == len(cells) and run and not small and not cuts:
            continue
        state = f"{run} of {len(cells)} cells"
        state += f", {small} of {len(found)} rows of a {marks[0]}" if small else ""
        state += f"; {'; '.join(cuts[:3])}" if cuts else ""
        if not run:
            state = "not run"
        lines.append(
            f"| {item.name} | {state} | `recondite reproduce {item.name} --device cuda` | {item.gpu} |"
        )
    return (
        "\n".join(lines) + "\n"
        if len(lines) > 2
        else "No item lacks a cell or was run small. Cuts of single cells are in the column *why*.\n"
    )


def pyplot() -> Any:
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "recondite"
    from matplotlib import pyplot as plt  # noqa: PLC0415

    return plt


def write(name: str, parts: list[str]) -> None:
    PAGES.mkdir(parents=True, exist_ok=True)
    (PAGES / f"{name}.md").write_text("\n".join(part.rstrip() + "\n" for part in parts))


def assumptions(items: tuple[str, ...]) -> str:
    return "## What the paper leaves open, and what was assumed\n\n" + "\n".join(
        f"- {item}" for item in items
    )


def by(found: list[Any], key: str, **wanted: Any) -> float | None:
    row = find(found, **wanted)
    if row is None:
        return None
    return 100 * mean(row[key]) if isinstance(row[key], list) else float(row[key])
