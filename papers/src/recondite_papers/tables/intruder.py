"""The intruder's attackers beside the papers' own: a column, a table, and one sentence a paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recondite_papers.tables.cells import Cell, Row, Verdict, having

__all__ = [
    "SAFE", "SURE", "beaten", "beside", "exposed", "finding", "holds", "marked", "naive", "noun",
    "open_settings", "sentence", "settings", "table", "verdict",
]  # fmt: skip

Rows = Sequence[Row]
SAFE = 0.05  # SSIM of the paper's own attack: up to it a figure shows nothing of the image
_LEAST = 0.05  # share of the way from the blind guess to a copy
SURE = 0.5  # share of games won out of the larger number of candidates: the record is exposed


def beaten(row: Row) -> bool:
    """Whether the attack did better than the blind guess: an interval's lower end is above 0.

    And it came a twentieth of the way to a copy: of a hundred settings some intervals lie above 0
    by chance, and where a class has few public records a prior alone beats their mean by a little.
    """
    ends = [row["gain_interval"], row["gain_ssim_interval"]]
    return row["share"] >= _LEAST and any(pair is not None and pair[0] > 0 for pair in ends)


def _game(row: Row) -> tuple[str, Row] | None:
    """The game with most candidates."""
    games = row["picked"]
    return None if not games else max(games.items(), key=lambda pair: int(pair[0]))


def holds(row: Row) -> bool:
    """Neither images better than a blind guess nor a record picked more often than by chance.

    Within chance: no more right picks than two standard deviations above 1/n of the games. Where no
    game was played, as with too few public records of a class, nothing is claimed.
    """
    if beaten(row) or not row["picked"]:
        return False
    for candidates, game in row["picked"].items():
        rate, games = 1.0 / int(candidates), game["games"]
        if game["right"] > games * rate + 2.0 * (games * rate * (1.0 - rate)) ** 0.5:
            return False
    return True


def _said(row: Row) -> str:
    low, high = row["gain_interval"] or (float("nan"),) * 2
    text = f"{100 * row['gain']:+.0f}% [{100 * low:.0f}, {100 * high:.0f}]"
    found = _game(row)
    if found is not None:
        candidates, game = found
        text += f"; 1 of {candidates}: {game['right']}/{game['games']}"
        limit = game["bound"]
        text += ", no bound" if limit is None else f", at most {_up(limit)}"
    return text


def _up(limit: float) -> str:
    """A bound in per cent, rounded up."""
    return f"{min(100.0, -(-1000.0 * limit // 1) / 10.0):.1f}%"


def beside(rows: Rows, **wanted: Any) -> str:
    """What stands in a table's column of the strongest attack known, for one of its settings.

    The gain is the share of the blind guess's squared error that the strongest attack saves, with
    its interval over victims; then the games. Of one release, and of several pooled.
    """
    found = sorted(having(rows, **wanted), key=lambda row: int(row["releases"]))
    parts = []
    for row in found:
        pooled = f"{row['releases']} pooled: " if row["releases"] > 1 else ""
        parts.append(f"{pooled}{_said(row)} ({_SHORT[row['attack']]})")
    return "; ".join(parts)


_SHORT = {
    "importance-weights": "weights",
    "gauss-newton": "Gauss-Newton",
    "channel-posterior": "posterior",
}


def noun(row: Row) -> str:
    """A setting in words."""
    symbol = {"vmf": "κ", "gaussian": "σ"}.get(row["defence"], "κ")
    value = f"{row['value']:,.0f}" if row["value"] >= 1000 else f"{row['value']:g}"
    if "sigma" in row:
        symbol = "ε"
    kind = {"vmf": "VMF", "gaussian": "Gaussian"}.get(row["defence"], row["defence"])
    blocks = f" by {row['blocks']}" if row.get("blocks") not in (None, "", "flat") else ""
    where = f", batch {row['batch']}" if row["batch"] > 1 else ""
    return f"{kind}{blocks} {symbol} = {value}{where}"


def settings(rows: Rows, study: str) -> list[tuple[Row, Row | None]]:
    """Each setting's row of one release, with the pooled one where there is one."""
    mine = having(rows, study=study)
    keys = ("data", "model", "defence", "value", "batch", "blocks", "sigma")
    pooled = {tuple(r.get(k) for k in keys): r for r in mine if r["releases"] > 1}
    return [(r, pooled.get(tuple(r.get(k) for k in keys))) for r in mine if r["releases"] == 1]


