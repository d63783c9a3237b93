"""What the library's own account proves of every setting of the frontier, whatever was measured."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np

from recondite.accounting import epsilon
from recondite.attacks.identification.bounds import of_run, told_when
from recondite.mechanisms import Gaussian, Mechanism
from recondite.notions.pairs import GaussianPair, local_epsilon
from recondite_papers.frontier.batches import Batches, FrontierPlan
from recondite_papers.frontier.defences import CHANNELS, DEFENCES
from recondite_papers.jobs.frontier import plan_of
from recondite_papers.jobs.sink import Context, Row
from recondite_papers.tables.cells import having

__all__ = ["accounts", "proven"]

_NUMBERS = (10, 100)
_FEATURES = {"fashion-mnist": 784, "cifar10": 3072}


def accounts(context: Context) -> None:
    """ε and reconstruction bounds of every run that was measured, by data set and model."""
    sink, measured = context.sink("frontier-accounts"), context.sink("frontier").rows
    settings = dict.fromkeys((row["data"], row["model"]) for row in measured)
    for data, model in settings:
        name = f"{data}/{model}"
        if name in sink.done:
            continue
        rows = []
        for rate in having(measured, data=data, model=model, kind="rate"):
            wanted = {key: rate[key] for key in ("data", "model", "defence", "value")}
            run = next(iter(having(measured, kind="run", **wanted)), None)
            if run is not None:
                rows.append({**wanted, **proven(run), "run": context.mark})
        sink.write(name, rows)
        context.say(f"frontier-accounts: {name}")


def proven(run: Row) -> Row:
    """The account of a row's setting.

    ``epsilon`` is at δ = 1/(10·records), None where nothing is promised. ``secret`` and ``known``
    are bounds on identification out of 10 and 100 (reconstruction robustness at 1/10 and 1/100)
    for an intruder who is not told, or told, when a record took part. ``promise`` says what the
    account is about.
    """
    plan = _plan(run)
    delta = 1.0 / (10.0 * plan.records)
    if run["defence"] == "none":
        one = {str(n): 1.0 for n in _NUMBERS}
        return {"epsilon": None, "delta": delta, "secret": one, "known": one, "promise": "none"}
    defence = next((d for d in DEFENCES if d.name == run["defence"]), None)
    sampling = "poisson" if defence is None else defence.sampling
    taken = Batches.draw(plan, sampling, 0).taken.sum(0).astype(np.int64)
    if run["defence"] in CHANNELS:
        uses = taken if run["defence"] == "natural-per-step" else np.ones_like(taken)
        return {**_of_copies(run, uses, delta), "delta": delta}
    assert defence is not None
    mechanism = defence.mechanism(run["value"], run["dim"], tuple(run["blocks"]))
    if isinstance(mechanism, Gaussian):
        mechanism = replace(mechanism, dim=None)  # its account is the same in any dimension
    return dict(_of_gradients(mechanism, plan, sampling, tuple(taken.tolist())))


@lru_cache(maxsize=256)
def _of_gradients(
    mechanism: Mechanism, plan: FrontierPlan, sampling: str, taken: tuple[int, ...]
) -> Row:
    schedule, delta = plan.schedule(sampling), 1.0 / (10.0 * plan.records)
    told = told_when(mechanism, schedule, np.array(taken))
    whole = of_run(mechanism, schedule)
    found = epsilon(mechanism, schedule, delta)
    return {
        "epsilon": found if math.isfinite(found) else None,
        "delta": delta,
        "secret": {str(n): whole.at(n) for n in _NUMBERS},
        "known": {str(n): told.at(n) for n in _NUMBERS},
        "promise": f"{schedule.neighbouring(mechanism).value}, {schedule.sampling}",
    }


def _plan(run: Row) -> FrontierPlan:
    """The full plan, or the quick one, by the steps that were taken."""
    full = plan_of(run["data"], False)
    return full if full.steps == run["steps"] else plan_of(run["data"], True)


def _of_copies(run: Row, uses: np.ndarray, delta: float) -> Row:
    """Noisy copies of a record in [0, 1]: replace-one, labels aside; ε for the most used victim."""
    side = math.sqrt(_FEATURES[run["data"]] / run["noise_variance"])
    success = {str(n): float(np.mean([_picked(side, int(k), n) for k in uses])) for n in _NUMBERS}
    most = side * math.sqrt(max(1.0, float(uses.max())))
    return {
        "epsilon": local_epsilon(most, delta), "secret": success, "known": success,
        "promise": "replace-one, features of the record only",
    }  # fmt: skip


def _picked(side: float, uses: int, candidates: int) -> float:
    """A record of which there is no copy is guessed."""
    if uses == 0:
        return 1.0 / candidates
    return GaussianPair(side * math.sqrt(uses)).success(1.0 / candidates)
