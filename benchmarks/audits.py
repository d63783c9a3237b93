"""Randomised audits of the engine, end to end: does a step leak no more than is accounted?

Every case draws a mechanism, a clipping rule, a sampling, physical pieces, a precision, parameter
groups and batch sizes (empty and full batches among them), makes a small model private with
``PrivacyEngine.make_private``, and runs the ordinary training loop on its loader: once with a
canary whose gradient is clipped, once with a record in its place that weighs nothing (or the
opposite, for replace-one). Three things are compared with what the engine claims:

- ε that the releases show, whatever the code does, with the ε of one step (or one epoch);
- how far the canary moves a release, in standard deviations of its noise, with what is allowed;
- who took part in which batch, with the sampling that is accounted.

All at 99.9% confidence over all cases together. Planted faults (noise × 0.7, clipping norm × 1.5,
sampling told wrongly) must all be detected.

    python -m benchmarks.audits --cases 1000 --workers 16 --out results/audits.json

Some seconds a case on one core. It goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from scipy.special import logsumexp
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.provenance import provenance
from recondite.accounting import epsilon
from recondite.accounting.auditing import epsilon_lower_bound
from recondite.checking.claim import allowed
from recondite.checking.displacement import displacement
from recondite.checking.sampling import TESTS, contradictions
from recondite.gradients.collector import Collector
from recondite.mechanisms import (
    Gaussian,
    Mechanism,
    Neighbouring,
    PartitionedVonMisesFisher,
    VonMisesFisher,
)
from recondite.training import PrivacyEngine, PrivateLoader

FAULTS = ("noise x 0.7", "clipping norm x 1.5", "sampling told wrongly")
MECHANISMS: dict[str, Any] = {
    "gaussian": Gaussian,
    "vmf": VonMisesFisher,
    "partitioned": PartitionedVonMisesFisher,
}
SAMPLINGS = ("poisson", "allocation", "fixed-size", "shuffled")
CLIPPINGS = ("flat", "per-layer", "automatic", "psac", "scale")
DELTA = 0.02
_CANARY, _OTHER = 50.0, 1e-3  # gradients in units of the clipping norm
_LENGTHENING = ("scale", "automatic")  # clipping that makes short gradients longer
_TILT = 1e-3  # by which the others then point away from the canary
_SLACK = 1.005  # of what is allowed: rounding of float32 and of the accountant
_MOST = 4000  # steps of a data set


@dataclass(frozen=True)
class Case:
    """What is drawn.

    Attributes:
      seed: Of everything else.
      mechanism: Its name.
      strength: Of its noise.
      clipping: The rule.
      norm: The clipping norm.
      sampling: How batches are drawn.
      records: Number of records.
      batch_size: The expected one.
      piece: Largest physical batch, if there is one.
      double: Whether in double precision.
      sizes: Inputs of each layer of the model.
      groups: Parameter groups of the optimizer.
      frozen: Whether a layer is frozen.
      reduction: Of the loss.
      fault: What is planted, if anything.
    """

    seed: int
    mechanism: str
    strength: float
    clipping: str
    norm: float
    sampling: str
    records: int
    batch_size: int
    piece: int | None
    double: bool
    sizes: tuple[int, ...]
    groups: int
    frozen: bool
    reduction: str
    fault: str | None = None


def draw(seed: int, fault: str | None = None) -> Case:
    """A case; one with a fault has a setting in which that fault costs privacy."""
    rng = random.Random(seed)
    mechanism = rng.choice(list(MECHANISMS))
    sampling = rng.choice(SAMPLINGS)
    records = rng.randint(2, 12)
    # Batches from often empty (a single expected record) to always full.
    batch_size = rng.choice([1, max(1, records // 2), records])
    if fault == FAULTS[0]:
        sampling, batch_size = "poisson", records
    if fault == FAULTS[1]:
        mechanism, sampling, batch_size = "gaussian", "poisson", records
    if fault == FAULTS[2]:
        sampling, records, batch_size = rng.choice(["poisson", "allocation"]), 12, 4
    # Two blocks of a direction need four coordinates.
    sizes = (rng.randint(4, 6), *(rng.randint(2, 6) for _ in range(rng.randint(0, 2))))
    strength = rng.uniform(0.6, 1.4) if mechanism == "gaussian" else rng.uniform(1.0, 4.0)
    case = Case(
        seed=seed,
        mechanism=mechanism,
        strength=round(strength, 3),
        clipping=rng.choice(CLIPPINGS),
        norm=rng.choice([0.1, 1.0, 3.0]),
        sampling=sampling,
        records=records,
        batch_size=batch_size,
        piece=rng.choice([None, 1, 3]),
        double=rng.random() < 0.5,
        sizes=sizes,
        groups=rng.randint(1, len(sizes)),
        frozen=rng.random() < 0.3,
        reduction=rng.choice(["sum", "mean"]),
        fault=fault,
    )
    if fault == FAULTS[0] and mechanism != "gaussian" and case.clipping in _LENGTHENING:
        # One other record, made as long as the canary, hides half of what it turns; two need not.
        records = max(3, records)
        case = replace(case, records=records, batch_size=records)
    return case


class Rows(nn.Module):
    """A model whose gradients are its inputs, one part a layer."""

    def __init__(self, sizes: tuple[int, ...], frozen: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(size, 1, bias=False) for size in sizes])
        self.last = nn.Linear(1, 1, bias=False)
        if frozen:
            self.last.requires_grad_(False)
            nn.init.ones_(self.last.weight)
        self.frozen, self.sizes = frozen, sizes

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """The sum of the layers' outputs."""
        parts = torch.split(inputs, self.sizes, 1)
        total = sum(layer(part) for layer, part in zip(self.layers, parts, strict=True))
        out: torch.Tensor = self.last(total) if self.frozen else total
        return out


