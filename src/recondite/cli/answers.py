"""Budgets, and an intruder: what a person asks of finished rows, and what is answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recondite import _validate
from recondite.cli.comparison import show, show_answer
from recondite.cli.output import print_json

if TYPE_CHECKING:
    from recondite.report.answer import Answers
    from recondite.report.ladder import View
    from recondite.report.recommend import Requirements

__all__ = ["PARTICIPATION", "REQUIRE", "THREAT", "AnswerOptions", "answered", "tell", "to_dict"]

REQUIRE = Annotated[
    list[str] | None,
    typer.Option(
        "--require",
        help="epsilon<=8, rero<=0.3, identification<=0.2, accuracy>=0.8: exit code 1 if no "
        "defence meets all.",
    ),
]
THREAT = Annotated[
    str | None,
    typer.Option("--threat", help="What the intruder sees: training, update or model."),
]
PARTICIPATION = Annotated[
    str | None,
    typer.Option("--participation", help="Whether they know who took part when: secret or known."),
]

Gate = tuple[bool, str]


@dataclass(frozen=True)
class AnswerOptions:
    """What is asked of the results: budgets, and for which intruder."""

    requirements: Requirements | None
    threat: str | None
    participation: str | None

    @classmethod
    def of(
        cls, require: list[str] | None, threat: str | None, participation: str | None
    ) -> AnswerOptions:
        """From the command line, checked before anything runs."""
        from recondite.attacks.base import THREATENED
        from recondite.report.ladder import PARTICIPATIONS
        from recondite.report.recommend import Requirements

        if threat is not None:
            _validate.choice("threat", threat, THREATENED)
        if participation is not None:
            _validate.choice("participation", participation, PARTICIPATIONS)
        return cls(Requirements.parse(require) if require else None, threat, participation)


def answered(folders: Sequence[Path], asked: AnswerOptions) -> tuple[Answers, View, Gate | None]:
    """What the rows of runs answer, to whom, and whether something meets what is required."""
    from recondite.report.answer import Answers
    from recondite.report.rows import read_runs

    answers = Answers.of(read_runs(folders))
    view = answers.view(asked.threat, asked.participation)
    gate = None if asked.requirements is None else answers.gate(view, asked.requirements)
    return answers, view, gate


def tell(folders: Sequence[Path], asked: AnswerOptions, *, as_json: bool = False) -> None:
    """The answer of finished runs; exit code 1 where nothing meets what is required."""
    answers, view, gate = answered(folders, asked)
    if as_json:
        print_json({"schema_version": 1, **to_dict(answers, view, gate)})
    elif gate is not None:
        print(gate[1])
    else:
        show_answer(answers, view)
        rows = [row for run in answers.runs for row in run.rows]
        show(answers, view, rows, ", ".join(run.name for run in answers.runs))
    if gate is not None and not gate[0]:
        raise typer.Exit(1)


def to_dict(answers: Answers, view: View, gate: Gate | None) -> dict[str, Any]:
    """The answer, ready for JSON."""
    body: dict[str, Any] = {
        "threat": view[0],
        "participation": view[1],
        "answer": answers.lines(view),
        "rungs": {answers.points[s.point].label: s.rung() for s in answers.standings[view]},
    }
    return body if gate is None else {**body, "met": gate[0], "requirements": gate[1]}
