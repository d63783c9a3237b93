"""What a run does not cover, and what its search for settings costs."""

from __future__ import annotations

from collections.abc import Sequence

from recondite.dossier.attacks import AttackTrial
from recondite.dossier.source import DossierRun
from recondite.report.answer import Answers
from recondite.report.ladder import VIEWS
from recondite.report.provenance import scope, simulated
from recondite.report.recommend import Requirements
from recondite.report.rows import section
from recondite.report.sentences import title
from recondite.report.words import several

__all__ = ["not_covered", "search"]

# Outside of any training run: said in every dossier.
_OUTSIDE = (
    "How the records came to be collected, on which legal ground, and whom they are about.",
    "Who can reach the records, the weights and the logs, and how long they are kept.",
    "What the model tells of groups, or of people whose records are not in it: no bound here "
    "limits what can be learned of somebody from others.",
    "Releases outside this run: earlier or later models, statistics or copies of the same records "
    "add to what is known of them.",
    "Running times, memory and floating-point rounding as sources of leakage: the bounds take the "
    "arithmetic for exact.",
)


def not_covered(source: DossierRun, answers: Answers, attacks: Sequence[AttackTrial]) -> list[str]:
    """What an assessor must not read into the dossier, in sentences."""
    lines = [] if source.finished else [source.status]
    if simulated([source.run]):
        lines.append(
            "The noise followed from a seed: this run is a simulation, and no bound holds for its "
            "own models. The bounds hold for a training with the same settings and secret noise."
        )
    lines += scope(answers.points)
    tried = {(trial.threat, trial.participation) for trial in attacks}
    untried = [title(view) for view in VIEWS if view not in tried]
    if untried:
        lines.append(f"No attack of this run was given: {'; '.join(untried)}.")
    open_ = [
        title(view)
        for view in VIEWS
        if not any(
            answers.points[one.point].bounded and (one.rero is not None or one.epsilon is not None)
            for one in answers.standings[view]
        )
    ]
    if open_:
        lines.append(f"Nothing is proven here against: {'; '.join(open_)}.")
    single = any(
        section(row, "privacy").get("group_size", 1) == 1
        for point in answers.points
        if point.bounded
        for row in point.rows
    )
    if single:
        lines.append(
            "Bounds speak of one record. Somebody with several records in the data is protected "
            "less: recondite account --group-size states by how much."
        )
    if source.run.failed:
        count = several(len(source.run.failed), "row")
        lines.append(f"{count} failed: they show nothing, neither for nor against a defence.")
    return [*lines, *_OUTSIDE]


def search(source: DossierRun, answers: Answers) -> list[str]:
    """How the settings were chosen, and the price of that."""
    models = sum(point.seeds for point in answers.points)
    if source.kind == "training":
        return [
            "One training. Whether others were run on the same records to choose its settings is "
            "not known to this record; if so, their price is not in its bounds: "
            "recondite account --selected-from N states it."
        ]
    tried = several(len(answers.points), "setting")
    lines = [f"This run compared {tried} in {several(models, 'trained model')}."]
    if source.searched:
        lines.append(
            f"{several(source.searched, 'further training')} looked for strengths that meet a "
            "target: they are not in any bound here."
        )
    limits = Requirements(accuracy=answers.default_accuracy or None).limits()
    lines += answers.price(answers.view(), limits)
    lines.append(
        "Trainings outside this folder are not known to it: if any helped to choose, their price "
        "comes on top."
    )
    return lines
