"""Faustini et al. (2023): membership and reconstruction on every partition of VMF noise.

The paper's mechanism as written is flat; its accuracies come out with noise on single weights. So a
claim about "VMF noise" is decided for each partition by itself, on victims that learnt something.
"""

from __future__ import annotations

from collections.abc import Sequence

from recondite_papers.printed import dirdp
from recondite_papers.tables.cells import Cell, Row, Verdict, having, listed, mean
from recondite_papers.tables.dirdp import share_better
from recondite_papers.tables.intruder import beaten, exposed, settings

__all__ = ["WEAK", "at_chance", "cells", "held", "missing", "partitions", "verdicts"]

Rows = Sequence[Row]
WEAK = 50.0  # the claims are about ε_V up to 50
_MODELS = ("mlp2", "lenet")
_DATA = "fashion-mnist"
_NAMES = {
    "flat": "flat noise",
    "layers": "noise by layers",
    "rows": "noise by rows",
    "elements": "noise on single weights",
}


def partitions(rows: Rows) -> list[str]:
    """Names of the partitions on which the rows decide."""
    return [name for part, name in _NAMES.items() if at_chance(rows, part) is not None]


def missing(rows: Rows) -> list[str]:
    """Names of the partitions on which nothing was run."""
    return [name for name in _NAMES.values() if name not in partitions(rows)]


def cells(rows: Rows) -> list[Cell]:
    """AUC of MIA-R in per cent, with its interval and the victim's accuracy."""
    out = []
    for row in sorted(rows, key=_place):
        label = "" if row["defence"] == "none" else f" {row['value']:g}"
        blocks = f" ({row['blocks']})" if row.get("blocks") else ""
        why = (
            f"95%: {100 * row['auc_low']:.0f} to {100 * row['auc_high']:.0f}; accuracy "
            f"{100 * mean(row['accuracy']):.1f} %; {row['members']:,} members, {row['references']} "
            f"references, {row['epochs']} epochs"
        )
        if row.get("run"):
            why = f"{row['run']}; {why}"
        name = f"{row['model']}, {row['data']}, {row['defence']}{label}{blocks}"
        out.append(Cell(name, None, 100 * row["auc"], unit="AUC", why=why))
    there = {(row["model"], row.get("blocks") or row["defence"]) for row in rows}
    for model in _MODELS:
        out += [
            Cell(f"{model}, {_DATA}, {part}", None, None, unit="AUC")
            for part in ("none", "gaussian", *_NAMES)
            if (model, part) not in there
        ]
    return out


def _place(row: Row) -> tuple[int, int, float]:
    """Networks, then defences and partitions in their order, then strengths."""
    order = ["none", "gaussian", *_NAMES]
    part = order.index(row.get("blocks") or row["defence"])
    return _MODELS.index(row["model"]), part, float(row["value"])


def _working(rows: Rows) -> set[str]:
    """Networks on which the attack works without defence, so that a defence can show."""
    return {r["model"] for r in having(rows, defence="none") if r["auc_low"] > 0.5}


def at_chance(rows: Rows, blocks: str) -> bool | None:
    """Whether MIA-R is at chance under a partition with κ up to 50; None without rows that tell."""
    models = _working(rows)
    weak = [
        r
        for r in having(rows, defence="vmf", blocks=blocks)
        if r["value"] <= WEAK and r["model"] in models
    ]
    return None if not weak else all(r["auc_low"] <= 0.5 for r in weak)


def held(intruder: Rows, blocks: str) -> bool | None:
    """Whether the intruder sees nothing under a partition with κ up to 50.

    Neither images better than a blind guess, nor the record itself among a hundred candidates in
    half of the games: who picks it out has its image.
    """
    found = [
        pooled or one
        for one, pooled in settings(intruder, "dirdp")
        if one["defence"] == "vmf" and one.get("blocks") == blocks and one["value"] <= WEAK
    ]
    return None if not found else not any(beaten(row) or exposed(row) for row in found)


