"""What attacks showed of one defence, each beside what a guess without any release has.

Every finding belongs to a threat (what was released) and a participation (whether the intruder is
told in which steps the record took part). Seeds of one attack's setting are averaged; attacks and
settings are never averaged, only compared.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from recondite.records.display import guess_of
from recondite.report.members import told_apart
from recondite.report.points import Point
from recondite.report.quantities import attack_name
from recondite.report.released import participation_of, pooled, tells, threat_of
from recondite.report.rows import Row, number, section
from recondite.report.words import chance, chance_ends, score, whole

__all__ = [
    "AttackFinding",
    "Chance",
    "FloorSeen",
    "ReconstructionGain",
    "evidence",
]

# A copy of one victim that anybody recognises, and that no guess explains.
LEGIBLE_SSIM, LEGIBLE_GAIN = 0.5, 0.2


@dataclass(frozen=True)
class AttackFinding:
    """What one attack's setting showed against one defence.

    Attributes:
      attack: Its name in words.
      threat: What was released to it.
      participation: Whether it was told in which steps the record took part.
      beats: Whether the interval excludes the blind guess; None where that was not measured, or by
        so few tries that no result could have excluded it.
      advantage: How far it came from the blind guess (0) to certainty (1).
      sentence: What it got, in a few words.
      legible: Whether it rebuilt a copy of some victim that anybody recognises.
    """

    attack: str
    threat: str
    participation: str
    beats: bool | None
    advantage: float
    sentence: str
    legible: bool = False


@dataclass(frozen=True)
class Chance:
    """How often a record was picked out of n candidates, and what nobody can exceed.

    Over several seeds the ends are the means of the seeds' own ends, which is no narrower than
    the interval of the mean; the bound is the largest of theirs, and none where one has none.
    """

    attack: str
    threat: str
    participation: str
    candidates: int
    rate: float
    low: float
    high: float
    confidence: float
    games: int
    runs: int
    bound: float | None
    relation: str
    reason: str
    among: str = "alike"

    @property
    def blind(self) -> float:
        """What a guess has."""
        return 1.0 / self.candidates


@dataclass(frozen=True)
class ReconstructionGain:
    """The error of what an attack rebuilt, beside that of the best blind guess."""

    attack: str
    threat: str
    participation: str
    mse: float
    blind: float | None
    guess: str
    gain: tuple[float, float, float] | None
    victims: str


@dataclass(frozen=True)
class FloorSeen:
    """An error that nobody goes below, under the conditions it states.

    It says nothing of an intruder who sees more: ``participation`` is known where it holds for
    somebody who is told in which steps a record took part.
    """

    threat: str
    mse: float
    proven: bool
    worst_case: bool
    prior: str
    sentence: str
    participation: str = "secret"


@dataclass(frozen=True)
class Evidence:
    """Everything that was shown of one point."""

    findings: tuple[AttackFinding, ...]
    chances: tuple[Chance, ...]
    rebuilt: tuple[ReconstructionGain, ...]
    floors: tuple[FloorSeen, ...]


def evidence(point: Point) -> Evidence:
    """What the rows of a point show."""
    settings: dict[tuple[str, str], list[Row]] = {}
    for row in point.rows:
        options = json.dumps(row.get("attack_options"), sort_keys=True, default=str)
        settings.setdefault((str(row.get("attack") or "none"), options), []).append(row)
    findings: list[AttackFinding] = []
    chances: list[Chance] = []
    rebuilt: list[ReconstructionGain] = []
    for rows in settings.values():
        picked = _chances(rows)
        chances += picked
        findings += [_identified(one) for one in picked]
        if any(section(row, "reconstruction") for row in rows):
            made, found = _reconstruction(rows)
            findings.append(found)
            rebuilt += [] if made is None else [made]
        if any(section(row, "membership") for row in rows):
            findings.append(_membership(rows))
    return Evidence(tuple(findings), tuple(chances), tuple(rebuilt), tuple(_floors(point.rows)))


def _chances(rows: Sequence[Row]) -> list[Chance]:
    groups: dict[tuple[str, int, str], list[tuple[Row, Row]]] = {}
    for row in rows:
        for item in row.get("identification") or []:
            count = number(item.get("candidates"))
            if count and count >= 2 and number(item.get("rate")) is not None:
                side = str(item.get("participation") or participation_of(row))
                if side == "secret" and tells(row):
                    continue  # as older rows have it: the same game as the one that is told
                among = str(item.get("among") or "alike")
                groups.setdefault((side, int(count), among), []).append((row, item))
    out = []
    for (side, count, among), found in groups.items():
        items = [item for _, item in found]
        bounds = [number(item.get("bound")) for item in items]
        known = [bound for bound in bounds if bound is not None]
        out.append(
            Chance(
                attack_name(str(found[0][0].get("attack"))),
                threat_of(found[0][0]),
                side,
                count,
                _mean(items, "rate"),
                _mean(items, "low", 0.0),
                _mean(items, "high", 1.0),
                number(items[0].get("confidence")) or 0.95,
                sum(int(number(item.get("games")) or 0) for item in items),
                sum(int(number(item.get("runs")) or 1) for item in items),
                max(known) if len(known) == len(bounds) else None,
                str(items[0].get("relation") or ""),
                next((str(item["reason"]) for item in items if item.get("reason")), ""),
                among,
            )
        )
    return out


def _drawn(among: str) -> str:
    return "" if among == "alike" else f" ({among})"


def _identified(one: Chance) -> AttackFinding:
    return AttackFinding(
        one.attack,
        one.threat,
        one.participation,
        one.low > one.blind or (None if _too_few_games(one) else False),
        (one.rate - one.blind) / (1.0 - one.blind),
        f"picked the record out of {one.candidates:,}{_drawn(one.among)} in {chance(one.rate)} of "
        f"cases ({100 * one.confidence:g}%: {'–'.join(chance_ends(one.low, one.high))}; "
        f"blind {chance(one.blind)})",
    )


def _too_few_games(one: Chance) -> bool:
    """Whether even games that are all won would not exclude a guess: they show nothing."""
    tail = 0.5 * (1.0 - one.confidence)
    return one.games > 0 and tail ** (1.0 / one.games) <= one.blind


def _reconstruction(rows: Sequence[Row]) -> tuple[ReconstructionGain | None, AttackFinding]:
    """Gains over the blind guess; without one, a lower bound on what the release told of it."""
    row, found = rows[0], [section(row, "reconstruction") for row in rows]
    name, threat, side = _named(row), threat_of(row), participation_of(row)
    legible = any(_legible(part) for part in found)
    labels = _measured(found[0])
    gains = {key: gain for key in labels if (gain := _gain(found, key))}
    blinds = [blind for part in found if (blind := section(part, "blind"))]
    mse = _known(number(part.get("mse_mean")) for part in found)
    blind_mse = _known(number(part.get("mse_mean")) for part in blinds)
    guess = guess_of(str(blinds[0].get("guess") or ""), "mse") if blinds else ""
    made = None
    if mse is not None:
        made = ReconstructionGain(
            name, threat, side, mse, blind_mse, guess, gains.get("mse"), _victims(row)
        )
    ssim = score(_known(number(part.get("ssim_mean")) for part in found))
    if gains:
        key, (value, low, high) = max(gains.items(), key=lambda item: item[1][1])
        what = (
            f"removed {chance(value)} of the blind guess’s error"
            if key == "mse"
            else f"gained {score(value)} of {labels[key]} over the blind guess"
        )
        beats = low > 0 or legible
        text = f"{what} (95%: {_end(key, low)} to {_end(key, high)})" if beats else (
            f"rebuilt {_kind(found[0])} no better than guessing (gain {_end(key, value)}, 95%: "
            f"{_end(key, low)} to {_end(key, high)})"
        )  # fmt: skip
        return made, AttackFinding(name, threat, side, beats, max(0.0, value), text, legible)
    shown = _told(rows)
    if shown or legible:
        text = f"rebuilt images (SSIM {ssim}){f'; {shown}' if shown else ''}"
        return made, AttackFinding(name, threat, side, True, 1.0 if legible else 0.5, text, legible)
    text = f"rebuilt images of SSIM {ssim}; a blind guess was not measured"
    return made, AttackFinding(name, threat, side, None, 0.0, text)


def _measured(part: Row) -> dict[str, str]:
    """Metrics that have a gain, by their keys, with what they are called."""
    listed = part.get("metrics")
    if "mse" in part or not isinstance(listed, list):
        return {"mse": "MSE", "ssim": "SSIM"}
    return {str(one.get("key")): str(one.get("label")) for one in listed if isinstance(one, dict)}


def _kind(part: Row) -> str:
    """What was rebuilt, in the plural."""
    return "images" if "mse" in part or "metrics" not in part else str(part.get("scale"))


def _named(row: Row) -> str:
    """The attack; of one that tried several (``gain_NAME`` of each), with the one that won."""
    name, part = attack_name(str(row.get("attack"))), section(row, "reconstruction")
    tried = {
        key.removeprefix("gain_"): value
        for key, item in part.items()
        if key.startswith("gain_") and (value := number(item)) is not None
    }
    if not tried:
        return name
    return f"{name} ({attack_name(max(tried, key=lambda key: tried[key]))})"


def _end(key: str, value: float) -> str:
    """Of an error that was removed, never more than all of it: Student's t may say so."""
    return whole(min(1.0, value)) if key == "mse" else score(value)


