"""Gradient inversion on a GPU, many victims at once, against ``breaching`` on the same machine.

``python -m benchmarks.gpu_attacks OUT.json --images IMAGES.npz [--peer FOLDER]`` on a machine with
a GPU; not part of ``make bench``. IMAGES.npz holds ``images`` (n, 3, 32, 32) uint8 and ``labels``
(n,); FOLDER holds the packages that breaching needs and the machine lacks. About two minutes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from benchmarks.attack_victims import SHAPE, Case, make_case, read_images
from benchmarks.peers.breaching_peer import Breaching
from benchmarks.provenance import provenance
from recondite.attacks.gradient import descent
from recondite.attacks.gradient.inverting import InvertingGradients
from recondite.models import build

_BEGAN = time.perf_counter()
_TARGET = 50.0
_LATEST = 150.0  # seconds after which no quality run begins


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_attacks", description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--images", type=Path, help="an npz; CIFAR-10 of the data directory if not")
    parser.add_argument("--peer", type=Path, help="a folder of packages, searched last")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true", help="a trial of the program itself")
    return parser.parse_args()


def _wait(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def _rate(call: Callable[[], Any], work: int, device: str, repetitions: int = 3) -> float:
    """Median of work done in a second."""
    rates = []
    for _ in range(repetitions):
        _wait(device)
        start = time.perf_counter()
        call()
        _wait(device)
        rates.append(work / (time.perf_counter() - start))
    return statistics.median(rates)


@contextmanager
def _recording(wanted: bool, seen: list[bool]) -> Iterator[None]:
    """Recording of iterations on or off; ``seen`` gets whether each attack was recorded."""
    original = descent.recorded

    def watched(
        iterate: Callable[[], None], rehearse: Callable[[], object], device: torch.device
    ) -> Callable[[], None]:
        made = original(iterate, rehearse, device) if wanted else iterate
        seen.append(made is not iterate)
        return made

    with mock.patch.object(descent, "recorded", watched):
        yield


def _throughput(case: Case, device: str, quick: bool) -> list[dict[str, Any]]:
    """Ours, for several numbers of victims, recorded and launched one by one."""
    rows = []
    for count in (8, 16) if quick else (32, 256, 1024):
        part, steps = case.part(0, count), 5 if quick else (1000 if count < 1000 else 200)
        for wanted in (True, False) if count <= 32 else (True,):
            seen: list[bool] = []
            with _recording(wanted, seen):
                part.attack(25)
                rate = _rate(lambda p=part, s=steps: p.attack(s), count * steps, device)  # type: ignore[misc]
            rows.append(
                {
                    "model": case.name,
                    "who": "ours",
                    "device": device,
                    "victims": count,
                    "steps": steps,
                    "recording_wanted": wanted,
                    "recorded": bool(seen and all(seen)),
                    "victim_iterations_per_second": rate,
                    "ms_an_iteration": 1e3 * count / rate,
                }
            )
            print(rows[-1], flush=True)
    return rows


def _one_by_one(
    peer: Breaching | None, case: Case, where: str, device: str, quick: bool
) -> list[dict[str, Any]]:
    """breaching, which takes victims one after the other: its rate needs only some."""
    if peer is None:
        return []
    count, steps = (1, 5) if quick else (2, 200)
    part = case.part(0, count)
    peer.attack(part, 5)
    rate = _rate(lambda: peer.attack(part, steps), count * steps, device)
    row = {
        "model": case.name,
        "who": "breaching",
        "device": where,
        "victims": count,
        "steps": steps,
        "victim_iterations_per_second": rate,
        "ms_an_iteration": 1e3 / rate,
    }
    print(row, flush=True)
    return [row]


def _quality(peer: Breaching, case: Case, quick: bool) -> dict[str, Any]:
    """Median PSNR of the same victims from the same starts."""
    count, steps = (1, 5) if quick else (6, 1000)
    part = case.part(0, count)
    ours = part.psnr(part.attack(steps))
    theirs = part.psnr(peer.attack(part, steps, part.starts(0)))
    medians = statistics.median(ours), statistics.median(theirs)
    return {
        "model": case.name,
        "victims": count,
        "steps": steps,
        "ours_psnr": ours,
        "breaching_psnr": theirs,
        "ours_median": medians[0],
        "breaching_median": medians[1],
        "met": medians[0] >= medians[1] - 0.5,
    }


class _Asking(nn.Module):
    """A model that asks the GPU for a value in every pass: it cannot be recorded."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.inner(images)
        return logits if float(logits.detach().abs().max()) < 1e9 else 0.0 * logits


