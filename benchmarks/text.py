"""Texts from gradients, and private fine-tuning with LoRA, on a pretrained encoder and reviews.

    python -m benchmarks.text inversion --model FOLDER --data reviews.csv#text,label
    python -m benchmarks.text lora --model FOLDER --data reviews.csv#text,label --records 2000

``inversion`` writes results/text-inversion.json: span-check on whole reviews one at a time, and on
batches of 4 texts cut to 64 tokens and of 16 cut to 16, without a defence. ``--case`` measures one
and keeps the others. ``lora`` writes results/text-lora.json: test accuracy of LoRA of rank 8 at
ε = 8, δ = 1/(10n), against none.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.provenance import provenance
from recondite.attacks.text.span_check import SpanCheck
from recondite.configuration import TrainingConfig
from recondite.gradients.leaked import leaked_gradients
from recondite.mechanisms import Gaussian, NoNoise, VonMisesFisher
from recondite.models import resolve
from recondite.records import load_records
from recondite.training.trainer import train

_RESULTS = Path(__file__).resolve().parent.parent / "results"
_WIDTH = 384  # tokens that a batch must have fewer of
# Victims, texts behind a gradient, and the tokens that texts are cut to.
CASES = {"batch 1, whole": (4, 1, 512), "batch 4, 64": (2, 4, 64), "batch 16, 16": (1, 16, 16)}


def main(arguments: list[str] | None = None) -> None:
    """Runs a part and writes its file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["inversion", "lora"])
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--records", type=int, default=2000)
    parser.add_argument("--case", choices=list(CASES), action="append")
    parser.add_argument("--rounds", type=int, default=24)
    given = parser.parse_args(arguments)
    if given.part == "lora":
        _write("text-lora.json", {"runs": _lora(given)})
        return
    path = _RESULTS / "text-inversion.json"
    held = json.loads(path.read_text(encoding="utf-8"))["cases"] if path.is_file() else {}
    for name in given.case or CASES:
        held[name] = {**_case(given, *CASES[name]), "measured": _measured("inversion")}
        _write(path.name, {"cases": held})


def _measured(part: str) -> dict[str, Any]:
    """Where the numbers come from, without the folders of this machine."""
    command = f"python -m benchmarks.text {part} --model FOLDER --data reviews.csv#text,label"
    return {**provenance(), "command": command}


def _write(name: str, content: dict[str, Any]) -> None:
    plain = {"schema_version": 1, **content}
    text = json.dumps(plain, indent=1, ensure_ascii=False) + "\n"
    (_RESULTS / name).write_text(text, encoding="utf-8")


def _case(given: argparse.Namespace, victims: int, batch: int, length: int) -> dict[str, Any]:
    name = f"hf:{given.model}"
    records = load_records(given.data, "test", model=name, truncate=length)
    model = resolve(name, records.shape, len(records.classes), seed=0).eval()
    order = torch.randperm(len(records), generator=torch.Generator().manual_seed(0))
    sizes = (records.features >= 0).sum(1)
    if batch == 1:  # whole ones only: none that were cut, none that no span has room for
        order = order[sizes[order] < _WIDTH]
    rows = []
    for place in range(victims):
        chosen = records.subset(order[place * batch : (place + 1) * batch])
        started = time.perf_counter()
        leaked = leaked_gradients(model, chosen.features[None], chosen.labels[None])
        gradients = {key: value[0] for key, value in leaked.items()}
        texts, sure = SpanCheck(rounds=given.rounds).rebuilt(
            model, gradients, records, batch_size=batch, seed=place
        )
        texts += [records.typical()] * (batch - len(texts))
        found = chosen.score(torch.stack(texts))
        public = records.subset(order[victims * batch :][:200]).without(chosen)
        blind = chosen.blind(public).scores
        rows.append(
            {
                "tokens_behind": int(sizes[order[place * batch : (place + 1) * batch]].sum()),
                "sure": sure,
                "seconds": round(time.perf_counter() - started, 1),
                **{key: round(found.mean(key), 4) for key in found.values},
                "blind": {key: round(blind.mean(key), 4) for key in blind.values},
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    mean = sum(row["tokens"] for row in rows) / len(rows)
    return {"batch_size": batch, "truncate": length, "tokens": round(mean, 4), "victims": rows}


def _lora(given: argparse.Namespace) -> list[dict[str, Any]]:
    runs = []
    for defence in (NoNoise(), Gaussian(1.0), VonMisesFisher(kappa=100.0)):
        private = bool(defence.parameter)
        config = TrainingConfig(
            given.data,
            f"hf:{given.model}",
            defence,
            adapter="lora:8",
            truncate=64,
            records=given.records,
            epochs=3,
            batch_size=128,
            learning_rate=1e-3,
            clipping="flat" if private else "none",
            physical_batch_size=32 if private else None,
            seed=0,
        )
        record, _ = train(
            config,
            delta=1 / (10 * given.records),
            target_epsilon=8.0 if private else None,
            running_epsilon=False,
        )
        runs.append(
            {
                "defence": record.defence,
                "privacy": record.privacy,
                "results": record.results,
                "training": record.training,
                "measured": _measured("lora"),
            }
        )
        _write("text-lora.json", {"runs": runs})
    return runs


if __name__ == "__main__":
    main()
