"""From rows to points: one for each defence at one strength, over its seeds and attacks."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from scipy.special import stdtrit

from recondite.defences import defences
from recondite.notions import figures
from recondite.report.quantities import defence_name, notion_axes, promises, worst
from recondite.report.rows import Row, StoredRun, number, own_metrics, section

__all__ = [
    "Estimate",
    "Point",
    "Values",
    "estimate",
    "make_points",
    "measured",
    "unweighed",
    "utilities",
]


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds with its 95% interval (Student's t), where there are several seeds.

    One seed's interval is over what was measured with it: the test records of an accuracy
    (Wilson's), the victims of a reconstruction (Student's t), the row's own of an AUC or a gain.
    """

    mean: float
    low: float | None = None
    high: float | None = None
    seeds: int = 1
    attack: str = ""
    less: bool = False  # whether less of it means that the attacker got more


Values = dict[str, Estimate]


@dataclass(frozen=True)
class Point:
    """One defence at one strength.

    Attributes:
      index: Its number in the report.
      run: The number of its run.
      defence: The kind of defence.
      label: Its name with its parameter.
      value: Its parameter, to order a curve by.
      seeds: How many seeds it was run with.
      values: Measured quantities, each by the attack and settings that were strongest in it.
      attacks: Measured quantities by attack, each at its strongest settings.
      notions: Upper bounds; None where a notion is not defined.
      reasons: Why a notion is not defined.
      delta: δ of its ε.
      subject: What the row's capacity and information are about.
      neighbouring: Which data sets ε compares.
      rero_prior: The blind guess of its ReRo bound.
      rows: The rows it was made of.
    """

    index: int
    run: int
    defence: str
    label: str
    value: float | None
    seeds: int
    values: Values
    attacks: dict[str, Values]
    notions: dict[str, float | None]
    reasons: dict[str, str]
    delta: float | None
    subject: str
    neighbouring: str
    rero_prior: float | None
    rows: tuple[Row, ...] = field(repr=False)

    def mean(self, key: str) -> float | None:
        """A notion or the mean of a measure."""
        if key in self.notions:
            return self.notions[key]
        found = self.values.get(key)
        return found.mean if found else None

    @property
    def protects(self) -> str:
        """The unit of protection of ε. Capacity may speak of a gradient; ε never does."""
        return "one record" if "gradient" in self.subject else self.subject

    @property
    def undefended(self) -> bool:
        """Whether its defence does nothing; one that is not installed here is taken to act."""
        known = defences(unproven=True).get(self.defence)
        return known is not None and not known.acts

    @property
    def open_labels(self) -> bool:
        """Whether its bounds are of features alone: whoever uses the labels may do better."""
        return "features" in self.subject

    @property
    def bounded(self) -> bool:
        """Whether any notion of the whole run bounds what leaks. Near 1, a ReRo bound does not."""
        whole = [key for key, (_, figure) in figures().items() if figure.run]
        return any(promises(key, self.notions.get(key)) for key in whole)


def make_points(runs: Sequence[StoredRun]) -> list[Point]:
    """The points of all runs, in the order in which their first rows were written."""
    points: list[Point] = []
    for run in runs:
        groups: dict[Any, list[Row]] = {}
        for row in run.done:
            groups.setdefault(_group(row), []).append(row)
        # Curves follow the parameter, whatever order the cells finished in.
        order = {
            defence: place for place, defence in enumerate(dict.fromkeys(k[0] for k in groups))
        }
        ranked = sorted(groups.items(), key=lambda item: (order[item[0][0]], _place(item[0][2])))
        points += [
            _point(len(points) + offset, run.index, rows) for offset, (_, rows) in enumerate(ranked)
        ]
    return points


# Models of amounts have R² instead of an accuracy, models of texts without a class perplexity.
_UTILITIES = {
    "accuracy": ("accuracy", "%"),
    "r2": ("R²", "1 is exact"),
    "perplexity": ("perplexity", "1 is exact"),
}


def utilities(points: Iterable[Point]) -> dict[str, tuple[str, str]]:
    """Heads and units of how well these models do, by key: accuracy, or what stands for it."""
    found = {key for point in points for key in _UTILITIES if key in point.values}
    return {key: head for key, head in _UTILITIES.items() if key in found or not found}


def unweighed(points: Iterable[Point]) -> list[str] | None:
    """What stands for accuracy where no model has one, so that none is recommended by it."""
    heads = utilities(points)
    return None if "accuracy" in heads else [head for head, _ in heads.values()]


def measured(rows: Iterable[Row]) -> Values:
    """What the attacks of these rows got, each quantity by whoever got furthest in it."""
    return _strongest(_by_attack(list(rows)).values())