def _gain(found: Sequence[Row], key: str) -> tuple[float, float, float] | None:
    """Mean over seeds, of the value and of both ends; None where one seed has no interval."""
    parts = [section(section(part, "gain"), key) for part in found]
    values = [[number(part.get(name)) for name in ("value", "low", "high")] for part in parts]
    if not values or any(value is None for each in values for value in each):
        return None
    value, low, high = (math.fsum(each) / len(values) for each in zip(*values, strict=True))
    return value, low, high


def _legible(part: Row) -> bool:
    """Whether one victim was rebuilt so that anybody recognises it and no guess explains it."""
    key = "ssim" if "ssim" in part else str(part.get("exposure"))
    mine, blind = part.get(key), section(part, "blind").get(key)
    if not isinstance(mine, list):
        return False
    if not isinstance(blind, list) or len(blind) != len(mine):
        worst = number(part.get("ssim_worst"))
        return not blind and worst is not None and worst >= LEGIBLE_SSIM + LEGIBLE_GAIN
    pairs = ((number(a), number(b)) for a, b in zip(mine, blind, strict=True))
    return any(
        a is not None and b is not None and a >= LEGIBLE_SSIM and a - b >= LEGIBLE_GAIN
        for a, b in pairs
    )


def _told(rows: Sequence[Row]) -> str:
    """Rows of 0.1 know no blind guess, but they say whom the reconstruction was taken for."""
    for row in rows:
        for claim in row.get("claims") or []:
            lower = number(claim.get("lower"))
            if lower is not None and lower > 0:
                return str(claim.get("about") or "more than nothing was shown to leak")
    return ""


