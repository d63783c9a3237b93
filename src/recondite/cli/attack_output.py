"""What recondite attack prints and writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from recondite.cli.output import figure, print_table
from recondite.notions.bounds import format_bound
from recondite.records.display import RIGHT, guess_of
from recondite.studies.shapes import Row

if TYPE_CHECKING:
    from recondite.studies.one_attack import Attacked

__all__ = ["print_attacks", "print_found", "print_rows", "write_found"]

_SHOWN = 16  # victims
_ROWS = 2  # of a table
_TEXTS = 4
_HIDDEN = "•••"


def print_attacks() -> None:
    """Every attack and preset."""
    from recondite.attacks.presets import PRESETS
    from recondite.attacks.registry import classes

    rows = [
        [
            name,
            ", ".join(sorted(kind.threats)),
            ", ".join(sorted(item.value for item in kind.needs)),
        ]
        for name, kind in classes().items()
    ]
    print_table("Attacks", ["name", "threatens", "must know"], rows)
    found = [
        [name, item.attack, item.paper, "; ".join(item.assumptions) or "–"]
        for name, item in PRESETS.items()
    ]
    print_table("Presets", ["name", "attack", "paper", "assumed"], found)


def write_found(result: Attacked, out: Path | None) -> list[Path]:
    """Writes the record, and the contact sheet where there are images; returns what it wrote."""
    if out is None:
        return []
    from recondite.studies.sheet import contact_sheet
    from recondite.training.record import write_json

    record, written = out.with_suffix(".json"), []
    if result.reconstructions is not None and result.media == "image/png":
        contact_sheet(result.reconstructions, result.originals, out)
        written.append(out)
    write_json(record, result.record)
    return [*written, record]


def _game_line(game: Row) -> list[str]:
    """One game of identification: how often it was won, and what nobody can exceed."""
    most = game["bound"]
    ceiling = game["reason"]
    if most is not None:
        limit = f"nobody above {format_bound(most, direction='upper')}"
        ceiling = f"{limit if most < 1 else 'no bound below 1'}; unaided {game['blind']:.3g}"
    drawn = "" if game.get("among", "alike") == "alike" else f"{game['among']}; "
    return [
        f"1 of {game['candidates']}, participation {game['participation']}",
        f"{game['rate']:.3f}",
        f"{drawn}95% interval {game['low']:.3f} to {game['high']:.3f}; {ceiling}",
    ]


def _membership_lines(members: Row) -> list[list[str]]:
    interval = f"95% interval {members['auc_low']:.3f} to {members['auc_high']:.3f}"
    sure = "a bound" if members.get("epsilon_lower_holds") else "an estimate"
    return [
        ["AUC", f"{members['auc']:.3f}", interval],
        *(
            [f"TPR at {text} FPR", f"{members[f'tpr_at_{rate}']:.4f}", ""]
            for rate, text in (("0.001", "0.1%"), ("0.01", "1%"))
        ),
        ["ε at least", format_bound(members["epsilon_lower"], direction="lower"), sure],
    ]


def _score_lines(found: Row) -> list[list[str]]:
    """Reconstructions beside their originals, and beside the blind guess."""
    if "mse" not in found:
        return _metric_lines(found)
    rows = [
        ["MSE, median", figure(found["mse_median"]), found["scale"]],
        ["MSE, most exposed image", figure(found["mse_worst"]), ""],
        ["PSNR, mean", f"{found['psnr_mean']:.2f} dB", ""],
        ["SSIM, mean", f"{found['ssim_mean']:.3f}", "1 is a copy"],
        ["SSIM, most exposed image", f"{found['ssim_worst']:.3f}", ""],
    ]
    for key, said in (("mse", "MSE"), ("ssim", "SSIM")) if "blind" in found else ():
        rows += _beside(found, key, said)
    if found.get("labels_right") is not None:
        rows.append(["labels found", f"{100 * found['labels_right']:.0f} %", ""])
    return rows


def _metric_lines(found: Row) -> list[list[str]]:
    """Records that are no images, by their own metrics."""
    rows = []
    for metric in found["metrics"]:
        key, label = metric["key"], metric["label"]
        rows.append([f"{label}, mean", figure(found[f"{key}_mean"]), found["scale"]])
        rows.append([f"{label}, most exposed", figure(found[f"{key}_worst"]), ""])
        if key in found.get("gain", {}):
            rows += _beside(found, key, label)
    surest = found.get("cells_right_of_surest_quarter")
    if surest is not None:
        by = "by the attacker's own estimate"
        rows.append(["cells right of the surest quarter", figure(surest), by])
    if found.get("labels_right") is not None:
        rows.append(["labels found", f"{100 * found['labels_right']:.0f} %", ""])
    return rows


def _beside(found: Row, key: str, said: str) -> list[list[str]]:
    """A metric's blind guess, and what was gained over it."""
    gain, blind = found["gain"][key], found["blind"]
    spread = "too few victims for an interval"
    if gain["low"] is not None:
        spread = f"{gain['level']:.0%} interval {gain['low']:.3f} to {gain['high']:.3f}"
    return [
        [f"{said}, blind guess", figure(blind[f"{key}_mean"]), guess_of(str(blind["guess"]), key)],
        [f"gain in {said} over it", f"{gain['value']:.3f}", spread],
    ]


