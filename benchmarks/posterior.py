r"""Posterior attackers against defences: what a public prior adds to one release of one record.

Each defence is attacked by naive gradient matching and by every posterior attacker that applies,
on the gradients of an untrained network; beside each score stands the blind guess's. "picked" is
how often the record itself is the likeliest of n candidates, drawn with it from the test set.

    python -m benchmarks.posterior --out results/posterior-digits.json
    python -m benchmarks.posterior --data lfw --model lenet --device cuda --data-dir DIR \
        --out results/posterior-lfw.json
    python -m benchmarks.posterior --data cifar10 --model lenet --device cuda --data-dir DIR \
        --out results/posterior-cifar10.json

Public are the records that are not attacked: of the test set first, then of the training set, which
the untrained network never saw. Minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.provenance import provenance
from recondite.attacks import registry
from recondite.attacks.base import AttackRequest
from recondite.attacks.identification import identified
from recondite.attacks.posterior.releases import log_likelihoods, released
from recondite.attacks.victim import Defended, RecordSets, Victim
from recondite.channels import NaturalChannel
from recondite.mechanisms import Directional, Gaussian, Mechanism, NoNoise, VonMisesFisher
from recondite.models import resolve
from recondite.records import ImageSet, load

_MECHANISMS: dict[str, Mechanism] = {
    "clip": NoNoise(),
    "gaussian-0.1": Gaussian(0.1),
    "gaussian-0.5": Gaussian(0.5),
    "gaussian-1.23": Gaussian(1.23),
    "vmf-500": VonMisesFisher(500.0),
    "vmf-5000": VonMisesFisher(5_000.0),
    "vmf-20000": VonMisesFisher(20_000.0),
    "directional-5000": Directional(5_000.0),
}
_CHANNELS = {"natural-5": 5.0, "natural-25": 25.0, "natural-250": 250.0}
_NAMES = (*_MECHANISMS, *_CHANNELS)
DIR = "DIR"  # no path of this machine in a result


def attackers(defence: str, quick: bool) -> Iterator[tuple[str, str, dict[str, Any], bool]]:
    """Label, attack, options, and whether labels are told."""
    steps = 50 if quick else 1_000
    if defence in _CHANNELS:
        yield "looking", "released-record", {}, True  # the label is that of the stored rows
        yield "channel-posterior, label told", "channel-posterior", {}, True
        yield "channel-posterior, label unknown", "channel-posterior", {}, False
        return
    yield "inverting-gradients", "inverting-gradients", {"steps": steps}, True
    for told, words in ((True, "label told"), (False, "label unknown")):
        yield f"importance-weights, {words}", "importance-weights", {}, told
        yield f"gauss-newton, {words}", "gauss-newton", {}, told
    if defence in ("gaussian-0.1", "gaussian-0.5", "vmf-500"):
        for name in ("importance-weights", "gauss-newton"):
            yield f"{name}, label told, 20 releases", name, {"releases": 20}, True


def picked(victim: Victim, releases: int) -> dict[str, Any]:
    """How often the defence's likelihood picks the record out of n, of so many releases of it."""
    chosen, pool = victim.records.test, victim.records.public
    assert isinstance(chosen, ImageSet)
    assert isinstance(pool, ImageSet)
    channel = victim.defence.channel
    if channel is not None:  # the copies themselves are the best that can be had of them
        copies = victim.defence.seen(chosen.images[:, None]).flatten(1).cpu().double().numpy()
        rows = [x.images.flatten(1).cpu().double().numpy() for x in (chosen, pool)]
        seen, own, others = (channel.noise.whitened(x) for x in (copies, *rows))
        apart = [((seen - own) ** 2).sum(1)[:, None], np.stack([((others - x) ** 2).sum(1)
                                                                for x in seen])]  # fmt: skip
        scores = -0.5 * np.concatenate(apart, 1)
    else:
        site, _ = released(victim, victim.target(), chosen.images, chosen.labels, releases)
        count = len(chosen)
        wanted = torch.ones(count, count + len(pool), dtype=torch.bool)
        wanted[:, :count] = torch.eye(count, dtype=torch.bool)
        likely = log_likelihoods(
            [site],
            torch.cat([chosen.images, pool.images]),
            torch.cat([chosen.labels, pool.labels]),
            wanted.to(chosen.images.device),
        ).cpu()
        true = likely[:, :count].diagonal()[:, None]
        scores = torch.cat([true, likely[:, count:]], 1).numpy()
    return {str(n): identified([scores], n).to_dict() for n in (10, 100, 1000)}


def victim_of(defence: str, seed: int, sets: tuple[ImageSet, ImageSet], given: Any) -> Victim:
    """An untrained network behind a defence; the attacked records and the public ones apart."""
    train, test = sets
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(test), generator=generator)
    chosen, rest = test.subset(order[: given.images]), test.subset(order[given.images :])
    public = rest.replaced(
        torch.cat([rest.images, train.images])[: given.public],
        torch.cat([rest.labels, train.labels])[: given.public],
    ).without(chosen)
    model = resolve(given.model, train.shape, len(train.classes), norm="group", seed=seed)
    model = model.to(given.device).eval()
    if defence in _CHANNELS:
        rows = train.images.flatten(1).cpu().double().numpy()
        channel = NaturalChannel.fit(rows, capacity=_CHANNELS[defence])

        def seen(images: Tensor) -> Tensor:
            flat = images.flatten(0, -4).flatten(1).cpu().double().numpy()
            noisy = np.asarray(channel.perturb(flat, np.random.default_rng(seed)))
            return torch.as_tensor(noisy).to(images).reshape(images.shape)

        guarded = Defended(noisy_records=True, seen=seen, fitted=lambda: channel)
    else:
        guarded = Defended(_MECHANISMS[defence], clipping="flat", max_grad_norm=1.0)
    return Victim(
        model=model,
        initial=lambda: model,
        fresh=lambda: model,
        records=RecordSets(training=train, test=chosen, public=public),
        defence=guarded,
        seed=seed,
    )


