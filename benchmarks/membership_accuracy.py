"""How well membership attacks do on an over-fitted model of CIFAR-10, and on one that saw nothing.

``python -m benchmarks.membership_accuracy results/membership-cifar10.json --data-dir DIR``; minutes
on a CPU. Each record enters the training set by its own fair coin, so the lower bounds on ε hold.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.provenance import provenance
from recondite.attacks.membership import (
    Lira,
    Recipe,
    Reference,
    Rmia,
    Threshold,
    WhiteBox,
    train_references,
)
from recondite.models import build
from recondite.records import ImageSet, load
from recondite.training.record import machine

_RECIPES = {
    # Faustini et al. (2023), Table 1, for MIA-R, with batches for fewer records: theirs are 256
    # for the perceptron; 8, with a rate of 0.01, for LeNet.
    "mlp2": Recipe(25, 64, "adam", 1e-3),
    "lenet": Recipe(60, 64, "adam", 1e-3),
}
_KEPT = (
    "auc",
    "auc_low",
    "auc_high",
    "auc_standard_error",
    "tpr_at_0.001",
    "tpr_at_0.01",
    "tpr_at_0.01_low",
    "tpr_at_0.01_high",
    "epsilon_lower",
    "epsilon_lower_delta",
    "epsilon_lower_confidence",
    "epsilon_lower_holds",
    "epsilon_lower_how",
    "members",
    "nonmembers",
    "seconds",
    "notes",
)


def _accuracy(model: torch.nn.Module, data: ImageSet, device: str) -> float:
    with torch.no_grad():
        return float((model(data.images.to(device)).argmax(1).cpu() == data.labels).float().mean())


def _rows(name: str, data: ImageSet, options: argparse.Namespace) -> list[dict[str, Any]]:
    recipe, device, seed = _RECIPES[name], options.device, options.seed
    generator = np.random.default_rng(seed)
    order, n = generator.permutation(len(data)), options.records
    coins = generator.random(n) < 0.5
    members, others = data.subset(order[:n][coins]), data.subset(order[:n][~coins])
    population = data.subset(order[n : 2 * n])
    unseen = data.subset(order[2 * n : 2 * n + n // 2])

    def make() -> torch.nn.Module:
        width = {"hidden": options.hidden} if name == "mlp2" else {}
        return build(name, data.shape, len(data.classes), **width)

    def train(records: ImageSet, at: int) -> torch.nn.Module:
        size = len(records)
        models = train_references(
            make, *records.tensors, 1, recipe, size=size, seed=at, device=device
        ).models
        return models[0]

    start = time.perf_counter()
    references = train_references(
        make, *population.tensors, options.references, recipe, seed=seed + 1, device=device
    )
    shadows = None
    seconds = time.perf_counter() - start
    rows = []
    for victim, model in (
        ("over-fitted", train(members, seed + 2)),
        ("saw neither set", train(unseen, seed + 3)),
    ):
        offline = {"references": references}
        pool = (
            torch.cat([members.images, others.images]),
            torch.cat([members.labels, others.labels]),
        )
        shadows = shadows or train_references(
            make, *pool, options.references, recipe, seed=seed + 4, device=device
        )
        for label, attack, given in (
            ("loss threshold", Threshold(), {}),
            ("reference models (MIA-R)", Reference(options.references), offline),
            ("LiRA offline", Lira(options.references, online=False), offline),
            ("LiRA online", Lira(options.references), {"references": shadows}),
            ("RMIA", Rmia(options.references), offline),
            ("white box", WhiteBox(), {}),
        ):
            result = attack.infer(model, members, others, inclusion="coin", seed=seed, **given)
            found = result.to_dict()
            row = {
                "model": name,
                "victim": victim,
                "attack": label,
                "train_accuracy": _accuracy(model, members, device),
                "test_accuracy": _accuracy(model, others, device),
                **{key: found[key] for key in _KEPT},
            }
            rows.append(row)
            print(
                f"{name:6} {victim:16} {label:26} AUC {row['auc']:.3f} "
                f"[{row['auc_low']:.3f}, {row['auc_high']:.3f}]  TPR at 1% {row['tpr_at_0.01']:.3f}"
                f"  ε ≥ {row['epsilon_lower']:.2f}",
                flush=True,
            )
    for row in rows:
        row["references_seconds"] = seconds
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data-dir")
    parser.add_argument("--models", nargs="+", default=["mlp2"], choices=list(_RECIPES))
    parser.add_argument("--records", type=int, default=2_000, help="records with a coin")
    parser.add_argument("--references", type=int, default=8)
    parser.add_argument("--hidden", type=int, default=256, help="units of mlp2")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    data = load("cifar10", "train", directory=options.data_dir)
    data = data.normalised((0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616))
    rows = [row for name in options.models for row in _rows(name, data, options)]
    shown = ["python -m benchmarks.membership_accuracy OUT --data-dir DIR --models"]
    shown += [*options.models, "--records", str(options.records)]
    shown += ["--references", str(options.references), "--hidden", str(options.hidden)]
    shown += ["--seed", str(options.seed)]
    record = {
        **{key: value for key, value in provenance().items() if key in ("commit", "date")},
        "source_digest": provenance()["source_digest"],
        "uncommitted_changes": provenance()["uncommitted_changes"],
        "command": " ".join([*shown, "--device", options.device]),
        "machine": machine(),
        "seed": options.seed,
        "data": data.summary() | {"source": "data directory"},
        "paper": "Faustini et al. (2023), Table 3, CIFAR-10, no defence: LeNet 78.5, MLP 82.0",
        "rows": rows,
    }
    options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