def estimate(values: Sequence[float], attack: str = "") -> Estimate | None:
    """Mean and 95% interval of the mean; None without values."""
    count = len(values)
    if not count:
        return None
    mean = math.fsum(values) / count
    if count == 1 or not math.isfinite(mean):
        return Estimate(mean, seeds=count, attack=attack)
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    half = float(stdtrit(count - 1, 0.975)) * math.sqrt(variance / count)
    return Estimate(mean, mean - half, mean + half, count, attack)


def _group(row: Row) -> tuple[str, str, float | None]:
    defence = str(row.get("defence") or "none")
    label = str(row.get("label") or defence_name(defence))
    return defence, label[:1].upper() + label[1:], number(row.get("value"))


def _place(value: float | None) -> float:
    return -math.inf if value is None else value


def _point(index: int, run: int, rows: list[Row]) -> Point:
    defence, label, value = _group(rows[0])
    attacks = _by_attack(rows)
    values = _strongest(attacks.values())
    latest = _latest(rows)
    accuracy = estimate(_by_seed(latest, partial(_held_out, key="accuracy")))
    if accuracy:
        values["accuracy"] = accuracy if accuracy.seeds > 1 else _wilson(accuracy, latest[0])
    for key in ("r2", "perplexity"):
        seeds = _by_seed(latest, partial(_held_out, key=key))
        if (found := estimate(seeds)) is not None:
            values[key] = found
    notions = {quantity.key: _bound(latest, quantity.key) for quantity in notion_axes()}
    first = section(latest[0], "notions")
    return Point(
        index=index,
        run=run,
        defence=defence,
        label=label,
        value=value,
        seeds=len({row.get("seed") for row in rows}),
        values=values,
        attacks=attacks,
        notions=notions,
        reasons={str(k): str(v) for k, v in (first.get("reasons") or {}).items()},
        delta=number(first.get("delta")),
        subject=str(first.get("subject") or "a record"),
        neighbouring=str(section(latest[0], "privacy").get("neighbouring") or ""),
        rero_prior=number(first.get("rero_prior")),
        rows=tuple(rows),
    )  # fmt: skip


def _latest(rows: list[Row]) -> list[Row]:
    """In a federation, the rows of the last round: its model, and a ledger that only grows."""
    last = max((row["round"] for row in rows if isinstance(row.get("round"), int)), default=None)
    return rows if last is None else [row for row in rows if row.get("round") == last]


def _bound(rows: list[Row], key: str) -> float | None:
    """The bound of the seed that promises least; not defined where one of them is not."""
    found = [number(section(row, "notions").get(key)) for row in rows]
    return None if None in found or not found else worst(key, [v for v in found if v is not None])


def _by_seed(rows: list[Row], get: Any) -> list[float]:
    """One number a seed: rows of one seed share a model, so they are no independent evidence."""
    seeds: dict[Any, list[float]] = {}
    for row in rows:
        value = get(row)
        if value is not None:
            seeds.setdefault(row.get("seed"), []).append(value)
    return [math.fsum(values) / len(values) for values in seeds.values()]


def _by_attack(rows: list[Row]) -> dict[str, Values]:
    """What each attack got at its strongest settings; only seeds of one setting are averaged."""
    attacks: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        if row.get("reconstruction") or row.get("membership") or row.get("identification"):
            settings = json.dumps(row.get("attack_options"), sort_keys=True)
            same = attacks.setdefault(str(row.get("attack") or "attack"), {})
            same.setdefault(settings, []).append(row)
    return {
        name: _strongest(_measures(name, of_setting) for of_setting in settings.values())
        for name, settings in attacks.items()
    }