def naive(row: Row, attacks: Rows) -> Row | None:
    """The paper's own attack on the same setting, from our rows; its strongest where several.

    Args:
      row: Of the intruder.
      attacks: Of that paper's attack, as the job of its table stores them.
    """
    sized = row["study"] == "compare"
    batch = row["batch"] if row["defence"] == "vmf" else 128
    found = []
    for other in attacks:
        if (other["data"], other["defence"], other["value"]) != (
            row["data"], row["defence"], row["value"],
        ):  # fmt: skip
            continue
        if sized and other["batch"] != batch:
            continue
        if not sized and row["model"] != "copy" and other.get("model") != row["model"]:
            continue
        if row.get("blocks") and other.get("blocks") != row["blocks"]:
            continue
        if other.get("victim", "untrained") != "untrained":
            continue
        found.append(other)
    return max(found, key=_likeness, default=None)


def _gains(known: Row, row: Row) -> bool:
    """Whether the paper's own attack does better than the intruder's blind guess, by a measure."""
    return bool(_likeness(known) > row["blind_ssim"] or known["mse"] < row["blind_mse"])


def _likeness(row: Row) -> float:
    return float(row["ssim_placed"] if "ssim_placed" in row else row["ssim"])


def open_settings(rows: Rows, attacks: Rows, study: str) -> dict[str, list[Row]]:
    """Settings by what the paper's own attack shows and what the intruder's does.

    Returns:
      "broken": the paper's attack shows nothing, and the intruder beats the blind guess or picks
      the record out of the larger number of candidates in half of the games, from the releases that
      were pooled where there are some; "safe": it does not either; "seen": the paper's attack shows
      a likeness, and one of the two beats the blind guess; "alarm": a likeness that is no better
      than a blind guess, and nothing more to the intruder.
    """
    out: dict[str, list[Row]] = {"broken": [], "safe": [], "seen": [], "alarm": []}
    for one, pooled in settings(rows, study):
        known = naive(one, attacks)
        if known is None:
            continue
        strongest = pooled or one
        fallen = beaten(one) or beaten(strongest) or exposed(strongest)
        looks = _likeness(known) > SAFE
        # The paper's own attack may be the stronger one.
        fallen = fallen or _gains(known, strongest)
        kind = ("seen" if looks else "broken") if fallen else ("alarm" if looks else "safe")
        out[kind].append(strongest)
    return out


def exposed(row: Row) -> bool:
    """Whether the record is picked out of most candidates in half of the games or more."""
    found = _game(row)
    return found is not None and found[1]["right"] >= SURE * found[1]["games"]


def _span(found: list[Row]) -> str:
    """Settings by defence, data set and network, with the values of their parameter."""
    groups: dict[tuple[str, str], list[float]] = {}
    for row in found:
        symbol = "ε" if "sigma" in row else {"gaussian": "σ"}.get(row["defence"], "κ")
        kind = {"vmf": "VMF", "gaussian": "Gaussian"}.get(row["defence"], row["defence"])
        blocks = f" by {row['blocks']}" if row.get("blocks") not in (None, "", "flat") else ""
        batch = f", batch {row['batch']}" if row["batch"] > 1 else ""
        where = row["data"] if row["model"] in ("mlp", "copy") else f"{row['model']}, {row['data']}"
        key = f"{kind} noise{blocks}{batch}, {symbol}", where
        groups.setdefault(key, []).append(row["value"])
    return "; ".join(
        f"{name} = {_values(values)} ({where})" for (name, where), values in groups.items()
    )


def _values(values: list[float]) -> str:
    ordered = [f"{value:,g}" for value in sorted(set(values))]
    return " and ".join(ordered) if len(ordered) < 3 else f"{ordered[0]} to {ordered[-1]}"