def _checks(cases: dict[str, Case]) -> dict[str, Any]:
    """That recorded iterations are the same ones, and that what cannot be recorded still runs."""
    out: dict[str, Any] = {}
    for name, case in cases.items():
        part = case.part(0, 8)
        found = []
        for wanted in (True, False):
            with _recording(wanted, []):
                found.append(part.attack(100))
        apart = (found[0] - found[1]).abs()
        out[f"{name}: largest difference of pixels, recorded or not"] = float(apart.max())
        out[f"{name}: share of pixels that differ by 1e-3"] = float((apart > 1e-3).float().mean())
    part = cases["mlp"].part(0, 4)
    model = _Asking(build("mlp", SHAPE, seed=0).to(part.images.device))
    seen: list[bool] = []
    with _recording(True, seen):
        result = InvertingGradients(steps=100).reconstruct_many(
            model,
            nn.functional.cross_entropy,
            {f"inner.{name}": value for name, value in part.gradients.items()},
            shape=SHAPE,
            labels=part.labels.unsqueeze(1),
            bounds=part.bounds,
            seed=0,
        )
    after = torch.randn(1000, device=part.images.device)  # the generator must have survived
    out["a model that asks was recorded"] = any(seen)
    out["a model that asks ended"] = bool(torch.isfinite(result.loss).all()) and bool(
        after.std() > 0
    )
    return out


def _peer(folder: Path | None) -> tuple[Breaching | None, str | None]:
    if folder is not None:
        sys.path.append(str(folder))
    try:
        return Breaching(), None
    except Exception as error:  # whatever its imports raise: said in the result
        return None, f"{type(error).__name__}: {error}"


def _ratios(rows: list[dict[str, Any]], device: str) -> list[dict[str, Any]]:
    """Ours on the GPU over each peer's rate."""
    out = []
    peers = [row for row in rows if row["who"] == "breaching"]
    for row in rows:
        if row["who"] != "ours" or row["device"] != device or not row["recording_wanted"]:
            continue
        for other in peers:
            if other["model"] == row["model"]:
                ratio = row["victim_iterations_per_second"] / other["victim_iterations_per_second"]
                against = f"breaching, {other['device']}"
                kept = {key: row[key] for key in ("model", "victims")}
                out.append({**kept, "against": against, "ratio": ratio, "met": ratio >= _TARGET})
    return out


def main() -> int:
    """Measures, prints and writes."""
    given = _arguments()
    device, quick = given.device, given.quick
    torch.set_num_threads(1)
    origin = provenance()
    origin["command"] = "python -m benchmarks.gpu_attacks"
    origin["machine"]["gpu"] = torch.cuda.get_device_name() if device != "cpu" else None
    origin["versions"]["torch"] = torch.__version__
    peer, missing = _peer(given.peer)
    images, labels = read_images(16 if quick else 1024, given.images)
    cases = {name: make_case(name, images, labels, device) for name in ("mlp", "lenet")}
    result: dict[str, Any] = {"rows": [], "ratios": [], "quality": [], "checks": {}}
    result["breaching_missing"], result["target"] = missing, f"≥ {_TARGET:g} × breaching"
    print(f"breaching: {'found' if missing is None else missing}", flush=True)
    rows = result["rows"]
    for name, case in cases.items():
        rows += _throughput(case, device, quick)
        rows += _one_by_one(peer, case, device, device, quick)
        if device != "cpu":
            host = make_case(name, images[:2], labels[:2])
            rows += _one_by_one(peer, host, "cpu, one thread", "cpu", quick)
        result["ratios"] = _ratios(rows, device)
        _write(given.out, result, origin)
    result["checks"] = _checks(cases)
    for case in cases.values():
        if peer is not None and time.perf_counter() - _BEGAN < _LATEST:
            result["quality"].append(_quality(peer, case, quick))
            _write(given.out, result, origin)
    _write(given.out, result, origin)
    _print(result)
    return 0


def _write(path: Path, result: dict[str, Any], origin: dict[str, Any]) -> None:
    whole = {**result, "seconds": round(time.perf_counter() - _BEGAN, 1), "provenance": origin}
    path.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _print(result: dict[str, Any]) -> None:
    for row in result["ratios"]:
        print(
            f"{row['model']:6} {row['victims']:5} victims  {row['ratio']:9.1f} × {row['against']}"
            f"  (target {_TARGET:g}: {'met' if row['met'] else 'missed'})"
        )
    for row in result["quality"]:
        print(
            f"{row['model']:6} median PSNR {row['ours_median']:.2f} dB, breaching "
            f"{row['breaching_median']:.2f} dB ({row['victims']} victims, {row['steps']} steps)"
        )
    for name, value in result["checks"].items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    sys.exit(main())