def attack(victim: Victim, name: str, options: dict[str, Any], told: bool) -> dict[str, Any]:
    """One attack's part of a row, with the time it took."""
    asked = AttackRequest(images=len(victim.records.test), labels=told)
    began, worked = time.perf_counter(), time.process_time()
    row = registry.build(name, **options).evaluate(replace(victim, asked=asked)).to_dict()
    found = row["reconstruction"]
    kept = ("mse", "ssim", "mse_mean", "ssim_mean", "ssim_worst", "blind", "gain",
            "beats_guessing", "labels_right", "expected_mse", "effective_samples",
            "kept_of_posterior")  # fmt: skip
    return {
        **{key: found[key] for key in kept if found.get(key) is not None},
        "floors": row["floors"],
        "notes": row["notes"],
        "seconds": round(time.perf_counter() - began, 2),
        "processor_seconds": round(time.process_time() - worked, 2),
    }


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over seeds."""
    keys = ("mse_mean", "ssim_mean", "seconds", "processor_seconds", "expected_mse",
            "effective_samples", "kept_of_posterior")  # fmt: skip
    means = {k: float(np.mean([r[k] for r in runs])) for k in keys if k in runs[0]}
    return {
        **means,
        "blind_mse_mean": float(np.mean([run["blind"]["mse_mean"] for run in runs])),
        "blind_ssim_mean": float(np.mean([run["blind"]["ssim_mean"] for run in runs])),
        "gain_mse": [run["gain"]["mse"] for run in runs],
        "gain_ssim": [run["gain"]["ssim"] for run in runs],
        "beats_guessing": [run.get("beats_guessing") for run in runs],
        "labels_right": [run.get("labels_right") for run in runs],
        "floors": runs[0]["floors"],
        "notes": runs[0]["notes"],
    }


def summarised_over(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The rate over seeds: each has its own network, victims and noise; ends are means of ends."""
    mean = {key: float(np.mean([run[key] for run in runs])) for key in ("rate", "low", "high")}
    return {**mean, "games": sum(run["games"] for run in runs), "blind": runs[0]["blind"]}


def main() -> None:
    """Attacks what is asked for, writes everything."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.posterior",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", default="mnist-5k")
    parser.add_argument("--data-dir", default=None)
    parser.add_argument("--model", default="mlp")
    parser.add_argument("--prepare", default=None, help="crop16 for the digits by default")
    parser.add_argument("--only", nargs="*", choices=_NAMES, default=list(_NAMES))
    parser.add_argument("--images", type=int, default=24)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--public", type=int, default=14_000, help="public records at most")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--told", action="store_true", help="only attackers who know the label")
    parser.add_argument("--quick", action="store_true", help="a trial of the program itself")
    parser.add_argument("--out", default=None)
    given = parser.parse_args()
    digits = given.data in ("mnist", "mnist-5k")
    prepare = given.prepare or ("crop16" if digits else None)
    whole = [
        load(given.data, part, directory=given.data_dir, prepare=prepare)
        for part in ("train", "test")
    ]
    mean, std = whole[0].statistics()
    train, test = (part.normalised(mean, std).to(given.device) for part in whole)
    body: dict[str, Any] = {"defences": {}}
    for defence in given.only:
        found: dict[str, list[dict[str, Any]]] = {}
        games: dict[str, list[dict[str, Any]]] = {}
        for seed in range(given.seeds):
            victim = victim_of(defence, seed, (train, test), given)
            for label, name, options, told in attackers(defence, given.quick):
                if given.told and not told:
                    continue
                found.setdefault(label, []).append(attack(victim, name, options, told))
            for releases in (1, 20) if defence not in _CHANNELS else (1,):
                words = "picked" if releases == 1 else f"picked, {releases} releases"
                games.setdefault(words, []).append(picked(victim, releases))
            body["defences"][defence] = {label: summary(runs) for label, runs in found.items()}
            body.setdefault("picked", {})[defence] = {
                words: {n: summarised_over([run[n] for run in runs]) for n in ("10", "100", "1000")}
                for words, runs in games.items()
            }
            _write(body, given)
        for label, one in body["defences"][defence].items():
            scores = (
                f"SSIM {one['ssim_mean']:.3f} (blind {one['blind_ssim_mean']:.3f})  "
                f"MSE {one['mse_mean']:.4f} (blind {one['blind_mse_mean']:.4f})"
            )
            print(f"{defence:17} {label:45} {scores}  {one['processor_seconds']:.1f} s", flush=True)


def _write(body: dict[str, Any], given: argparse.Namespace) -> None:
    """After every seed: what was stopped keeps what it has."""
    if not given.out:
        return
    body |= {"options": {k: v for k, v in vars(given).items() if k != "data_dir"}}
    typed = [DIR if word == given.data_dir else word for word in sys.argv[1:]]
    command = " ".join(["python -m benchmarks.posterior", *typed])
    body["provenance"] = {**provenance(), "command": command}
    Path(given.out).parent.mkdir(parents=True, exist_ok=True)
    Path(given.out).write_text(json.dumps(body, indent=1) + "\n")


if __name__ == "__main__":
    main()