def gradients(case: Case, sign: float, direction: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """One row a record, the canary's first, in units of the clipping norm.

    The others' sum is short and points away from the canary, so that it turns the sum around. Where
    clipping makes them as long as the canary, and all are in every batch, they stand all around it
    and cancel out but for a tilt.
    """
    rows = np.outer(np.full(case.records, -_OTHER), direction)
    count = case.records - 1
    if count > 1 and case.batch_size == case.records and case.clipping in _LENGTHENING:
        across = np.linalg.qr(np.column_stack([direction, np.eye(len(direction))[:, :2]]))[0]
        turn = 2 * np.pi * np.arange(count) / count
        around = np.column_stack([np.cos(turn), np.sin(turn)]) @ across[:, 1:].T
        rows[1:] = _OTHER * (around - _TILT * direction)
    rows[0] = sign * _CANARY * direction
    return rows


def private(case: Case, sign: float, seed: int) -> tuple[PrivacyEngine, Rows, Any, Any, Any]:
    """The engine and what it made, for a data set whose canary has ``sign`` times a direction."""
    dtype = torch.float64 if case.double else torch.float32
    dim = sum(case.sizes)
    direction = np.linspace(1.0, 2.0, dim)
    direction /= np.linalg.norm(direction)
    data = torch.from_numpy(case.norm * gradients(case, sign, direction)).to(dtype)
    torch.manual_seed(seed)
    model = Rows(case.sizes, case.frozen).to(dtype)
    if not case.frozen:
        del model.last
    layers = [list(layer.parameters()) for layer in model.layers]
    first, rest = layers[: case.groups - 1], layers[case.groups - 1 :]
    groups = [*first, [p for one in rest for p in one]]
    optimizer = torch.optim.SGD(
        [{"params": group, "lr": 1e-3 * (i + 1)} for i, group in enumerate(groups)], lr=1e-3
    )
    options: dict[str, Any] = {"blocks": 2} if case.mechanism == "partitioned" else {}
    mechanism: Mechanism = MECHANISMS[case.mechanism](case.strength, **options)
    engine = PrivacyEngine(seed=seed)
    made = engine.make_private(
        module=model,
        optimizer=optimizer,
        data_loader=DataLoader(TensorDataset(data), batch_size=case.batch_size),
        mechanism=mechanism,
        max_grad_norm=case.norm,
        clipping=case.clipping,
        sampling=case.sampling,
        physical_batch_size=case.piece,
        loss_reduction=case.reduction,
    )
    return (engine, *made, direction)


@dataclass
class Seen:
    """What a training showed.

    Attributes:
      scores: Of every step: the release along the canary's direction.
      joined: Whether the canary's place took part in the step.
      passes: Places of records, by pass and batch.
      empty: Empty batches.
    """

    scores: np.ndarray[Any, Any]
    joined: np.ndarray[Any, Any]
    passes: list[list[list[int]]]
    empty: int


def train(case: Case, sign: float, seed: int, steps: int) -> tuple[PrivacyEngine, Seen]:
    """The training loop that a person writes, and what it released, in the mechanism's units."""
    engine, model, optimizer, loader, direction = private(case, sign, seed)
    parameters = [p for p in model.parameters() if p.requires_grad]
    reduce = torch.sum if case.reduction == "sum" else torch.mean
    releases, joined, passes = [], [], []
    while len(releases) < steps:
        passes.append([])
        batch: list[int] = []
        for (inputs,) in loader:
            optimizer.zero_grad()
            reduce(model(inputs)).backward()
            optimizer.step()
            batch += loader.draw.records
            if not loader.draw.last:
                continue
            releases.append(torch.cat([p.grad.reshape(-1) for p in parameters]).double().numpy())
            joined.append(0 in batch)
            passes[-1].append(batch)
            batch = []
    seen = engine.units.observed(np.stack(releases), engine.mechanism)
    empty = sum(not batch for one in passes for batch in one)
    return engine, Seen(seen @ direction, np.array(joined), passes, empty)


@contextmanager
def planted(case: Case) -> Iterator[None]:
    """The fault of a case, while it lasts."""
    kind = MECHANISMS[case.mechanism]
    release, summed = kind.release, Collector.bounded_sum

    def less_noise(self: Any, gradient: Any, generator: Any = None) -> Any:
        factor = 0.7 if kind.weaker == "smaller" else 1 / 0.7
        return release(self.with_strength(factor * self.strength), gradient, generator)

    def longer(self: Any, *given: Any, **options: Any) -> Any:
        return 1.5 * summed(self, *given, **options)

    def cut(self: Any) -> Any:
        order = self.generator.permutation(self.records)
        return iter(np.split(order, range(self.batch_size, self.records, self.batch_size)))

    faults = {
        None: (),
        FAULTS[0]: (mock.patch.object(kind, "release", less_noise),),
        FAULTS[1]: (mock.patch.object(Collector, "bounded_sum", longer),),
        FAULTS[2]: (mock.patch.object(PrivateLoader, "_batches", cut),),
    }[case.fault]
    for fault in faults:
        fault.start()
    try:
        yield
    finally:
        for fault in faults:
            fault.stop()


def audit(case: Case, releases: int, miss: float) -> dict[str, Any]:
    """One case: what was shown against what is claimed.

    Args:
      case: The case.
      releases: Releases with the canary, and as many without, of the second comparison.
      miss: Probability of each case to be contradicted by chance, over its three comparisons.
    """
    torch.set_num_threads(1)
    # A fault must show for certain, at the confidence of all cases together.
    wanted = releases if case.fault is None else 4 * releases
    steps = min(max(wanted, _MOST), -(-wanted * case.records // case.batch_size))
    seeds = np.random.SeedSequence(case.seed).generate_state(2).tolist()
    with planted(case):
        engine, present = train(case, 1.0, seeds[0], steps)
        made = engine.mechanism
        replaced = engine.schedule(1).neighbouring(made) is Neighbouring.REPLACE
        _, absent = train(case, -1.0 if replaced else 0.0, seeds[1], steps)
    run = engine.loader.batches if engine.loader.whole_epochs else 1
    claim = epsilon(made, engine.loader.schedule(run, 1), DELTA)
    each = [_runs(seen.scores, run) for seen in (present, absent)]
    shown = epsilon_lower_bound(each[0], each[1], DELTA, 1 - miss / 3).epsilon
    limit = allowed(made, 2 if replaced else 1, np.random.default_rng(case.seed))
    moved = displacement(present.scores[present.joined], absent.scores[absent.joined], miss / 3)
    found = contradictions(
        engine.loader.schedule(len(present.scores), len(present.passes)),
        present.passes,
        case.records,
        miss / 3 / TESTS,
    )
    violated = [
        name
        for name, wrong in (
            ("game", shown > claim),
            ("displacement", moved.low > _SLACK * limit),
            ("sampling", bool(found)),
        )
        if wrong
    ]
    return {
        **asdict(case),
        "steps": len(present.scores),
        "empty": present.empty,
        "claim": round(claim, 4),
        "shown": round(shown, 4),
        "allowed": round(limit, 4),
        "moved": round(moved.estimate, 4),
        "moved_low": round(moved.low, 4),
        "violated": violated,
    }


def _runs(scores: np.ndarray[Any, Any], run: int) -> np.ndarray[Any, Any]:
    """One score a run: where a run has several steps, one of them holds the record."""
    whole = scores[: len(scores) // run * run].reshape(-1, run)
    return whole[:, 0] if run == 1 else logsumexp(whole / whole.std(), axis=1)


def cases(count: int, faults: int) -> list[Case]:
    """So many right cases, and so many with each fault."""
    found = [draw(seed) for seed in range(count)]
    for seed in range(faults):  # in turn, so that a run that is stopped has tried all kinds
        found += [draw(10**6 * (i + 1) + seed, fault) for i, fault in enumerate(FAULTS)]
    return found


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts: violations of right cases, and faults detected."""
    right = [row for row in rows if row["fault"] is None]
    return {
        "cases": len(right),
        "violations": sum(bool(row["violated"]) for row in right),
        "steps": sum(2 * row["steps"] for row in rows),
        "with_empty_batches": sum(row["empty"] > 0 for row in right),
        "with_full_batches": sum(row["batch_size"] == row["records"] for row in right),
        "by": {
            key: dict(sorted(Counter(str(row[key]) for row in right).items()))
            for key in ("mechanism", "clipping", "sampling", "piece", "double", "groups")
        },
        "median_shown_of_claim": float(np.median([r["shown"] / r["claim"] for r in right] or [0])),
        "median_moved_of_allowed": float(
            np.median([r["moved"] / r["allowed"] for r in right] or [0])
        ),
        "faults": {
            fault: {
                "cases": sum(row["fault"] == fault for row in rows),
                "detected": sum(row["fault"] == fault and bool(row["violated"]) for row in rows),
            }
            for fault in FAULTS
        },
    }


def _known(out: Path, options: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of an earlier, equal run."""
    if not out.exists():
        return []
    body = json.loads(out.read_text(encoding="utf-8"))
    return list(body["rows"]) if body.get("options") == options else []


def _runs_before(out: Path, rows: int) -> list[dict[str, Any]]:
    """Where the rows of earlier runs come from."""
    if not rows:
        return []
    body = json.loads(out.read_text(encoding="utf-8"))
    return list(body.get("runs") or [body["provenance"] | {"rows": rows}])


def _write(
    out: Path, options: dict[str, Any], rows: list[dict[str, Any]], runs: list[dict[str, Any]]
) -> None:
    body = {"summary": summary(rows), "options": options, "runs": runs}
    # One row a line: a thousand of them are read, and compared, by line.
    lines = ",\n".join(json.dumps(row) for row in sorted(rows, key=lambda row: int(row["seed"])))
    text = json.dumps(body, indent=1)[:-2] + f',\n "rows": [\n{lines}\n]\n}}\n'
    out.parent.mkdir(parents=True, exist_ok=True)
    unfinished = out.with_suffix(".tmp")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(out)


def main() -> int:
    """Audits what is missing, writes everything; exit code 1 where something is not as it must."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="results/audits.json")
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--faults", type=int, default=20, help="cases with each fault")
    parser.add_argument("--releases", type=int, default=500)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    out, started = Path(given.out), time.perf_counter()
    todo = cases(given.cases, given.faults)
    options = {"cases": given.cases, "faults": given.faults, "releases": given.releases}
    options |= {"confidence": 0.999, "delta": DELTA}
    rows = _known(out, options)
    runs, origin = _runs_before(out, len(rows)), provenance()
    done = {row["seed"] for row in rows}
    miss = 1e-3 / len(todo)

    def write() -> None:
        new = len(rows) - len(done)
        this = {"command": "python -m benchmarks.audits", "rows": new}
        seconds = round(time.perf_counter() - started, 1)
        _write(out, options, rows, [*runs, origin | this | {"seconds": seconds}] if new else runs)

    with ProcessPoolExecutor(given.workers) as pool:
        waiting = [
            pool.submit(audit, case, given.releases, miss) for case in todo if case.seed not in done
        ]
        for count, future in enumerate(as_completed(waiting), 1):
            rows.append(future.result())
            if count % 3 == 0:
                write()
                print(
                    f"{len(rows)} of {len(todo)}: {time.perf_counter() - started:.0f} s", flush=True
                )
    write()
    found = summary(rows)
    print(json.dumps(found, indent=1))
    missed = sum(fault["cases"] - fault["detected"] for fault in found["faults"].values())
    return 1 if found["violations"] or missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
