"""The identification game over whole trainings, beside the bound that no attacker can exceed.

Trains with the engine, as a person would, and plays one game for each of some targets: an intruder
who knows all other records and sees every release picks the target out of n candidates. Writes the
success rates with intervals over runs, the reconstruction bound of the same account, and both for
an intruder who is told when the target took part.

    python -m benchmarks.identification --only gaussian-1.23-mislabelled --runs 50 --targets 50

Adds its settings to what --out holds, each with the options it was made with. About ten seconds a
run on one core. With --first 1000 the seeds begin there, and what is found is kept beside the
table, under "again". With --antipodal: one release of von Mises-Fisher noise at its worst case.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import binomtest
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from recondite.accounting import Poisson, RandomAllocation
from recondite.attacks.identification import IdentificationGame, identified
from recondite.attacks.identification.bounds import of_run, told_when
from recondite.mechanisms import Gaussian, Mechanism, VonMisesFisher
from recondite.metrics.identification import (
    Identified,
    chances_one_a_label,
    summarised,
)
from recondite.models import resolve
from recondite.notions.pairs import ComposedPair
from recondite.records import load
from recondite.training import PrivacyEngine
from recondite.training.record import machine

CANDIDATES = (10, 100, 1000)
_SCALE = ((0.1307,), (0.3081,))  # the published mean and standard deviation of MNIST


@dataclass(frozen=True)
class Setting:
    """One row: the mechanism, how batches are drawn, and whose labels are wrong.

    With ``mislabelled`` targets and pool alike have a label drawn from the nine wrong ones: their
    gradients stay long and differ, where those of digits with their own label agree at first and
    shrink later. ``slow`` has a tenth of the learning rate: gradients stay long anyway.
    """

    mechanism: Mechanism
    sampling: str = "poisson"
    mislabelled: bool = False
    slow: bool = False


SETTINGS: dict[str, Setting] = {
    "gaussian-0.1": Setting(Gaussian(0.1)),
    "gaussian-0.5": Setting(Gaussian(0.5)),
    "gaussian-1.23": Setting(Gaussian(1.23)),
    "gaussian-1.23-allocation": Setting(Gaussian(1.23), "allocation"),
    "gaussian-1.23-mislabelled": Setting(Gaussian(1.23), mislabelled=True),
    "gaussian-1.23-allocation-mislabelled": Setting(Gaussian(1.23), "allocation", True),
    "gaussian-1.23-slow": Setting(Gaussian(1.23), slow=True),
    "gaussian-1.23-allocation-slow": Setting(Gaussian(1.23), "allocation", slow=True),
    "vmf-500": Setting(VonMisesFisher(500.0)),
    "vmf-5000": Setting(VonMisesFisher(5000.0)),
    "vmf-20000": Setting(VonMisesFisher(20_000.0)),
}


def play(setting: Setting, seed: int, given: argparse.Namespace) -> dict[str, Any]:
    """One training and its games."""
    device, rng = torch.device(given.device), np.random.default_rng(seed)
    train, test = (
        load("mnist-5k", part, prepare="crop16").normalised(*_SCALE) for part in ("train", "test")
    )
    chosen = rng.permutation(len(train))[: given.records]
    x, y = train.images[chosen].to(device), train.labels[chosen].to(device)
    pool = rng.permutation(len(test))[: given.pool]
    others = [test.images[pool].to(device), test.labels[pool].to(device)]
    targets = rng.permutation(given.records)[: given.targets].tolist()
    if setting.mislabelled:
        y[targets] = (y[targets] + torch.as_tensor(rng.integers(1, 10, len(targets)))) % 10
        others[1] = (others[1] + torch.as_tensor(rng.integers(1, 10, len(pool)))) % 10
    model = resolve("mlp", train.shape, 10, norm="group", seed=seed).to(device).train()
    rate = 0.1 * given.lr if setting.slow else given.lr
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
    engine = PrivacyEngine(seed=seed)
    _, _, loader = engine.make_private(
        module=model,
        optimizer=optimizer,
        data_loader=DataLoader(TensorDataset(x, y), batch_size=given.batch_size),
        mechanism=setting.mechanism,
        sampling=setting.sampling,
    )
    game = IdentificationGame(
        model, engine.mechanism, engine.units, engine.bound,
        targets=targets, target_records=(x[targets], y[targets]), pool=(others[0], others[1]),
        schedule=loader.schedule(1),
    )  # fmt: skip
    engine.observe(game.watch)
    for _ in range(given.epochs):
        for inputs, labels in loader:
            optimizer.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
    engine.detach()
    with torch.no_grad():
        right = model.eval()(test.images.to(device)).argmax(1).cpu() == test.labels
    return {
        "seed": seed,
        "accuracy": float(right.float().mean()),
        "labels": (y[targets].cpu().numpy(), others[1].cpu().numpy()),
        "secret": game.secret,
        "known": game.known,
        "took_part": game.taken_part.tolist(),
        "steps": engine.steps,
        "batches": loader.batches,
    }


def antipodal(kappas: tuple[float, ...], games: int, dim: int) -> dict[str, Any]:
    """One release of a batch whose rest a record turns round: the pair that the account rests on.

    The rest of the batch is -g/2, so that the record with gradient g turns the sum from -g/2 to
    g/2. ``claim`` is how often one who may be wrong about a batch without the record once in n
    batches says rightly that it is there: the bound at 1/n is of exactly that. ``two`` is the game
    with two candidates whose sums are g/2 and -g/2, where nobody exceeds (1 + total variation)/2.
    ``ten`` is the game with ten candidates of orthogonal gradients in a batch of their own: what is
    left of the bound where no candidate is the other's antipode.
    """
    out: dict[str, Any] = {}
    for kappa in kappas:
        law = VonMisesFisher(kappa, dim=dim)
        pair = ComposedPair(Poisson(1.0, 1).composition(law))
        with_it = _cosines(law, games, 1)
        claims = {}
        for n in (10, 100, 1000):
            claims[str(n)] = {
                **_share(with_it > _threshold(law, 1.0 / n), n).to_dict(),
                "bound": pair.success(1.0 / n),
            }
        two = {
            **_share(with_it > 0, 2).to_dict(),
            "bound": 0.5 * (1.0 + pair.delta(0.0)),
            "rero": pair.success(0.5),
        }
        ten = {**_share(_ten(law, games), 10).to_dict(), "bound": pair.success(0.1)}
        out[f"vmf-{kappa:g}"] = {"claim": claims, "two": two, "ten": ten, "dim": dim}
    return out


def _threshold(law: VonMisesFisher, level: float) -> float:
    """The cosine with g that a release of -g exceeds with this probability, by quadrature."""
    dim, points = law.required_dim(), np.linspace(-1.0, 1.0, 2_000_001)[1:-1]
    logs = 0.5 * (dim - 3) * np.log1p(-(points**2)) - law.kappa * points
    weights = np.exp(logs - logs.max())
    return float(points[np.searchsorted(np.cumsum(weights) / weights.sum(), 1.0 - level)])


def _cosines(law: VonMisesFisher, games: int, seed: int) -> Any:
    """First coordinates of releases of a vector along the first axis, through the mechanism."""
    generator, found = np.random.default_rng(seed), []
    for start in range(0, games, 500):
        centre = np.zeros((min(500, games - start), law.required_dim()))
        centre[:, 0] = 0.5
        found.append(law.perturb(centre, generator)[:, 0])
    return np.concatenate(found)


def _ten(law: VonMisesFisher, games: int) -> Any:
    """Whether the first of ten axes has the largest coordinate."""
    generator, found = np.random.default_rng(3), []
    for start in range(0, games, 500):
        centre = np.zeros((min(500, games - start), law.required_dim()))
        centre[:, 0] = 1.0
        found.append(law.perturb(centre, generator)[:, :10].argmax(1) == 0)
    return np.concatenate(found)


def _share(won: Any, candidates: int) -> Identified:
    low, high = binomtest(int(won.sum()), len(won)).proportion_ci(0.95, "exact")
    return Identified(candidates, float(won.mean()), low, high, 0.95, len(won), len(won))


def summary(
    setting: Setting, runs: list[dict[str, Any]], given: argparse.Namespace
) -> dict[str, Any]:
    """Rates, intervals and bounds of one setting."""
    sized = setting.mechanism.with_dim(given.dim)
    schedule: Any = Poisson(given.batch_size / given.records, runs[0]["steps"])
    if setting.sampling == "allocation":
        schedule = RandomAllocation(runs[0]["batches"], given.epochs)
    took = np.array([count for run in runs for count in run["took_part"]])
    numbers = [n for n in CANDIDATES if n <= 1 + given.pool]
    ceilings = {"secret": of_run(sized, schedule), "known": told_when(sized, schedule, took)}
    return {
        "accuracy": float(np.mean([run["accuracy"] for run in runs])),
        "participations": float(np.mean(took)),
        "neighbouring": schedule.neighbouring(sized).value,
        "schedule": schedule.to_dict(),
        "mislabelled": setting.mislabelled,
        "slow": setting.slow,
        "success": {
            kind: {str(n): identified([run[kind] for run in runs], n).to_dict() for n in numbers}
            for kind in ceilings
        },
        # Ten candidates of ten labels: no two of them have nearly the same gradient.
        "one_a_label": {
            kind: summarised(
                [chances_one_a_label(run[kind], *run["labels"]) for run in runs], 10
            ).to_dict()
            for kind in ceilings
        },
        "bound": {kind: {str(n): top.at(n) for n in numbers} for kind, top in ceilings.items()},
    }


def main() -> None:
    """Plays what is asked for, and writes it beside what was played before."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="results/identification.json")
    parser.add_argument("--only", nargs="*", choices=tuple(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--antipodal", action="store_true", help="only the antipodal pair")
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--first", type=int, default=0, help="seed of the first run")
    parser.add_argument("--targets", type=int, default=200)
    parser.add_argument("--pool", type=int, default=999)
    parser.add_argument("--records", type=int, default=3602)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--lr", type=float, default=0.005)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    given = parser.parse_args()
    model = resolve("mlp", (1, 16, 16), 10, norm="group", seed=0)
    given.dim = sum(p.numel() for p in model.parameters())
    if given.antipodal:
        _write(given, "antipodal", antipodal((75.0, 150.0), 8000, given.dim), time.perf_counter())
        return
    for name in given.only:
        started, runs = time.perf_counter(), []
        for seed in range(given.first, given.first + given.runs):
            runs.append(play(SETTINGS[name], seed, given))
            print(f"{name} run {seed}: {time.perf_counter() - started:.0f} s", flush=True)
            if len(runs) % 5 == 0 or len(runs) == given.runs:
                found = summary(SETTINGS[name], runs, given)
                for ten in (found["success"]["secret"]["10"], found["one_a_label"]["secret"]):
                    interval = f"({ten['low']:.3f}-{ten['high']:.3f})"
                    print(f"  1 of 10: {ten['rate']:.3f} {interval}", flush=True)
                _write(given, name, found, started)


def _write(given: argparse.Namespace, name: str, found: dict[str, Any], started: float) -> None:
    """Adds one setting, with where it comes from."""
    out = Path(given.out)
    body = json.loads(out.read_text()) if out.is_file() else {"settings": {}}
    options = {k: v for k, v in vars(given).items() if k not in ("out", "only", "dim", "antipodal")}
    made = {
        "options": options,
        "commit": _commit(),
        "machine": machine(),
        "seconds": round(time.perf_counter() - started, 1),
    }
    if given.first:  # other seeds than those of the table: beside it
        body.setdefault("again", {})[name] = {**found, "made": made}
    elif name == "antipodal":
        body["antipodal"] = {"found": found, "made": {**made, "options": {}}}
    else:
        body["settings"][name] = {**found, "made": made}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(body, indent=1) + "\n")


def _commit() -> str:
    found = subprocess.run(
        ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "unknown"


if __name__ == "__main__":
    main()
