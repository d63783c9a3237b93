"""Small identification games, drawn at random, against the bounds that nobody may exceed.

Each case is a mechanism, a schedule, a geometry of records and a number of candidates, all drawn
from its seed. A quadratic loss is trained on a handful of records in 2 to 30 dimensions, hundreds
of times over, and played by the Bayes-optimal attacker of :mod:`recondite.attacks.identification`
(written again here, on NumPy). Two things are held against the account of the same run:

  the game:  how often the record is picked out of n candidates, against the bound at 1/n;
  the claim: how often a likelihood test says rightly that the record is there, against the bound
             at the share of runs without it (or with another in its place) where it says so too.

    python -m benchmarks.games --games 1000 --workers 2        # about ten minutes of one core
    python -m benchmarks.games --games 40 --fault 0.7 --out /tmp/fault.json    # must be caught

A run that was broken off goes on where it stopped. A case is a violation where the lower limit of
its rate exceeds its bound, at a confidence that leaves all cases together a false alarm of 1e-6.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import beta

from recondite.accounting import FixedSize, Poisson, RandomAllocation, Shuffled
from recondite.accounting.schedules import Schedule
from recondite.attacks.identification.bounds import told_when
from recondite.attacks.identification.game import hidden_by
from recondite.mechanisms import (
    Directional,
    Gaussian,
    Mechanism,
    Neighbouring,
    PartitionedVonMisesFisher,
    VonMisesFisher,
)
from recondite.notions.pairs import ComposedPair

Array = npt.NDArray[np.float64]
FALSE_ALARM = 1e-6


@dataclass(frozen=True)
class Case:
    """One configuration.

    Attributes:
      mechanism: Its noise, in units of one record's bound.
      schedule: How batches are drawn.
      known: Whether the attacker is told when the record took part.
      candidates: Their records, (n, p); the true one is drawn from them in every play.
      others: The records of everybody else, (m, p).
      rate: Learning rate: weights follow the releases, so that steps are adaptive.
      plays: Trainings.
    """

    mechanism: Mechanism
    schedule: Schedule
    known: bool
    candidates: Array
    others: Array
    rate: float
    plays: int

    @property
    def replaced(self) -> bool:
        """Whether the bound compares with another record in the record's place."""
        return self.schedule.neighbouring(self.mechanism) is Neighbouring.REPLACE


def drawn(seed: int, plays: int) -> Case:
    """The case of a seed."""
    rng = np.random.default_rng([7, seed])
    dim, n = int(rng.integers(2, 31)), int(rng.choice([2, 3, 5, 10, 20]))
    steps = int(rng.integers(1, 9))
    kind = str(
        rng.choice(["gaussian", "vmf", "partitioned", "directional"], p=[0.4, 0.3, 0.2, 0.1])
    )
    strength = float(np.exp(rng.uniform(np.log(0.3), np.log(3.0))))  # of one release
    made: Mechanism = Gaussian(1.0 / strength, dim=dim)
    if kind == "vmf":
        made = VonMisesFisher(0.5 * strength * np.sqrt(dim), dim=dim)
    if kind == "partitioned":
        dim = max(dim, 4)
        made = PartitionedVonMisesFisher(0.4 * strength * np.sqrt(dim / 2), dim=dim, blocks=2)
    if kind == "directional":
        made = Directional(0.5 * strength * np.sqrt(dim), dim=dim)
    others = 0 if kind == "directional" else int(rng.integers(1, 6))
    sampling = str(rng.choice(["poisson", "allocation", "fixed-size", "shuffled", "full"]))
    schedule: Schedule = Poisson(1.0, steps)
    if sampling == "poisson":
        schedule = Poisson(float(rng.uniform(0.05, 0.9)), steps)
    if sampling == "allocation":
        schedule = RandomAllocation(int(rng.integers(2, 6)), int(rng.integers(1, 4)))
    if sampling == "fixed-size":
        schedule = FixedSize(int(rng.integers(1, others + 2)), others + 1, steps)
    if sampling == "shuffled":
        schedule = Shuffled(int(rng.integers(1, 5)), int(rng.integers(1, others + 2)), others + 1)
    records = _geometry(str(rng.choice(["axes", "antipodes", "random"])), n, dim, rng)
    rest = rng.standard_normal((others, dim))
    rest *= 100.0 / np.linalg.norm(rest, axis=1, keepdims=True)
    if others and rng.random() < 0.4:
        # One record whose gradient is half the first candidate's, and opposite.
        rest = -0.5 * records[:1] / np.linalg.norm(records[:1])
        schedule = _with_others(schedule, 1)
    known = bool(rng.random() < 0.4)
    return Case(made, schedule, known, records, rest, float(rng.uniform(0.0, 0.05)), plays)


