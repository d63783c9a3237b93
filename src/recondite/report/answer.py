"""The answer: one recommendation for an intruder and budgets, computed once, for every reader.

The terminal, the gate of ``--require`` and the page read the same :class:`Answers`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from recondite.notions.bounds import round_bound
from recondite.report.claims import claims
from recondite.report.evidence import Chance
from recondite.report.improvement import with_improvements
from recondite.report.ladder import VIEWS, Standing, View, standings
from recondite.report.plain import plain_label, plain_of
from recondite.report.points import Point, make_points, unweighed
from recondite.report.price import price
from recondite.report.recommend import (
    Candidate,
    Requirements,
    candidates,
    choose,
    eligible,
    nearest,
    without_accuracy,
)
from recondite.report.rows import StoredRun, section
from recondite.report.sentences import cost, nothing, proof, risk, seen
from recondite.report.words import (
    at_most,
    chance,
    chance_at_most,
    chance_ends,
    figure,
    percent,
    span,
)

__all__ = ["SLACK", "Answers", "setting"]

SLACK = 0.05  # accuracy a reader is assumed to give up until they say otherwise
COUNTS = (10, 100, 1000)  # candidates that a record is picked out of


@dataclass(frozen=True)
class Answers:
    """Everything that can be answered about some runs."""

    runs: tuple[StoredRun, ...]
    points: tuple[Point, ...]
    contradicted: frozenset[int]

    @classmethod
    def of(cls, runs: Sequence[StoredRun]) -> Answers:
        """From the rows of runs."""
        points = with_improvements(make_points(runs))
        broken = frozenset(claim.point for claim in claims(points) if claim.violated)
        return cls(tuple(runs), tuple(points), broken)

    @cached_property
    def standings(self) -> dict[View, list[Standing]]:
        """Every point against every intruder, the curious server first."""
        return standings(self.points, self.contradicted)

    @cached_property
    def ranked(self) -> dict[View, list[Candidate]]:
        """What may be recommended, by intruder."""
        return {view: candidates(self.points, each) for view, each in self.standings.items()}

    def view(self, threat: str | None = None, participation: str | None = None) -> View:
        """The intruder that is asked for: else the study's own, else the curious server."""
        study = section(self.runs[0].study, "study") if self.runs else {}
        threat = threat or str(study.get("threat") or VIEWS[0][0])
        view = threat, participation or str(study.get("participation") or VIEWS[0][1])
        return view if view in VIEWS else VIEWS[0]

    def undefended(self, run: int) -> Point | None:
        """The undefended point of a run."""
        mine = (point for point in self.points if point.run == run)
        return next((point for point in mine if point.undefended), None)

    @cached_property
    def scopes(self) -> list[int | None]:
        """Runs to choose from; all together (None) only where accuracies compare."""
        same = len({setting(run) for run in self.runs}) == 1
        each: list[int | None] = [run.index for run in self.runs]
        if len(each) == 1:
            return [None]
        return [None, *each] if same else each

    @cached_property
    def default_accuracy(self) -> float:
        """Within five points of the undefended model; 0 where there is none to compare with."""
        scope = self.scopes[0]
        plain = [
            value
            for run in self.runs
            if scope in (None, run.index)
            and (point := self.undefended(run.index)) is not None
            and (value := point.mean("accuracy")) is not None
        ]
        return max(0.0, math.floor(200 * (max(plain) - SLACK)) / 200) if plain else 0.0

    def lines(self, view: View) -> list[str]:
        """The answer in a few short lines, for the budgets that nobody named.

        What holds only against somebody who is not told who took part when says so in its own
        line: lines are quoted alone.
        """
        limits = Requirements(accuracy=self.default_accuracy or None).limits()
        chosen, meets = self.choice(view, limits)
        stands = self.standings[view]
        if chosen is None:
            first = f"Nothing tried is proven against threat {view[0]}, participation {view[1]}."
            second = _unproven(self.points, stands)
            if (measures := unweighed(self.points)) is not None:
                named = " or ".join(measures)
                first = f"No defence is recommended: that goes by accuracy; compare {named} below."
                proven = [self.points[one.point].label for one in stands if one.rung() == "proven"]
                more = f" and {len(proven) - 2} more" if len(proven) > 2 else ""
                second = f"Proven: {', '.join(proven[:2])}{more}." if proven else second
            return [
                first,
                second,
                "Bounds are for one training run; choosing among runs costs extra.",
            ]
        point, stand = self.points[chosen.point], stands[chosen.point]
        mine, base = point.mean("accuracy"), self.undefended(point.run)
        plain = None if base is None else base.mean("accuracy")
        kept = f"{percent(mine)} accuracy"
        kept += "" if plain is None else f" ({percent(plain)} undefended)"
        first = f"Use {point.label}: {kept}."
        if not meets:
            lost = 100 * (self.default_accuracy - (mine or 0.0))
            first = (
                f"Nothing tried protects at {percent(self.default_accuracy)} (undefended −"
                f"{100 * SLACK:g}): give up {lost:.1f}, {point.label}."
            )
        epsilon = "ε not proven."
        if stand.epsilon is not None:
            delta = "" if not point.delta else f" at δ = {at_most(point.delta, 2)}"
            epsilon = f"ε ≤ {at_most(stand.epsilon)}{delta}."
        limit, seen = self._told(view, chosen.point)
        if stand.rero is None:
            return [first, f"{epsilon} {_seen(stand, seen)}"]
        nobody = "Labels aside, no" if point.open_labels else "No"
        return [
            first,
            f"{nobody} intruder picks you out of 10 in over {chance_at_most(stand.rero)}{limit}.",
            f"{epsilon} {_seen(stand, seen)}",
        ]

    def choice(self, view: View, limits: dict[str, float]) -> tuple[Candidate | None, bool]:
        """The recommendation in the first scope, and whether it meets every limit.

        Where none does, it is the most accurate one that keeps the limits of the proof.
        """
        runs = None if self.scopes[0] is None else {self.scopes[0]}
        chosen = choose(self.ranked[view], limits, runs)
        if chosen is not None:
            return chosen, True
        return choose(self.ranked[view], without_accuracy(limits), runs), False

    def _told(self, view: View, point: int) -> tuple[str, str]:
        """What is proven, and what was seen, where participation is known: the ends of sentences.

        Both are empty where the bound holds for whoever is told as well.
        """
        known = self.standings.get((view[0], "known"))
        if view[1] == "known" or view[0] == "update" or known is None:  # a record is in its update
            return "", ""
        stand = known[point]
        if stand.rero is not None and stand.rero == self.standings[view][point].rero:
            return "", ""
        # What 99.1% or 100% are worth, the page's plain voice says.
        said = chance_at_most(1.0 if stand.rero is None else stand.rero)
        limit = f"; told when you took part: {said}"
        picked = stand.identification
        if picked is None or view[0] != "training":
            return limit, ""
        # Few games may come out above the limit by chance: then their interval says so.
        over = picked.rate > (1.0 if stand.rero is None else stand.rero)
        return limit, f", told {_with_ends(picked) if over else chance(picked.rate)}"

    def _other(self, view: View, point: int) -> str:
        """What becomes of it where the intruder knows more, or that this is not known."""
        if point is None or view[1] == "known":
            return (
                "Bounds are for one training run; choosing among runs costs extra (see the report)."
            )
        known = self.standings.get((view[0], "known"))
        if known is None or known[point].rero is None:
            return (
                "This rests on secret participation: for a server that knows who took part when, "
                "nothing is proven here."
            )
        bound, picked = chance_at_most(known[point].rero or 1.0), known[point].identification
        over = picked is not None and picked.rate > (known[point].rero or 1.0)
        seen_so = "" if picked is None else (
            f", and {_with_ends(picked) if over else chance(picked.rate)} was seen"
        )  # fmt: skip
        return (
            "If they know in which steps your record took part, no intruder picks it out of 10"
            f"{known[point].aside} in more than {bound} of cases{seen_so}."
        )

    def gate(self, view: View, requirements: Requirements) -> tuple[bool, str]:
        """Whether anything meets all requirements, and one line that says what, or what fails."""
        limits, ranked = requirements.limits(), self.ranked[view]
        chosen = choose(ranked, limits)
        if chosen is not None:
            return True, f"met by {self._named(chosen)}: {self._kept(chosen, limits)}"
        near = nearest(ranked, limits)
        if near is None:
            return False, "not met: no defence here has a bound for this intruder that holds"
        failing = {name: limits[name] for name in near.fails(limits)}
        return False, f"not met: the nearest, {self._named(near)}, has {self._kept(near, failing)}"

    def _named(self, one: Candidate) -> str:
        run = "" if len(self.runs) == 1 else f" ({self.runs[one.run].name})"
        return f"{self.points[one.point].label}{run}"

    def _kept(self, one: Candidate, limits: dict[str, float]) -> str:
        parts = []
        for name, limit in limits.items():
            value = one.values[name]
            wanted = f"{'>=' if name == 'accuracy' else '<='}{limit:g} asked"
            if value is None:
                text = "not measured" if name == "identification" else "not proven"
            else:
                text = figure(value, 4) if name == "accuracy" else at_most(value, 4)
            parts.append(f"{name} {text} ({wanted})")
        aside = self.points[one.point].open_labels and set(limits) - {"accuracy"}
        return f"{', '.join(parts)}{'; labels are not protected' if aside else ''}"

    def said(self, view: View, one: Candidate) -> dict[str, Any]:
        """What the page says of one candidate to somebody with this intruder."""
        point, stand = self.points[one.point], self.standings[view][one.point]
        # Where the game was played its own sentences say how far the strongest attack came.
        shown = [proof(point, stand), *([] if stand.chances else [seen(stand)])]
        base = self.undefended(point.run)
        bare = None if base is None else self.standings[view][base.index]
        known = None if view[1] == "known" else self.standings[view[0], "known"][one.point]
        return {
            "label": point.label,
            "name": plain_label(point),
            "plain": asdict(plain_of(point, stand, base, bare, known)),
            "use": cost(point, base),
            "promise": " ".join([*shown, self._other(view, point.index)]).strip(),
            "tiles": [
                {"name": name, "value": value, "note": note}
                for name, value, note in _tiles(point, stand)
                if value != "–"
            ],
            "risks": [
                risk(view, one, stand.bounds.get(one.candidates), open_labels=point.open_labels)
                for one in stand.chances
            ],
        }

    def nothing(self, view: View) -> str:
        """What is said to this intruder's victim where no proof keeps the budgets."""
        return nothing(self.points, self.standings[view], view)

    def price(self, view: View, limits: dict[str, float]) -> list[str]:
        """What the choice for these limits cost."""
        inside = {
            one.point
            for one in eligible(self.points, self.standings[view])
            if not one.fails(without_accuracy(limits))
        }
        return price(self.points, [point for point in self.points if point.index in inside])

    def payload(self) -> dict[str, Any]:
        """For the page: by intruder, the ranked list and what is said of each of its members."""
        return {
            " ".join(view): {
                "ranked": [one.to_dict() for one in ranked],
                "said": {one.point: self.said(view, one) for one in ranked},
                "nothing": self.nothing(view),
                "rero": {s.point: round_bound(s.promised, 6) for s in self.standings[view]
                         if s.promised is not None},
            }
            for view, ranked in self.ranked.items()
        }  # fmt: skip