def sentence(rows: Rows, attacks: Rows, study: str) -> str:
    """Which settings that look safe are broken, and which that look unsafe hold."""
    found = open_settings(rows, attacks, study)
    total = sum(map(len, found.values()))
    if not total:
        return ""
    looked = len(found["broken"]) + len(found["safe"])
    text = (
        f"of {total} attacked settings {looked} look safe to the paper's own attack (SSIM up to "
        f"{SAFE}); of these {len(found['broken'])} are broken by the intruder"
    )
    if found["broken"]:
        text += f" ({_span(found['broken'])})"
    text += f", and {len(found['safe'])} show it nothing either"
    if found["safe"]:
        text += f" ({_span(found['safe'])})"
    unsafe = [row for row in found["alarm"] if holds(row)]
    text += f". Of the {total - looked} that look unsafe {len(unsafe)} hold against both"
    if unsafe:
        text += f" ({_span(unsafe)})"
    sizes = sorted({row["victims"] for part in found.values() for row in part})
    text += f"; {sizes[0]}{f' to {sizes[-1]}' if len(sizes) > 1 else ''} victims a setting"
    marks = {str(row["run"]) for part in found.values() for row in part if row.get("run")}
    return text + "".join(f", {mark}" for mark in sorted(marks))


def finding(rows: Rows, attacks: Rows, study: str) -> str:
    """One sentence for the top of a page: which look safe and fall, which look unsafe and hold."""
    found = open_settings(rows, attacks, study)
    looked = len(found["broken"]) + len(found["safe"])
    if not looked:
        return ""
    unsafe = found["seen"] + found["alarm"]
    kept = sum(holds(row) for row in found["alarm"])
    text = (
        f"Against attackers who know the defence {len(found['broken'])} of the {looked} settings "
        "that look safe fall"
    )
    if unsafe:
        verb = "hold" if kept > 1 else "holds"
        text += f", and {kept or 'none'} of the {len(unsafe)} that look unsafe {verb}"
    small = any(row.get("run") for part in found.values() for row in part)
    return f"{text}{' (small run)' if small else ''}."


def marked(rows: Rows) -> str:
    """Which data sets the rows are of, and how small the run was: for the end of a sentence."""
    found = having(rows, study="compare")
    names = ", ".join(dict.fromkeys(str(row["data"]) for row in found))
    marks = sorted({str(row["run"]) for row in found if row.get("run")})
    return f" (intruder: {'; '.join([names, *marks])})" if found else ""


CLAIM = "What the paper's attacks leave safe is safe (our question, not the paper's)."


def verdict(rows: Rows, attacks: Rows, study: str) -> list[Verdict]:
    """Whether settings that look safe stay so under the strongest attack known; [] without rows."""
    said = sentence(rows, attacks, study)
    if not said:
        return []
    found = open_settings(rows, attacks, study)
    broken, safe = len(found["broken"]), len(found["safe"])
    stands = "not run"
    believe = ""
    if broken or safe:
        stands = "stands" if not broken else "falls" if broken >= safe else "in part"
        believe = (
            "The safe-looking settings held against every attack we have."
            if not broken
            else f"{broken} of {broken + safe} safe-looking settings fall to attackers who know "
            "the defence."
        )
    return [Verdict(CLAIM, stands, said, believe)]


def table(rows: Rows, study: str) -> list[Cell]:
    """All settings of a paper: the gain of the strongest attack, and the games."""
    cells = []
    for row in having(rows, study=study):
        name = f"{row['model']}, {row['data']}, {noun(row)}"
        if row["releases"] > 1:
            name += f", {row['releases']} pooled"
        shares = ", ".join(f"{_SHORT[key]} {value:+.2f}" for key, value in row["shares"].items())
        why = (
            f"{_said(row)}; SSIM {row['ssim']:.2f}, blind {row['blind_ssim']:.2f}; share of the "
            f"way to a copy: {shares}"
        )
        cells.append(Cell(name, None, 100 * row["gain"], unit="gain, %", why=why))
    return cells
