"""Texts from gradients, and private fine-tuning with LoRA, on a pretrained encoder and reviews.

    python -m benchmarks.text inversion --model FOLDER --data reviews.csv#text,label
    python -m benchmarks.text decoder   --model FOLDER --data reviews.csv#text,label
    python -m benchmarks.text lora      --model FOLDER --data reviews.csv#text,label

``inversion`` writes results/text-inversion.json: span-check on whole reviews one at a time, and on
batches of 4 texts cut to 64 tokens and of 16 cut to 16, without a defence, then behind Gaussian and
von Mises-Fisher noise of ε = 8, δ = 1/(10n) for three epochs with batches of that size. ``decoder``
adds batches of 16, 64 and 128 behind a GPT-2 of random weights with the folder's vocabulary; what
the span needs of it is its width (768) alone. ``--case`` measures one and keeps the others.
``lora`` writes results/text-lora.json: test accuracy of LoRA of rank 8 at ε = 8, δ = 1/(10n),
against none.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.provenance import provenance
from recondite import Poisson
from recondite.attacks.base import AttackRequest
from recondite.attacks.text.span_check import SpanCheck
from recondite.attacks.victim import Defended, RecordSets, Victim
from recondite.configuration import TrainingConfig
from recondite.mechanisms import Gaussian, Mechanism, NoNoise, VonMisesFisher
from recondite.models import resolve
from recondite.notions.calibration import calibrate
from recondite.records import Records, TextSet, load_records
from recondite.training.setup import load_records as load_sets
from recondite.training.trainer import train

_RESULTS = Path(__file__).resolve().parent.parent / "results"
_WIDTH = 384  # tokens that a batch must have fewer of
_EPSILON, _EPOCHS = 8.0, 3
_DEFENCES: dict[str, Callable[[int], Mechanism]] = {
    "gaussian": lambda _: Gaussian(1.0),
    "vmf": lambda dim: VonMisesFisher(100.0, dim),
}
# Victims, texts behind a gradient, and the tokens that texts are cut to.
PLAIN = {"batch 1, whole": (4, 1, 512), "batch 4, 64": (8, 4, 64), "batch 16, 16": (4, 16, 16)}
CASES = PLAIN | {
    f"{name}, {noise}": PLAIN[name]
    for name in ("batch 4, 64", "batch 16, 16")
    for noise in _DEFENCES
}
DECODER = {
    "decoder, batch 16, 40": (4, 16, 40),
    "decoder, batch 64, 10": (2, 64, 10),
    "decoder, batch 128, 5": (2, 128, 5),
}


# Larger batches want larger steps; both sides have as many epochs.
_PRIVATE: dict[str, Any] = {"clipping": "flat", "learning_rate": 2e-3}
_PARTS = {"inversion": CASES, "decoder": DECODER}


def main(arguments: list[str] | None = None) -> None:
    """Runs a part and writes its file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["inversion", "decoder", "lora"])
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--records", type=int, help="of a training; all by default")
    parser.add_argument("--seeds", type=int, default=1, help="of lora")
    parser.add_argument("--epochs", type=int, default=5, help="of lora")
    parser.add_argument("--batch-size", type=int, default=1024, help="of private lora")
    parser.add_argument("--defence", choices=["none", *_DEFENCES], action="append", help="of lora")
    parser.add_argument("--case", choices=[*CASES, *DECODER], action="append")
    parser.add_argument("--rounds", type=int, default=24)
    parser.add_argument("--first", type=int, default=0, help="the first victim's seed")
    parser.add_argument("--merge", type=Path, nargs="*", default=[], help="add other files' cases")
    parser.add_argument("--victims", type=int, help="fewer or more than a case has")
    parser.add_argument("--out", type=Path, default=_RESULTS)
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    if given.part == "lora":
        _lora(given)
        return
    path = given.out / "text-inversion.json"
    held = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {"cases": {}}
    for part in given.merge:
        for name, found in json.loads(part.read_text(encoding="utf-8"))["cases"].items():
            there = held["cases"].get(name, {}).get("victims", [])
            held["cases"][name] = {**found, **_means([*there, *found["victims"]])}
        _write(path, held)
    for name in given.case or (() if given.merge else _PARTS[given.part]):
        for found in _case(given, name):
            held["cases"][name] = {**found, "measured": _measured(given.part)}
            _write(path, held)  # what is measured is kept, whenever it is stopped
        print(name, json.dumps({k: v for k, v in found.items() if k != "victims"}), flush=True)


def _measured(part: str) -> dict[str, Any]:
    """Where the numbers come from, without the folders of this machine."""
    command = f"python -m benchmarks.text {part} --model FOLDER --data reviews.csv#text,label"
    return {**provenance(), "command": command, "device": _device()}


def _device() -> str:
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"