def verdicts(rows: Rows, intruder: Rows = ()) -> list[Verdict]:
    """The claims on membership, on both attacks and on the trade-off, by partition.

    Args:
      rows: Of the job "dirdp-decided".
      intruder: Of the job "intruder".
    """
    parts = [p for p in _NAMES if at_chance(rows, p) is not None]
    if not parts:
        return []
    chance = {p: bool(at_chance(rows, p)) for p in parts}
    plain = having(rows, defence="none")
    said = [
        f"undefended AUC {_span([100 * r['auc'] for r in plain])} and accuracy "
        f"{_span([100 * mean(r['accuracy']) for r in plain])} %"
    ]
    for p in parts:
        weak = [r for r in having(rows, defence="vmf", blocks=p) if r["value"] <= WEAK]
        said.append(
            f"{_NAMES[p]} AUC {_span([100 * r['auc'] for r in weak])} at "
            f"{_span([100 * mean(r['accuracy']) for r in weak])} % right"
        )
    networks = listed([name for name in _MODELS if having(rows, model=name)])
    size = (
        f"{networks}, Fashion-MNIST, {plain[0]['members']:,} members, {plain[0]['epochs']} epochs"
    )
    note = f", {plain[0]['run']}" if plain[0].get("run") else ""
    told = f"{'; '.join(said)} ({size}{note})"
    small = f" ({plain[0]['run']})" if plain[0].get("run") else ""
    out = [
        Verdict(
            "VMF noise with ε_V up to 50 brings MIA-R to chance, on victims that learnt something.",
            _by_partition(chance, {p: _most(rows, p) for p in parts}),
            told,
            _believe_members(rows, chance),
        )
    ]
    safe = {p: held(intruder, p) for p in _NAMES}
    # Images that leak are enough for it to fall; to stand it needs both attacks.
    known = {p: bool(safe[p] and chance[p]) for p in _NAMES if safe[p] is False or p in chance}
    known = {p: right for p, right in known.items() if safe[p] is not None}
    if known:
        tried = [p for p in _NAMES if safe[p] is not None]
        broken = [_NAMES[p] for p in tried if not safe[p]]
        text = (
            f"membership as above; at κ up to 50 the intruder, tried on "
            f"{listed([_NAMES[p] for p in tried])}, rebuilds images better than a blind guess, or "
            f"picks the record out of a hundred in half of the games, under "
            f"{listed(broken) or 'none of them'}{small}"
        )
        out.append(
            Verdict(
                f"{dirdp.CLAIMS['defence'].removesuffix('.')}, on victims that learnt something.",
                _by_partition(known),
                text,
                "It defends where the noise leaves little accuracy."
                if any(known.values())
                else "No partition defends against both attacks.",
            )
        )
    out += _trade(rows, parts, small)
    return out


def _most(rows: Rows, blocks: str) -> str:
    """What the victim itself learnt under a partition with κ up to 50, at most."""
    weak = [r for r in having(rows, defence="vmf", blocks=blocks) if r["value"] <= WEAK]
    return f" ({max(100 * mean(r['accuracy']) for r in weak):.0f}% right at most)"


def _by_partition(found: dict[str, bool], noted: dict[str, str] | None = None) -> str:
    """The partitions for which a claim stands, each with its note, and for which it falls."""
    notes = noted or {}
    kept = [_NAMES[p] + notes.get(p, "") for p, right in found.items() if right]
    lost = [_NAMES[p] for p, right in found.items() if not right]
    said = [
        f"{word} for {listed(part)}" for word, part in (("stands", kept), ("falls", lost)) if part
    ]
    return "; ".join(said)


def _believe_members(rows: Rows, chance: dict[str, bool]) -> str:
    """In twelve words: under which partitions, and what accuracy they leave."""
    good = [p for p, right in chance.items() if right]
    if not good:
        return "Even flat noise leaves membership above chance."
    weak = [r for r in having(rows, defence="vmf") if r["value"] <= WEAK and r["blocks"] in good]
    best = max(100 * mean(r["accuracy"]) for r in weak)
    short = [_NAMES[p].removeprefix("noise ").removesuffix(" noise") for p in good]
    if good == ["flat"]:
        return f"Flat noise does, and leaves {best:.0f}% accuracy at most."
    names = listed(short)
    return f"{names[0].upper()}{names[1:]}, yes: {best:.0f}% accuracy at most."


def _trade(rows: Rows, parts: list[str], small: str) -> list[Verdict]:
    """Figure 2's question on these victims: in how many Gaussian points a VMF point wins."""
    won: dict[str, list[float]] = {}
    for model in sorted(_working(rows)):
        noisy = [_point(r) for r in having(rows, model=model, defence="gaussian")]
        for p in parts:
            turned = [
                _point(r)
                for r in having(rows, model=model, defence="vmf", blocks=p)
                if r["value"] <= 500
            ]
            share = share_better(noisy, turned)
            if share is not None:
                won.setdefault(p, []).append(share)
    if not won:
        return []
    said = ", ".join(
        f"{_NAMES[p]} {_span([100 * s for s in shares])} %" for p, shares in won.items()
    )
    clear = {p: min(shares) > 0.5 for p, shares in won.items()}
    better = listed([_NAMES[p] for p in clear if clear[p]])
    return [
        Verdict(
            "At comparable privacy VMF is more useful (Figure 2), on victims that "
            "learnt something.",
            _by_partition(clear),
            f"share of Gaussian points (ε = 0.8 to 50) that a VMF point with κ up to 500 beats in "
            f"membership and accuracy, by network: {said}{small}",
            (
                "No partition wins clearly."
                if len(clear) == len(_NAMES)
                else f"{listed([_NAMES[p] for p in clear]).capitalize()}: no clear win."
            )
            if not any(clear.values())
            else f"It wins under {better}, on these victims.",
        )
    ]


def _point(row: Row) -> tuple[float, float]:
    return -100 * row["auc"], 100 * mean(row["accuracy"])


def _span(values: list[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:.0f}" if round(low) == round(high) else f"{low:.0f} to {high:.0f}"