def _membership(rows: Sequence[Row]) -> AttackFinding:
    row, (beats, reach, text) = rows[0], told_apart(rows)
    name = attack_name(str(row.get("attack")))
    return AttackFinding(name, threat_of(row), participation_of(row), beats, reach, text)


def _floors(rows: Iterable[Row]) -> list[FloorSeen]:
    out: dict[FloorSeen, None] = {}
    for row in rows:
        if pooled(row):
            continue  # of so many releases: of one update too low, of a whole training too high
        schedule = section(section(row, "privacy"), "schedule")
        open_to_all = schedule.get("sampling") == "shuffled"  # nothing is sampled: no secret
        side = "known" if open_to_all else participation_of(row)
        for item in row.get("floors") or []:
            mse = number(item.get("mse"))
            if mse is not None:
                seen = FloorSeen(
                    threat_of(row),
                    mse,
                    bool(item.get("proven")),
                    bool(item.get("worst_case")),
                    str(item.get("prior") or ""),
                    str(item.get("sentence") or ""),
                    side,
                )
                out[seen] = None
    return list(out)


def _victims(row: Row) -> str:
    """Whose images were attacked, on which model, and whether the labels were told."""
    part = section(row, "reconstruction")
    count, source = number(part.get("images")), str(part.get("images_from") or "images")
    text = f"{int(count)} {source}" if count else source
    if part.get("victim"):
        text += f" on the {part['victim']} model"
    size = number(part.get("batch_size"))
    if size:
        text += f", {int(size)} in an update"
    labels = section(row, "attack_options").get("labels")
    if labels is not None:
        text += ", labels told" if labels else ", labels not told"
    return text


def _known(values: Iterable[float | None]) -> float | None:
    """The mean over seeds; None where one has no number."""
    listed = list(values)
    known = [value for value in listed if value is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(listed) else None


def _mean(items: Sequence[Row], key: str, default: float = 0.0) -> float:
    get: Callable[[Any], float | None] = number
    values = [value if (value := get(item.get(key))) is not None else default for item in items]
    return math.fsum(values) / len(values)