def print_rows(result: Attacked, *, reveal: bool) -> None:
    """The most exposed records; nothing of them but whether it is right, unless asked."""
    if result.media == "text/plain":
        _print_texts(result, reveal=reveal)
        return
    if result.media != "application/json" or result.reconstructions is None:
        return
    assert result.originals is not None
    for number, (true, made) in enumerate(
        zip(result.originals[:_ROWS], result.reconstructions[:_ROWS], strict=True), 1
    ):
        original, rebuilt = json.loads(str(true)), json.loads(str(made))
        rows = [
            [
                column,
                cell if reveal else _HIDDEN,
                guess if reveal else _HIDDEN,
                "right" if right else "wrong",
            ]
            for column, cell, guess, right in zip(
                original["columns"], original["cells"], rebuilt["cells"], rebuilt["right"],
                strict=True,
            )
        ]  # fmt: skip
        notes = [] if reveal else ["cells are hidden: --reveal shows them"]
        title = f"Exposed row {number}"
        print_table(title, ["column", "original", "rebuilt", ""], rows, notes)


def _print_texts(result: Attacked, *, reveal: bool) -> None:
    """Originals and what was rebuilt, what is right of both between [ and ]."""
    if result.originals is None or result.reconstructions is None:
        return
    if not reveal:
        print("texts are hidden: --reveal shows them")
        return
    marks = dict(zip(map(ord, RIGHT), "[]", strict=True))
    for number, (true, made) in enumerate(
        zip(result.originals[:_TEXTS], result.reconstructions[:_TEXTS], strict=True), 1
    ):
        print(f"\nExposed text {number}; in [ ] what was rebuilt in its place")
        for what, text in (("original", true), ("rebuilt", made)):
            # What else a text has of controls would reach the terminal.
            shown = "".join(one if one.isprintable() else " " for one in str(text).translate(marks))
            print(f"  {what}: {shown}")


def _matching_lines(found: Row) -> list[list[str]]:
    """What an attacker without originals knows of a match."""
    rows = []
    for index, loss in enumerate(found["matching_loss"][:_SHOWN]):
        agreed = found["agreement"][index] if found["agreement"] else None
        note = "" if agreed is None else f"attempts agree to {agreed:.3g} a pixel"
        rows.append([f"matching loss, victim {index + 1}", f"{loss:.3e}", note])
    return rows


def _belief_lines(found: Row) -> list[list[str]]:
    """The labels behind each gradient of a file, and the error that the attacker expects."""
    how = "told" if found.get("labels_told") else "inferred"
    rows = [
        [f"label, victim {number}", ", ".join(str(label) for label in labels), how]
        for number, labels in enumerate((found.get("labels") or [])[:_SHOWN], 1)
    ]
    if found.get("expected_mse") is not None:
        rows.append(["MSE, as the attacker expects", figure(found["expected_mse"]), "an estimate"])
    return rows


def _claim_line(claim: Row) -> list[str]:
    promised = format_bound(claim["claim"], direction="upper")
    verdict = "refuted" if claim["violated"] else "not refuted"
    return [
        f"{claim['notion']}, at least",
        format_bound(claim["lower"], direction="lower"),
        f"{claim['how']}, {claim['about']}; claimed at most {promised}: {verdict}",
    ]


def print_found(name: str, model: str, record: Row, written: list[Path]) -> None:
    """A table of what was found."""
    found, members = record.get("reconstruction"), record.get("membership")
    rows: list[list[str]] = []
    if members is not None:
        rows += _membership_lines(members)
    if found is not None:
        rows += _score_lines(found) if "metrics" in found else _matching_lines(found)
        rows += _belief_lines(found)
    rows += [_game_line(game) for game in record.get("identification", ())]
    if not (found or members):  # all that it found
        rows += [_claim_line(claim) for claim in record.get("claims", ())]
    notes = list(record["notes"])
    if found is not None:
        what = "images" if "mse" in found or "metrics" not in found else found["scale"]
        if found["images"] == 1:
            what = what.removesuffix("s")
        notes.append(f"{found['images']:,} {what}, {found['iterations']:,} iterations")
    if written:
        notes.append(f"written to {' and '.join(map(str, written))}")
    label = record.get("label")
    title = f"{name} on {model}" + (f", {label}" if label else "")
    print_table(title, ["quantity", "value", ""], rows, notes, numbers=(1,))