def _measures(attack: str, rows: list[Row]) -> Values:
    # Model inversion is scored by the median over classes (Tan et al. 2024), others by the mean.
    mse_key = "mse_median" if attack == "model-inversion" else "mse_mean"

    def part(name: str, *keys: str) -> list[float]:
        def get(row: Row) -> float | None:
            found = section(row, name)
            return next((v for key in keys if (v := number(found.get(key))) is not None), None)

        return _by_seed(rows, get)

    worst = [
        value
        for row in rows
        if (value := number(section(row, "reconstruction").get("ssim_worst"))) is not None
    ]
    out = {
        "mse": estimate(part("reconstruction", mse_key, "mse_mean", "mse_median"), attack),
        "ssim": estimate(part("reconstruction", "ssim_mean"), attack),
        "psnr": estimate(part("reconstruction", "psnr_mean"), attack),
        "ssim_worst": Estimate(max(worst), seeds=len(worst), attack=attack) if worst else None,
        "auc": estimate(part("membership", "auc"), attack),
        "identification": _picked(rows, attack),
        "gain": estimate(_by_seed(rows, partial(_gained, end="value")), attack),
    }
    own = own_metrics(rows)
    for metric in own:
        made = estimate(part("reconstruction", f"{metric.key}_mean"), attack)
        out[metric.key] = None if made is None else replace(made, less=metric.less)
    ends = {
        "auc": (part("membership", "auc_low"), part("membership", "auc_high")),
        "gain": tuple(_by_seed(rows, partial(_gained, end=end)) for end in ("low", "high")),
    }
    for key, (low, high) in ends.items():
        found = out[key]
        if found and found.seeds == 1 and low and high:
            out[key] = Estimate(found.mean, low[0], high[0], 1, attack)
    for key in ("mse", "ssim", "psnr", *(metric.key for metric in own)):
        found = out[key]
        # The mean alone has this interval, and only where each victim has its own release.
        of = section(rows[0], "reconstruction")
        listed = of.get(key)
        if found and found.seeds == 1 and isinstance(listed, list) and of.get("batch_size") == 1:
            among = estimate([v for v in map(number, listed) if v is not None], attack)
            if among and math.isclose(among.mean, found.mean, rel_tol=1e-3, abs_tol=1e-6):
                out[key] = replace(found, low=among.low, high=among.high)
    return {key: value for key, value in out.items() if value is not None}


def _gained(row: Row, end: str) -> float | None:
    """Of the blind guess's error: by MSE, or by the metric that ranks records of another kind."""
    found = section(row, "reconstruction")
    key = "mse" if "mse" in found else str(found.get("exposure"))
    gain = number(section(section(found, "gain"), key).get(end))
    blind = number(section(found, "blind").get(f"{key}_mean"))
    if key == "mse" or gain is None or blind is None or blind >= 1:
        return gain
    return gain / (1.0 - blind)  # a share right: what was wrong of the guess and is right now


def _held_out(row: Row, key: str) -> float | None:
    return number(section(row, "utility").get(f"test_{key}"))


def _wilson(found: Estimate, row: Row) -> Estimate:
    """The interval of one model's accuracy over its test records; none where they are unknown."""
    count = number(section(row, "data").get("test_records"))
    if not count:
        return found
    z = 1.959964
    centre = (found.mean + z * z / (2 * count)) / (1 + z * z / count)
    half = (
        z
        / (1 + z * z / count)
        * math.sqrt(found.mean * (1 - found.mean) / count + z * z / (4 * count * count))
    )
    return Estimate(found.mean, centre - half, centre + half, 1, found.attack)


def _picked(rows: list[Row], attack: str) -> Estimate | None:
    """How often the record was picked out of ten by whoever saw the whole training.

    Games differ in how their candidates were drawn: each kind is averaged on its own, and the
    strongest speaks, as on the ladder.
    """
    kinds: dict[str, list[Row]] = {}
    for row in rows:
        for game in row.get("identification") or []:
            asked = (row.get("threat"), game.get("candidates"), game.get("participation"))
            # As older rows have it: whoever knows others' batches of one size knows this record's.
            sampling = section(section(row, "privacy"), "schedule").get("sampling")
            if asked == ("training", 10, "secret") and sampling != "fixed-size":
                kind = str(game.get("among") or "alike")
                kinds.setdefault(kind, []).append({**game, "seed": row.get("seed")})
    found = [one for games in kinds.values() if (one := _won(games, attack)) is not None]
    return max(found, key=lambda one: one.mean, default=None)


def _won(games: list[Row], attack: str) -> Estimate | None:
    """The share of games of one kind that were won."""
    rate, low, high = (
        _by_seed(games, lambda game, end=end: number(game.get(end)))
        for end in ("rate", "low", "high")
    )
    found = estimate(rate, attack)
    if found is None or found.seeds > 1 or not low or not high:
        return found
    return Estimate(found.mean, low[0], high[0], 1, attack)


def _strongest(found: Iterable[Values]) -> Values:
    """Each quantity by whoever got furthest in it: the reader fears the best of them."""
    measured, out = list(found), Values()
    known = ("mse", "psnr", "ssim", "ssim_worst", "auc", "identification", "gain")
    for key in dict.fromkeys((*known, *(key for values in measured for key in values))):
        each = [values[key] for values in measured if key in values]
        if each:
            # Every other measure grows with what the attacker got.
            sign = -1 if key == "mse" or each[0].less else 1
            out[key] = max(each, key=lambda item: sign * item.mean)
    return out
