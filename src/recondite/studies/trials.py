"""A search among a study's settings: a secret number of runs, of which only the best is told.

The number of runs, and the setting and seed of each, are drawn and on the disk before the first
run, in a folder that its owner alone can read; a search that is stopped goes on with them and
never draws again. When all have run, the best is known, and what the others gave is deleted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from recondite._files import checked, create, sealed, write_atomically
from recondite.accounting.composition import Composition
from recondite.accounting.selection import Trial, search_epsilon, selection_epsilon
from recondite.notions import figures, json_ready
from recondite.studies.defences import mechanism, plan
from recondite.studies.facts import Facts
from recondite.studies.grid import GridCell, cells, digest
from recondite.studies.search import released
from recondite.studies.shapes import AttackConfig, Row

if TYPE_CHECKING:
    from recondite.records.base import Records
    from recondite.studies.study import Study

__all__ = ["FOLDER", "SECRET", "TRIALS", "Price", "Trials", "price_of", "priced"]

FOLDER, TRIALS = "search", "trials.jsonl"
SECRET = "secret"  # what is told of a winner's seed: whoever knows it can take the noise away
_PLAN = "plan.json"
_OF_ONE = "proven of one run, and not of the best of several"


@dataclass(frozen=True)
class Price:
    """What it costs to tell the best of a secret number of runs.

    Guarantee: ``epsilon`` bounds everything that is told of the winner together (its setting, its
    model, its accuracy on held-out records), under ``relation`` on the training records, with the
    assumptions of :mod:`recondite.accounting.selection`. It does not cover held-out records, nor
    what attacks measure.

    Attributes:
      rule: The law of their number.
      mean: How many there are on average.
      settings: How many settings each was drawn from.
      epsilon: ε of the winner; infinite where a setting promises none.
      one: ε of one run of the dearest setting.
      delta: δ.
      relation: The neighbouring relation.
    """

    rule: str
    mean: float
    settings: int
    epsilon: float
    one: float
    delta: float
    relation: str

    def success(self, prior: float) -> float:
        """Most that a reconstruction succeeds from what is told; ``prior``: of a guess unaided.

        Guarantee: (ε, δ) in both directions of ``relation`` bounds it by e^ε·r + δ, and its failure
        from below by e^-ε·(1 - r - δ).
        """
        if not math.isfinite(self.epsilon):
            return 1.0
        more = math.exp(min(self.epsilon, 700.0)) * prior + self.delta
        less = 1.0 - math.exp(-self.epsilon) * max(0.0, 1.0 - prior - self.delta)
        return min(1.0, more, less)

    def to_dict(self) -> dict[str, Any]:
        """For a row."""
        plain: dict[str, Any] = json_ready(dict(vars(self)))
        return plain


def price_of(
    study: Study, settings: Sequence[GridCell], facts: Facts, data_dir: str | None
) -> Price:
    """The price of a study's search.

    Args:
      study: The study, with ``search``.
      settings: One cell for each setting.
      facts: What its data and model are.
      data_dir: Where data sets are.

    Raises:
      ValueError: In one line, where settings are private in ways that cannot be compared.
    """
    assert study.search is not None
    from recondite.training.setup import load_records

    records: Records | None = None
    kinds: list[Composition] = []
    relations = set()
    for cell in settings:
        planned = plan(cell.common, cell.defence, cell.seed)
        records = load_records(planned, data_dir)[0] if records is None else records
        defence = cell.defence
        noise = mechanism(defence["name"], defence["value"], defence["settings"])
        made, schedule = released(planned, noise, records)
        kinds.append(schedule.composition(made))
        relations.add(schedule.neighbouring(made).value)
    delta = study.delta or 1.0 / facts.records
    bounded = all(math.isfinite(float(kind.renyi([2.0])[0])) for kind in kinds)
    if bounded and len(relations) > 1:
        raise ValueError(
            "search needs settings under one neighbouring relation, got "
            f"{' and '.join(sorted(relations))}: give all defences the same sampling"
        )
    # Most settings differ in what costs nothing, such as the learning rate.
    different = tuple(dict.fromkeys(kinds))
    one = best = math.inf
    if bounded:
        one = max(selection_epsilon(kind, delta, 1) for kind in different)
        best = search_epsilon(Trial(different), delta, study.search.law())
    rule = study.search
    return Price(rule.rule, rule.mean, len(kinds), best, one, delta, min(relations))


def priced(row: Row, price: Price) -> Row:
    """A row of the winner with bounds that hold for the best of several, not for one run alone.

    Guarantee: ``epsilon`` is the price's, and ``rero_bound`` follows from that (ε, δ) and nothing
    else. Whatever else is proven of one run (leakage in nats, one update, known participation, the
    bounds of games, floors of errors) is not defined: other runs saw the record too. ``privacy``
    stays the account of the run that won.

    Args:
      row: As for one run.
      price: Of the search.
    """
    if not row["notions"]:
        return row  # nothing was trained
    found: Row = dict(row["notions"])
    rero = None if found.get("rero_prior") is None else price.success(float(found["rero_prior"]))
    kept = {"epsilon": price.epsilon, "rero_bound": rero, "rero_prior": found.get("rero_prior")}
    gone = [key for key in figures() if key not in kept and found.get(key) is not None]
    found |= dict.fromkeys(gone) | kept | {"delta": price.delta}
    found["reasons"] = {**(found.get("reasons") or {}), **dict.fromkeys(gone, _OF_ONE)}
    nothing = {"epsilon": None, "rero": None, "releases": None, "reason": _OF_ONE}
    games = [{**game, "bound": None, "reason": _OF_ONE} for game in row.get("identification") or ()]
    own: Row = {
        "notions": found,
        "exposures": [{**one, **nothing} for one in row.get("exposures") or ()],
        "identification": games or row.get("identification"),
        "floors": [one for one in row.get("floors") or () if not one.get("proven")],
    }
    plain: Row = json_ready({**row, **own})
    return plain


class _Drawn(TypedDict):
    """What is stored: of which search, setting and seed of every run, and then of the best only."""

    of: str
    runs: list[tuple[int, int]] | None
    best: tuple[int, int] | None


class Trials:
    """The runs of a search that a folder holds: drawn once, and never again.

    Args:
      study: The study, with ``search``.
      facts: What its data and model are.
      strengths: What was found for its targets.
      run: The folder of its results.

    Raises:
      ValueError: In one line: the folder holds another search, or a target was not met.
    """

    def __init__(self, study: Study, facts: Facts, strengths: Mapping[str, Row], run: Path) -> None:
        self._study, self._facts, self._strengths = study, facts, strengths
        self.settings = self._cells(study.seeds[0])
        for cell in self.settings:
            if cell.failure is not None:
                raise ValueError(f"search cannot try {cell.defence['label']}: {cell.failure}")
        self.folder, self._run = run / FOLDER, run
        self._path = self.folder / _PLAN
        self._plan: _Drawn

    def begin(self) -> None:
        """Draws the runs and stores them; reads them where they were drawn before."""
        assert self._study.search is not None
        if not self._path.exists():
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Entropy of the operating system: neither the number nor a seed can be guessed.
            generator = np.random.default_rng()
            count = self._study.search.law().draw(generator)
            runs = [
                (int(generator.integers(len(self.settings))), int(generator.integers(2**62)))
                for _ in range(count)
            ]
            body = sealed({"of": self._digest(), "runs": runs, "best": None})
            create(self._path, json.dumps(body).encode())
        try:
            read = checked(json.loads(self._path.read_text(encoding="utf-8")))
        except ValueError as error:
            raise ValueError(f"{self._path} cannot be read: {error}") from None
        self._plan = {"of": read["of"], "runs": read["runs"], "best": read["best"]}
        if self.finished:
            self._forget()
        if self._plan["of"] != self._digest():
            raise ValueError(
                f"{self._run} holds a search among other settings, whose runs saw the records: "
                "give another --out, and know that a second search costs its own price"
            )

    @property
    def finished(self) -> bool:
        """Whether the best is known."""
        return self._plan["runs"] is None

    def cells(self) -> list[GridCell]:
        """The runs, each with its own seed and no attack."""
        found = []
        for index, seed in self._plan["runs"] or ():
            cell = self._cells(seed)[index]
            alone: dict[str, AttackConfig] = {digest([cell.key, None]): {"name": "none"}}
            found.append(GridCell(cell.key, cell.common, cell.defence, cell.seed, alone))
        return found

    def finish(self, rows: Mapping[str, Row]) -> None:
        """Keeps the best of the runs, and forgets the others.

        Ties are decided by what was drawn, which has nothing to do with the records.

        Args:
          rows: Of the runs, by their keys.

        Raises:
          ValueError: Every run failed.
        """
        drawn = self._plan["runs"] or []
        merits = []
        for (index, seed), cell in zip(drawn, self.cells(), strict=True):
            (key,) = cell.attacks
            row = rows[key]
            if row["status"] == "done":
                merits.append((row["utility"]["test_accuracy"], -index, -seed))
        if drawn and not merits:
            reason = next(iter(rows.values()))["reason"]
            raise ValueError(f"every run of the search failed, one of them because {reason}")
        best = None if not merits else (-max(merits)[1], -max(merits)[2])
        self._plan = {"of": self._plan["of"], "runs": None, "best": best}
        write_atomically(self._path, json.dumps(sealed(dict(self._plan))))
        self._forget()

    def winner(self) -> list[GridCell]:
        """The best run with the study's attacks; nothing where none was to be made."""
        if self._plan["best"] is None:
            return []
        index, seed = self._plan["best"]
        return [self._cells(seed)[index]]

    def _forget(self) -> None:
        (self.folder / TRIALS).unlink(missing_ok=True)

    def _cells(self, seed: int) -> list[GridCell]:
        study = self._study.model_copy(update={"seeds": [seed]})
        return cells(study, self._facts, self._strengths)

    def _digest(self) -> str:
        """Of everything that a run depends on but its seed."""
        assert self._study.search is not None
        return digest([self._study.search.model_dump(), [cell.key for cell in self.settings]])