def _with_others(schedule: Schedule, others: int) -> Schedule:
    if isinstance(schedule, FixedSize):
        return FixedSize(min(schedule.batch_size, others + 1), others + 1, schedule.steps)
    if isinstance(schedule, Shuffled):
        return Shuffled(schedule.epochs, min(schedule.batch_size, others + 1), others + 1)
    return schedule


def _geometry(kind: str, n: int, dim: int, rng: np.random.Generator) -> Array:
    """Records far out, so that gradients are as long as they may be and keep their directions."""
    made = rng.standard_normal((n, dim))
    if kind == "axes":
        made = np.zeros((n, dim))
        made[np.arange(n), np.arange(n) % dim] = 1.0 - 2.0 * ((np.arange(n) // dim) % 2)
        made += 0.05 * rng.standard_normal((n, dim))
    if kind == "antipodes":
        made = np.concatenate([made[: (n + 1) // 2], -made[: n // 2]])
    out: Array = 100.0 * made / np.linalg.norm(made, axis=1, keepdims=True)
    return out


def _gradients(weights: Array, records: Array) -> Array:
    """Of ½‖w - x‖², clipped to length 1: (plays, records, p)."""
    raw = weights[:, None, :] - records
    norms = np.linalg.norm(raw, axis=-1, keepdims=True)
    out: Array = raw / np.maximum(norms, 1.0)
    return out


def _batches(case: Case, plays: int, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """(steps, plays, others + 1): who is in which batch, the record in question last."""
    schedule, count = case.schedule, len(case.others) + 1
    if isinstance(schedule, Poisson):
        return rng.random((schedule.steps, plays, count)) < schedule.rate
    if isinstance(schedule, RandomAllocation):
        place = rng.integers(schedule.batches, size=(schedule.epochs, plays, count))
        each = np.arange(schedule.batches)[None, :, None, None] == place[:, None]
        return each.reshape(schedule.steps, plays, count)
    if isinstance(schedule, FixedSize):
        order = rng.random((schedule.steps, plays, count)).argsort(-1).argsort(-1)
        return np.asarray(order < schedule.batch_size)
    assert isinstance(schedule, Shuffled)
    order = rng.random((schedule.epochs, plays, count)).argsort(-1).argsort(-1)
    cut = order // schedule.batch_size
    each = np.arange(schedule.batches)[None, :, None, None] == cut[:, None]
    return each.reshape(schedule.steps, plays, count)


def play(
    case: Case, truth: npt.NDArray[np.int64], rng: np.random.Generator, fault: float
) -> tuple[Array, npt.NDArray[np.int64]]:
    """Trains once for each of ``truth`` (-1: without the record); scores and participations.

    Scores (plays, n) are log-likelihoods of the whole run given each candidate, against none.
    """
    plays, n = len(truth), len(case.candidates)
    dim = case.candidates.shape[1]
    weights, scores = np.zeros((plays, dim)), np.zeros((plays, n))
    hidden = None if case.known else hidden_by(case.schedule, case.mechanism)
    inside = isinstance(case.schedule, FixedSize) and not case.known
    noisy = case.mechanism
    if fault != 1.0:
        factor = fault if noisy.weaker == "smaller" else 1.0 / fault
        noisy = noisy.with_strength(noisy.strength * factor)
    took, group = np.zeros(plays, dtype=np.int64), []
    for members in _batches(case, plays, rng):
        there = members[:, -1] & (truth >= 0)
        took += there
        others = _gradients(weights, case.others)
        mine = _gradients(weights, case.candidates)
        rest = (members[:, :-1, None] * others).sum(1)
        own = np.take_along_axis(mine, np.maximum(truth, 0)[:, None, None], 1)[:, 0]
        if noisy.stage == "record":
            release, ratio = _record_alone(case.mechanism, noisy, own, mine, there, rng)
        else:
            release = noisy.release(rest + there[:, None] * own, rng)
            density = case.mechanism.log_likelihood
            at = release[:, None]
            ratio = density(at, rest[:, None] + mine) - density(release, rest)[:, None]
            if inside:
                ratio = _any_batch(case, density, at, others, mine)
        weights = weights - case.rate * release
        if inside:
            scores += ratio
        elif hidden is None:
            scores += there[:, None] * ratio
        else:
            group.append(ratio)
            if len(group) == hidden[0]:
                absent = 1.0 - hidden[0] * hidden[1]
                mixed = np.logaddexp.reduce(np.stack(group), 0) + np.log(hidden[1])
                scores += mixed if absent < 1e-12 else np.logaddexp(np.log(absent), mixed)
                group = []
    return scores, took


def _record_alone(
    law: Mechanism, noisy: Mechanism, own: Array, mine: Array, there: Any, rng: np.random.Generator
) -> tuple[Array, Array]:
    """A batch of one record whose own gradient is noised; without it nothing is released."""
    release = noisy.release(own[:, None], rng) * there[:, None]
    safe = np.where(there[:, None], release, own)
    ratio = law.log_likelihood(safe[:, None], mine[:, :, None])
    return release, np.asarray(ratio) * there[:, None]


def _any_batch(case: Case, density: Any, at: Array, others: Array, mine: Array) -> Array:
    """Log-likelihood of a release where nobody knows who is in a batch of fixed size."""
    assert isinstance(case.schedule, FixedSize)
    size, count = case.schedule.batch_size, len(case.others) + 1
    terms = []
    for batch in itertools.combinations(range(count), size):
        rest = others[:, [i for i in batch if i < count - 1]].sum(1)[:, None]
        terms.append(density(at, rest + mine if count - 1 in batch else rest + 0.0 * mine))
    out: Array = np.logaddexp.reduce(np.stack(terms), 0) - np.log(len(terms))
    return out


def judged(seed: int, plays: int, cases: int, fault: float = 1.0) -> dict[str, Any]:
    """Plays the case of a seed, and holds it against its bounds."""
    case, rng = drawn(seed, plays), np.random.default_rng([11, seed])
    n, tail = len(case.candidates), FALSE_ALARM / (2 * cases)
    truth = rng.integers(n, size=plays)
    scores, took = play(case, truth, rng, fault)
    best = scores == scores.max(1, keepdims=True)
    won = best[np.arange(plays), truth] & (rng.random(plays) < 1.0 / best.sum(1))
    pair = ComposedPair(case.schedule.composition(case.mechanism))
    # Who is told, or can tell from the others' batches, has no amplification against them.
    told = case.known or (case.replaced and not isinstance(case.schedule, FixedSize))
    ceiling = told_when(case.mechanism, case.schedule, took).at(n) if told else pair.success(1 / n)
    low = _low(int(won.sum()), plays, tail)
    out: dict[str, Any] = {
        "seed": seed,
        "mechanism": case.mechanism.name,
        "sampling": case.schedule.sampling,
        "full": isinstance(case.schedule, Poisson) and case.schedule.rate == 1.0,
        "known": case.known,
        "candidates": n,
        "rate": round(float(won.mean()), 4),
        "low": round(low, 4),
        "bound": round(ceiling, 6),
        "violated": low > ceiling,
    }
    if not told:
        out |= _claim(case, pair, n, rng, fault, tail)
    return out


def _claim(
    case: Case, pair: ComposedPair, n: int, rng: np.random.Generator, fault: float, tail: float
) -> dict[str, Any]:
    """A test for the first candidate: its power beside the bound at its own rate of errors."""
    plays, other = case.plays, 1 if case.replaced else -1

    def ratios(record: int) -> Array:
        scores, _ = play(case, np.full(plays, record), rng, fault)
        out: Array = scores[:, 0] - (scores[:, 1] if case.replaced else 0.0)
        return out

    with_it, without = ratios(0), ratios(other)
    # The threshold is chosen on half of the runs without the record, and judged on the others.
    threshold = np.quantile(without[: plays // 2], 1.0 - 1.0 / n)
    wrong = int((without[plays // 2 :] > threshold).sum())
    level = 1.0 - _low(plays - plays // 2 - wrong, plays - plays // 2, 0.5 * tail)
    right = int((with_it > threshold).sum())
    low, bound = _low(right, plays, 0.5 * tail), pair.success(min(max(level, 1e-9), 1.0 - 1e-9))
    return {
        "claim": {
            "rate": round(right / plays, 4),
            "low": round(low, 4),
            "level": round(wrong / (plays - plays // 2), 4),
            "bound": round(bound, 6),
            "violated": low > bound,
        }
    }


def _low(right: int, trials: int, tail: float) -> float:
    """Clopper and Pearson's lower limit."""
    return 0.0 if right == 0 else float(beta.ppf(tail, right, trials - right + 1))


def violations(found: list[dict[str, Any]]) -> list[int]:
    """Seeds of the cases in which a bound was exceeded."""
    return [
        case["seed"]
        for case in found
        if case["violated"] or case.get("claim", {}).get("violated", False)
    ]


def _judged(given: tuple[int, int, int, float]) -> dict[str, Any]:
    return judged(*given)


def main() -> int:
    """Plays what is missing; exit code 1 where a bound was exceeded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", type=int, default=1000)
    parser.add_argument("--plays", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--fault", type=float, default=1.0, help="scales the noise, not the claim")
    parser.add_argument("--out", default="results/games.json")
    given = parser.parse_args()
    out = Path(given.out)
    options = {"games": given.games, "plays": given.plays, "fault": given.fault}
    body: dict[str, Any] = json.loads(out.read_text()) if out.is_file() else {}
    if body.get("options") != options:
        body = {"options": options, "cases": []}
    there = {case["seed"] for case in body["cases"]}
    tasks = [
        (seed, given.plays, given.games, given.fault)
        for seed in range(given.games)
        if seed not in there
    ]
    with ProcessPoolExecutor(given.workers) as workers:
        for done, case in enumerate(workers.map(_judged, tasks), 1):
            body["cases"].append(case)
            if done % 25 == 0 or done == len(tasks):
                _write(out, body)
                print(f"{len(body['cases'])} of {given.games}", flush=True)
    wrong = violations(body["cases"])
    print(
        f"{len(wrong)} violations in {len(body['cases'])} cases" + (f": {wrong}" if wrong else "")
    )
    return 1 if wrong else 0


def _write(out: Path, body: dict[str, Any]) -> None:
    body["cases"].sort(key=lambda case: case["seed"])
    body["command"] = "python -m benchmarks.games"
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    body["commit"] = commit.stdout.strip() or "unknown"
    body["violations"] = violations(body["cases"])
    cases = ",\n ".join(json.dumps(case) for case in body["cases"])
    head = {key: value for key, value in body.items() if key != "cases"}
    text = json.dumps(head, indent=1)[:-2] + f',\n "cases": [\n {cases}\n ]\n}}\n'
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text)


if __name__ == "__main__":
    raise SystemExit(main())
