"""The identification game over whole trainings, beside the bound that no attacker can exceed.

Trains with the engine, as a person would, and plays one game for each of some targets: an intruder
who knows all other records and sees every release picks the target out of n candidates. Writes the
success rates with intervals over runs, the reconstruction bound of the same account, and both for
an intruder who is told when the target took part.

    python -m benchmarks.identification --out results/identification.json

Minutes on a GPU; about a minute a run on one core.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from recondite.accounting import Composition, RandomAllocation
from recondite.attacks.identification import IdentificationGame, identified
from recondite.gradients.clipping import bound_rule
from recondite.leakage.rero import rero
from recondite.mechanisms import Gaussian, Mechanism, Neighbouring, VonMisesFisher
from recondite.models import resolve
from recondite.records import load
from recondite.training import PrivacyEngine
from recondite.training.record import machine

CANDIDATES = (10, 100, 1000)
_SCALE = ((0.1307,), (0.3081,))  # the published mean and standard deviation of MNIST
SETTINGS: dict[str, tuple[Mechanism, str]] = {
    "gaussian-0.1": (Gaussian(0.1), "poisson"),
    "gaussian-0.5": (Gaussian(0.5), "poisson"),
    "gaussian-1.23": (Gaussian(1.23), "poisson"),
    "gaussian-1.23-allocation": (Gaussian(1.23), "allocation"),
    "vmf-500": (VonMisesFisher(500.0), "poisson"),
    "vmf-5000": (VonMisesFisher(5000.0), "poisson"),
    "vmf-20000": (VonMisesFisher(20_000.0), "poisson"),
}


def play(
    mechanism: Mechanism, sampling: str, seed: int, given: argparse.Namespace
) -> dict[str, Any]:
    """One training and its games."""
    device, rng = torch.device(given.device), np.random.default_rng(seed)
    train, test = (
        load("mnist-5k", part, prepare="crop16").normalised(*_SCALE) for part in ("train", "test")
    )
    chosen = rng.permutation(len(train))[: given.records]
    x, y = train.images[chosen].to(device), train.labels[chosen].to(device)
    pool = rng.permutation(len(test))[: given.pool]
    others = (test.images[pool].to(device), test.labels[pool].to(device))
    model = resolve("mlp", train.shape, 10, norm="group", seed=seed).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=given.lr, weight_decay=0.0)
    engine = PrivacyEngine(seed=seed)
    _, _, loader = engine.make_private(
        module=model,
        optimizer=optimizer,
        data_loader=DataLoader(TensorDataset(x, y), batch_size=given.batch_size),
        mechanism=mechanism,
        sampling=sampling,
    )
    targets = rng.permutation(given.records)[: given.targets].tolist()
    game = IdentificationGame(
        model, engine.mechanism, engine.units, bound_rule("flat", 1.0, 0),
        targets=targets, target_records=(x[targets], y[targets]), pool=others,
        participation=sampling, rate=given.batch_size / given.records, batches=loader.batches,
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
        "secret": game.secret.tolist(),
        "known": game.known.tolist(),
        "took_part": game.taken_part.tolist(),
        "schedule": engine.schedule().to_dict(),
    }


def bounds(mechanism: Mechanism, schedule: Any, took_part: list[int]) -> dict[str, Any]:
    """The bounds of both intruders at every number of candidates.

    Where participation is known there is no amplification: so many unsampled releases as a target
    took part in, averaged over the targets.
    """
    law = mechanism.loss(Neighbouring.ADD_OR_REMOVE)
    out: dict[str, Any] = {"secret": {}, "known": {}}
    whole = schedule.composition(mechanism)
    counts, weights = np.unique(took_part, return_counts=True)
    for n in CANDIDATES:
        out["secret"][str(n)] = rero(whole, 1 / n)
        each = [rero(Composition.of([(law, int(k))]), 1 / n) for k in counts]
        out["known"][str(n)] = float(np.average(each, weights=weights))
    return out


def summary(name: str, runs: list[dict[str, Any]], given: argparse.Namespace) -> dict[str, Any]:
    """Rates, intervals and bounds of one setting."""
    from recondite.accounting import Poisson

    mechanism, sampling = SETTINGS[name]
    sized = mechanism.with_dim(given.dim)
    steps = runs[0]["schedule"]["steps"]
    schedule: Any = Poisson(given.batch_size / given.records, steps)
    if sampling == "allocation":
        schedule = RandomAllocation(runs[0]["schedule"]["batches"], given.epochs)
    took = [count for run in runs for count in run["took_part"]]
    found = {
        kind: {
            str(n): identified([np.array(run[kind]) for run in runs], n).to_dict()
            for n in CANDIDATES
            if n <= 1 + given.pool
        }
        for kind in ("secret", "known")
    }
    return {
        "accuracy": float(np.mean([run["accuracy"] for run in runs])),
        "participations": float(np.mean(took)),
        "neighbouring": schedule.neighbouring(sized).value,
        "schedule": schedule.to_dict(),
        "success": found,
        "bound": bounds(sized, schedule, took),
    }


def main() -> None:
    """Plays what is missing, writes everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="results/identification.json")
    parser.add_argument("--only", nargs="*", choices=tuple(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--runs", type=int, default=12)
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
    out, started = Path(given.out), time.perf_counter()
    body: dict[str, Any] = {"settings": {}}
    for name in given.only:
        mechanism, sampling = SETTINGS[name]
        runs = []
        for seed in range(given.runs):
            runs.append(play(mechanism, sampling, seed, given))
            print(f"{name} run {seed}: {time.perf_counter() - started:.0f} s", flush=True)
        body["settings"][name] = summary(name, runs, given)
        found, bound = body["settings"][name]["success"], body["settings"][name]["bound"]
        for n in found["secret"]:
            secret, known = found["secret"][n], found["known"][n]
            seen = f"{secret['rate']:.3f} ({secret['low']:.3f}-{secret['high']:.3f})"
            told = f"told {known['rate']:.3f}, bound {bound['known'][n]:.3f}"
            print(f"  1 of {n}: {seen}, bound {bound['secret'][n]:.3f}; {told}", flush=True)
        body |= {
            "command": "python -m benchmarks.identification",
            "options": {k: v for k, v in vars(given).items() if k not in ("out", "only", "dim")},
            "commit": _commit(),
            "machine": machine(),
            "seconds": round(time.perf_counter() - started, 1),
        }
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(body, indent=1) + "\n")


def _commit() -> str:
    found = subprocess.run(
        ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "unknown"


if __name__ == "__main__":
    main()