def _write(path: Path, content: dict[str, Any]) -> None:
    text = json.dumps({"schema_version": 1, **content}, indent=1, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8")


def _case(given: argparse.Namespace, name: str) -> Iterator[dict[str, Any]]:
    """The case after one victim, after two, and so on."""
    victims, batch, length = (CASES | DECODER)[name]
    victims = given.victims or victims
    folder = f"hf:{given.model}"
    records = load_records(given.data, "all", model=folder, truncate=length)
    if batch == 1:  # whole ones only: none that were cut, none that no span has room for
        records = records.subset((records.features >= 0).sum(1) < _WIDTH)
    training, test = records.split(0.2, seed=0)
    with tempfile.TemporaryDirectory() as made:
        if name in DECODER:
            folder = f"hf:{_random_decoder(Path(made), given.model)}"
        model = resolve(folder, test.shape, len(test.classes), seed=0).eval().to(given.device)
    noise = next((each for each in _DEFENCES if name.endswith(each)), None)
    defence, said = _defended(noise, model, batch, len(training))
    rows = []
    for seed in range(given.first, given.first + victims):
        started = time.perf_counter()
        found = _attacked(model, test.to(given.device), defence, batch, seed, given.rounds)
        rows.append({"seed": seed, **found, "seconds": round(time.perf_counter() - started, 1)})
        print(json.dumps(rows[-1]), flush=True)
        yield {"batch_size": batch, "truncate": length, **said, **_means(rows)}


def _means(victims: list[dict[str, Any]]) -> dict[str, Any]:
    """Over victims, each with a gradient of its own."""

    def mean(values: list[float]) -> float:
        return round(sum(values) / len(values), 4)

    keys = ["verified", *(metric.key for metric in TextSet.metrics)]
    return {
        **{key: mean([one[key] for one in victims]) for key in keys},
        "blind": {key: mean([one["blind"][key] for one in victims]) for key in keys[1:]},
        "victims": victims,
    }


def _attacked(
    model: nn.Module, test: Records, defence: Defended, batch: int, seed: int, rounds: int
) -> dict[str, Any]:
    """One gradient, of a batch of its own."""
    victim = Victim(
        model=model,
        initial=lambda: model,
        fresh=lambda: model,
        records=RecordSets(training=test, test=test),
        defence=defence,
        asked=AttackRequest(images=1, batch_size=batch),
        seed=seed,
    )
    made = SpanCheck(rounds=rounds).evaluate(victim).to_dict()["reconstruction"]
    keys = [metric.key for metric in test.metrics]
    return {
        "verified": made["texts_verified"],
        **{key: round(made[f"{key}_mean"], 4) for key in keys},
        "blind": {key: round(made["blind"][f"{key}_mean"], 4) for key in keys},
    }


def _defended(
    noise: str | None, model: nn.Module, batch: int, records: int
) -> tuple[Defended, dict[str, Any]]:
    """The weakest noise of ε = 8 for three epochs with batches of this size."""
    if noise is None:
        return Defended(), {"defence": "none"}
    dim = sum(p.numel() for p in model.parameters() if p.requires_grad)
    schedule = Poisson(rate=batch / records, steps=_EPOCHS * -(-records // batch))
    found = calibrate(
        _DEFENCES[noise](dim), _EPSILON, "epsilon", schedule, delta=1 / (10 * records)
    )
    said = {"defence": noise, found.parameter: found.value, "epsilon": found.achieved,
            "delta": 1 / (10 * records), "epochs": _EPOCHS, "parameters": dim}  # fmt: skip
    return Defended(found.mechanism, clipping="flat", max_grad_norm=1.0), said


def _random_decoder(folder: Path, vocabulary: str) -> Path:
    """A GPT-2 of the published size, weights drawn, that reads another model's tokens."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(vocabulary, local_files_only=True)
    tokenizer.save_pretrained(folder)
    ends = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.sep_token_id}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = transformers.GPT2Config(
            vocab_size=len(tokenizer), bos_token_id=tokenizer.cls_token_id, **ends
        )
        kind: Any = transformers.GPT2ForSequenceClassification
        kind(config).save_pretrained(folder)
    return folder


def _lora(given: argparse.Namespace) -> None:
    runs: list[dict[str, Any]] = []
    base = TrainingConfig(
        given.data,
        f"hf:{given.model}",
        NoNoise(),
        adapter="lora:8",
        truncate=64,
        records=given.records,
        epochs=given.epochs,
        batch_size=256,
        learning_rate=1e-3,
        clipping="none",
        device=given.device,
    )
    sets = load_sets(base, None)
    count = len(sets[0])
    delta = 1 / (10 * count)
    for seed in range(given.seeds):
        for defence in (NoNoise(), Gaussian(1.0), VonMisesFisher(kappa=100.0)):
            if given.defence and defence.name not in given.defence:
                continue
            private = bool(defence.parameter)
            own = _PRIVATE | {"batch_size": given.batch_size} if private else {}
            record, _ = train(
                replace(base, defence=defence, seed=seed, **own),
                delta=delta,
                target_epsilon=_EPSILON if private else None,
                running_epsilon=False,
                sets=sets,
            )
            runs.append(
                {
                    "seed": seed,
                    "defence": record.defence,
                    "privacy": record.privacy,
                    "results": record.results,
                    "training": record.training,
                }
            )
            print(json.dumps({**runs[-1], "privacy": None}), flush=True)
            of = {"records": count, "test_records": len(sets[1]), "truncate": 64, "delta": delta}
            content = {**of, "adapter": "lora:8", "runs": runs, "measured": _measured("lora")}
            _write(given.out / "text-lora.json", content)


if __name__ == "__main__":
    main()
