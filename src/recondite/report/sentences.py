"""The answer in two sentences: what to use and what it cost, then what it does not promise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from recondite.report.points import Point
from recondite.report.quantities import axis, bound, promises
from recondite.report.words import at_most, figure, percent, score, several

__all__ = ["Context", "lead", "promise", "proven", "use", "why_not"]

# A defence is recommended by its proof, never by attacks that failed: no intruder rebuilds a record
# more often than this where a guess is right one time in ten, or ε is at most that without ReRo.
PROVEN_SUCCESS, PROVEN_EPSILON = 0.5, 5.0
LOOSE = 20.0  # e^20: any prior may turn into near certainty


@dataclass(frozen=True)
class Context:
    """What the sentences say of the whole study.

    Attributes:
      undefended: The undefended point of the same run, if there is one.
      attacks: How many attacks were tried.
      models: How many models the study trained.
    """

    undefended: Point | None
    attacks: int
    models: int


def lead(point: Point) -> dict[str, tuple[str, str]]:
    """What stands before and after the name, by the kind of budget that led to the point.

    That the attacks of a study failed is no reason to use a defence: stronger ones exist. Where its
    bound promises next to nothing it is only said what those attacks got.
    """
    if proven(point):
        return dict.fromkeys(("accuracy", "quality"), ("Use ", ": "))
    first = "Nothing is proven here. Of the defences tried, "
    return {
        "accuracy": (first, " gave these attacks least at this accuracy: "),
        "quality": (first, " is the most accurate that gave these attacks no more: "),
    }


def proven(point: Point) -> bool:
    """Whether the bounds of a point mean something by themselves."""
    success, epsilon = point.notions["rero_bound"], point.notions["epsilon"]
    if not point.bounded:
        return False
    if success is not None:
        return success <= PROVEN_SUCCESS
    return epsilon is not None and epsilon <= PROVEN_EPSILON


def use(point: Point, context: Context) -> str:
    """What to use, and what it cost."""
    base = context.undefended if context.undefended is not point else None
    cost = f"{percent(point.mean('accuracy'))} test accuracy"
    if base and base.mean("accuracy") is not None:
        cost += f" ({percent(base.mean('accuracy'))} undefended)"
    worst, mean, auc = point.mean("ssim_worst"), point.mean("ssim"), point.mean("auc")
    if worst is not None:
        seen = f"the best copy any attack here made of any image has an SSIM of {score(worst)}"
        more = [] if mean is None else [f"{score(mean)} on average"]
        if base and base.mean("ssim_worst") is not None:
            more.append(f"{score(base.mean('ssim_worst'))} undefended")
        seen += f" ({'; '.join(more)})" if more else ""
    elif auc is not None:
        seen = f"the strongest membership attack reached an AUC of {figure(auc)} (0.5 is guessing)"
    else:
        seen = "no attack was scored against it"
    return f"it keeps {cost}, and {seen}."


def promise(point: Point, context: Context) -> str:
    """What the choice does not promise."""
    if not point.bounded:
        return (
            "It promises nothing: it has no finite bound, so an attack that was not tried here "
            "may rebuild everything."
        )
    if not context.attacks:
        tried = "no attack was tried"
    else:
        count = "one" if context.attacks == 1 else str(context.attacks)
        tried = f"a stronger attack than the {count} tried here may rebuild more"
    return (
        f"It does not promise more than {_bounds(point)}: {tried}, and the bound covers one "
        f"training run, not the choice among the {several(context.models, 'model')} of this study."
    )


def why_not(points: Sequence[Point]) -> str:
    """What is said where no point can be recommended, whatever the budget."""
    if not any(point.mean("accuracy") is not None for point in points):
        return "No accuracy was measured, so there is nothing to weigh a defence against."
    if not any(point.attacks for point in points):
        return "No attack was scored, so there is nothing to choose a defence by."
    return "No defence in this study has a finite bound that holds."


def _protected(point: Point) -> str:
    """Whom ε speaks of. Rows name what capacity is about, which may be a gradient: ε is not."""
    return "one record" if "gradient" in point.subject else point.subject


def _bounds(point: Point) -> str:
    """The bounds that are finite, the one about a whole run first."""
    parts = []
    epsilon = point.notions["epsilon"]
    if epsilon is not None and math.isfinite(epsilon):
        delta = "" if point.delta is None else f" at δ = {figure(point.delta, 2)}"
        loose = ", too loose to mean much on its own" if epsilon > LOOSE else ""
        parts.append(f"ε ≤ {at_most(epsilon)}{delta} for {_protected(point)}{loose}")
    success = point.notions["rero_bound"]
    if success is not None and promises("rero_bound", success):
        unaided = ""
        if point.rero_prior is not None:
            share = figure(100 * point.rero_prior, 2)
            unaided = f" where a guess is right {share}% of the time unaided"
        parts.append(f"a chance of {at_most(success, 2)} to rebuild a record{unaided}")
    if not parts:
        names = (
            ("mutual_information_run", "nats of information"),
            ("log_bayes_capacity_run", "nats of log Bayes’ capacity"),
        )
        for key, unit in names:
            value = point.notions[key]
            if promises(key, value):
                parts.append(f"{at_most(value)} {unit} over the run (no finite ε)")
                break
    if not parts:  # only a notion of another package says anything
        found = [(key, value) for key, value in point.notions.items() if promises(key, value)]
        parts = [f"{axis(key).label} {bound(key, value)}" for key, value in found[:1]]
    return " and ".join(parts)