def setting(run: StoredRun) -> tuple[str, str]:
    """Data and model of a run: accuracies compare only where both agree."""
    row = run.rows[0]
    return (
        str(section(row, "data").get("name") or "data"),
        str(section(row, "model").get("name") or "model"),
    )


def _seen(stand: Standing, told: str) -> str:
    """How far the strongest attack came, in a few words, and one that is told more."""
    best, picked = stand.strongest, stand.identification
    if best is None:
        return "Not attacked."
    if picked is not None:
        seen_so = _with_ends(picked).removesuffix(")")
        return f"Seen {seen_so}; blind {chance(picked.blind)}){told}."
    if best.beats is None:
        return "Whether attacks beat a guess was not measured."
    return f"{best.attack} beat a guess." if best.beats else "No attack here beat a guess."


def _with_ends(picked: Chance) -> str:
    """A rate with its interval."""
    ends = "–".join(end[:-1] for end in chance_ends(picked.low, picked.high))
    return f"{chance(picked.rate)} ({100 * picked.confidence:g}%: {ends})"


def _unproven(points: Sequence[Point], stands: Sequence[Standing]) -> str:
    """What attacks made of defences of which nothing is proven, in a few words."""
    held = [one for one in stands if points[one.point].bounded and one.rung() == "resisted"]
    if not held:
        return "No defence is known to have resisted the attacks that were tried."
    held.sort(key=lambda one: -(points[one.point].mean("accuracy") or 0.0))
    more = f" and {len(held) - 2} more" if len(held) > 2 else ""
    names = ", ".join(points[one.point].label for one in held[:2])
    return f"Attacks here did not beat a guess at {names}{more}: no proof."


def _tiles(point: Point, stand: Standing) -> list[tuple[str, str, str]]:
    """The figures of a candidate, each with what it is."""
    picked = stand.identification
    rero = "–" if stand.rero is None else f"≤ {chance_at_most(stand.rero)}"
    epsilon = "–" if stand.epsilon is None else f"≤ {at_most(stand.epsilon)}"
    auc, kept = point.values.get("auc"), point.values.get("accuracy")
    return [
        ("test accuracy", percent(point.mean("accuracy")),
         "" if kept is None else span(kept.low, kept.high, share=True)),
        ("rebuilt or picked out of 10", rero, f"by anybody{stand.aside}; a guess: 10%"),
        ("ε", epsilon, "" if point.delta is None else f"at δ = {at_most(point.delta, 2)}"),
        ("picked out of 10 here", "–" if picked is None else chance(picked.rate),
         "" if picked is None else f"95%: {'–'.join(chance_ends(picked.low, picked.high))}"),
        ("membership AUC", "–" if auc is None else figure(auc.mean),
         "" if auc is None else f"{span(auc.low, auc.high)} 0.5 is guessing".strip()),
    ]  # fmt: skip
