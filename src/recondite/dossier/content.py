"""Everything a dossier says, as plain typed parts: the page and the JSON are made of the same.

Every bound is an upper bound rounded up, every measured number has its interval or says that it has
none. What the run did not do is said. Nothing here judges whether a law is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any

from recondite._version import __version__
from recondite.dossier.attacks import AttackTrial, log
from recondite.dossier.limits import not_covered, search
from recondite.dossier.questions import Table, tables
from recondite.dossier.recheck import account_command
from recondite.dossier.source import DossierRun
from recondite.notions import figures, json_ready
from recondite.report.answer import Answers
from recondite.report.ladder import VIEWS, Standing
from recondite.report.points import Estimate, Point
from recondite.report.provenance import made
from recondite.report.quantities import bound
from recondite.report.rows import Row, section
from recondite.report.sentences import proof, seen, title, who
from recondite.report.words import percent, several, span

__all__ = ["SCHEMA", "Dossier", "compose"]

SCHEMA = "recondite-dossier/1"
DIGITS = 4


@dataclass(frozen=True)
class Promise:
    """One bound of one setting: as it was computed, for people rounded up, and what it means."""

    key: str
    notion: str
    unit: str
    value: float
    text: str
    words: str
    whole_run: bool


@dataclass(frozen=True)
class Against:
    """What holds against one threat model: ``rero`` and ``epsilon`` are bounds, or None."""

    threat: str
    participation: str
    rung: str
    rero: float | None
    epsilon: float | None
    promise: str
    seen: str


@dataclass(frozen=True)
class DefenceEntry:
    """One defence at one strength: whom it protects, what it promises and on what that rests."""

    label: str
    defence: str
    models: int
    mechanism: str
    schedule: str
    noise: str
    training: dict[str, str]
    accuracy: str
    unit: str
    neighbouring: str
    records_of_one_person: int | None
    delta: float | None
    simulation: bool
    promises: tuple[Promise, ...]
    not_defined: dict[str, str]
    against: tuple[Against, ...]
    assumptions: tuple[str, ...]
    contradicted: bool
    command: str | None


@dataclass(frozen=True)
class Threat:
    """A threat model in words."""

    threat: str
    participation: str
    title: str
    who: str


@dataclass(frozen=True)
class Dossier:
    """The whole dossier; the JSON has the same keys."""

    schema: str
    title: str
    kind: str
    created: str
    recondite: str
    finished: bool
    rows_missing: int
    status: str
    answer: tuple[str, ...]
    trained: dict[str, str]
    digests: dict[str, str]
    settings: tuple[DefenceEntry, ...]
    threats: tuple[Threat, ...]
    attacks: tuple[AttackTrial, ...]
    not_covered: tuple[str, ...]
    search: tuple[str, ...]
    software: dict[str, str]
    verify: tuple[tuple[str, str], ...]
    questions: tuple[Table, ...]

    def to_dict(self) -> dict[str, Any]:
        """One JSON object; infinite is the text "inf"."""
        plain: dict[str, Any] = json_ready(asdict(self))
        return plain


def compose(source: DossierRun, digests: dict[str, str]) -> Dossier:
    """Everything that is said of a run.

    Args:
      source: The run.
      digests: SHA-256 of each file of evidence, by its name in the dossier.
    """
    answers = Answers.of([source.run])
    attacks = log(source.run, answers.points)
    settings = tuple(_setting(answers, point) for point in answers.points)
    facts = dict(made(source.run)["facts"])
    apart = {"Study", "Versions", "Machine", "Attacks", "Training, alike for all"}
    apart |= set() if source.kind == "study" else {"Rows"}
    data, model = facts.get("Data", "").split(",")[0], facts.get("Model", "").split(",")[0]
    return Dossier(
        schema=SCHEMA,
        title=f"{model} on {data}",
        kind=source.kind,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        recondite=__version__,
        finished=source.finished,
        rows_missing=source.missing,
        status=source.status,
        answer=tuple(answers.lines(answers.view())) if source.kind == "study" else (),
        trained={name: text for name, text in facts.items() if name not in apart},
        digests=digests,
        settings=settings,
        threats=tuple(
            Threat(*view, title(view), f"An intruder who {who(view)}.") for view in VIEWS
        ),
        attacks=tuple(attacks),
        not_covered=tuple(not_covered(source, answers, attacks)),
        search=tuple(search(source, answers)),
        software={name: facts[name] for name in ("Versions", "Machine") if facts.get(name)},
        verify=tuple(_verify(source, settings)),
        questions=tuple(tables(source, answers, attacks)),
    )


def _setting(answers: Answers, point: Point) -> DefenceEntry:
    first = point.rows[0]
    privacy = section(first, "privacy")
    group = privacy.get("group_size")
    training = section(first, "training")
    assumptions = (
        str(line) for row in point.rows for line in section(row, "privacy").get("assumptions") or []
    )
    known = figures()
    return DefenceEntry(
        label=point.label,
        defence=point.defence,
        models=point.seeds,
        mechanism=_listed(privacy.get("mechanism"), section(privacy, "parameters")),
        schedule=_listed("", section(privacy, "schedule")),
        noise=_noise(point),
        training={key.replace("_", " "): _plain(value) for key, value in training.items()
                  if value is not None and key != "seconds" and not isinstance(value, list | dict)},
        accuracy=_measured(point.values.get("accuracy")),
        unit=point.protects,
        neighbouring=point.neighbouring,
        records_of_one_person=group if isinstance(group, int) else None,
        delta=point.delta if point.bounded else None,
        simulation=any(bool(row.get("simulation")) for row in point.rows),
        promises=tuple(
            _promise(key, value)
            for key, value in point.notions.items()
            if value is not None and point.bounded and key in known
        ),
        not_defined=point.reasons,
        against=tuple(_against(point, answers.standings[view][point.index]) for view in VIEWS),
        assumptions=tuple(dict.fromkeys(assumptions)),
        contradicted=point.index in answers.contradicted,
        command=account_command(first),
    )  # fmt: skip


def _promise(key: str, value: float) -> Promise:
    notion, one = figures()[key]
    return Promise(
        key=key,
        notion=one.short,
        unit=notion.unit,
        value=value,
        text=bound(key, value, DIGITS),
        words=notion.promise,
        whole_run=one.run,
    )


def _against(point: Point, stand: Standing) -> Against:
    return Against(
        *stand.view,
        rung=stand.rung(),
        rero=stand.rero,
        epsilon=stand.epsilon,
        promise=proof(point, stand) if point.bounded else "Nothing is proven: no noise protects.",
        seen=seen(stand),
    )


def _measured(value: Estimate | None) -> str:
    if value is None:
        return "not measured"
    ends = span(value.low, value.high, share=True)
    count = several(value.seeds, "model")
    return f"{percent(value.mean)} ({f'95%: {ends}, ' if ends else 'no interval: '}{count})"


def _verify(source: DossierRun, settings: Sequence[DefenceEntry]) -> list[tuple[str, str]]:
    steps = [("Every file is what was signed or listed", "recondite dossier verify DIR")]
    steps += [
        (f"The bounds of {one.label}, from its settings alone", one.command)
        for one in settings
        if one.command is not None
    ]
    if source.kind == "study":
        steps += [
            ("The page that the rows give", "recondite report DIR/evidence --out report.html"),
            ("The answer that the rows give", "recondite compare DIR/evidence"),
        ]
    if source.kind == "study" and not source.missing:
        steps += [
            ("The whole study again (its records and model are needed)",
             "recondite compare DIR/evidence/study.yaml --out again"),
        ]  # fmt: skip
    return steps


def _listed(name: object, parts: Row) -> str:
    """A mechanism or a schedule in words; long lists by their length.

    A rate is a quotient, in four digits: the commands that verify have all of it.
    """
    words = []
    for key, value in parts.items():
        long = isinstance(value, list) and len(value) > 8
        text = f"{len(value)} values" if long else str(value)
        if key == "rate" and isinstance(value, float):
            text = f"{value:.4g}"
        words += [] if value is None else [f"{key.replace('_', ' ')} {text}"]
    return f"{name or ''}{': ' if name and words else ''}{', '.join(words)}"


def _noise(point: Point) -> str:
    """Where the noise came from, as far as the rows say."""
    if not point.bounded:
        return "none that a bound rests on"
    if any(bool(row.get("simulation")) for row in point.rows):
        return "from a seed: a simulation, no guarantee for this model"
    secure = section(point.rows[0], "training").get("secure")
    if secure is None:
        return "from a generator without a seed; which one is not stored"
    kind = (
        "a cryptographic generator" if secure else "an unseeded generator, not a cryptographic one"
    )
    return f"from {kind}"


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
