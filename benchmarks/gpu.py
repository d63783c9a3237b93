"""Private training and its noise on one GPU: times, peak memory, growth, and no waiting.

``python -m benchmarks.gpu [--parts noise sync agreement steps profile growth] [--out results]`` on
a machine with one; not part of ``make bench``. Each part writes ``gpu-PART.json`` by itself. Sides
are interleaved and medians compared; a plain step is the faster of eager and of a CUDA graph of all
of it. Laws of the kernels: ``python tests/numerics/kernel_laws.py --rows 200000``.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import recondite as rc
from benchmarks.provenance import provenance
from recondite.models import build, count_parameters
from recondite.training import PrivacyEngine
from recondite.training.record import machine

MODELS = {
    "mlp": ((1, 16, 16), 128),
    "lenet": ((3, 32, 32), 512),
    "vgg16": ((3, 32, 32), 64),
    "alexnet": ((3, 32, 32), 64),
}
MECHANISMS: dict[str, Callable[[], Any]] = {
    "gaussian": lambda: rc.Gaussian(1.0),
    "vmf": lambda: rc.VonMisesFisher(1e4),
}
Step = Callable[[], None]


def _timed(step: Step) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    step()
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start)


def _medians(sides: dict[str, Step], rounds: int, warm: int = 3) -> dict[str, float]:
    """Milliseconds of each side, measured in turn."""
    for side in sides.values():
        for _ in range(warm):
            side()
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            times[name].append(_timed(side))
    return {name: statistics.median(values) for name, values in times.items()}


def _peak(step: Step) -> float:
    """MiB that a step needs above what is held before it."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def _eager_noise(gradient: torch.Tensor) -> torch.Tensor:
    return torch.randn_like(gradient).mul_(0.1).add_(gradient)


def noise() -> dict[str, Any]:
    """Noise alone, over an eager Gaussian add."""
    rows = []
    for size in (10_000, 62_006, 1_000_000, 10_000_000, 100_000_000):
        x = torch.randn(size, device="cuda")
        blocks = rc.PartitionedVonMisesFisher(75.0, blocks=10)
        sides: dict[str, Step] = {
            "eager Gaussian add": lambda x=x: _eager_noise(x),
            "gaussian": lambda x=x: rc.Gaussian(0.1).release(x),
            "vmf": lambda x=x: rc.VonMisesFisher(75.0).release(x),
            "vmf, perturb": lambda x=x: rc.VonMisesFisher(75.0).perturb(x),
            "partitioned, 10 blocks": lambda x=x, m=blocks: m.release(x),
        }
        found = _medians(sides, 40)
        for name, value in found.items():
            row = {"p": size, "noise": name, "ms": value, "peak_mib": _peak(sides[name])}
            rows.append({**row, "ratio": value / found["eager Gaussian add"]})
    x = torch.randn(512, 62_006, device="cuda")
    for blocks in (1, 5):
        made = rc.Directional(75.0, blocks=blocks)
        side = {"release": lambda made=made, x=x: made.release(x)}
        value = _medians(side, 40)["release"]
        name = f"directional, 512 records, {blocks} blocks"
        rows.append({"p": 62_006, "noise": name, "ms": value, "peak_mib": _peak(side["release"])})
    return {"rows": rows}


class _Loop:
    """A training loop that hands out one step at a time."""

    def __init__(self, model: Any, optimizer: Any, loader: Any, compiled: bool = False) -> None:
        self.model, self.optimizer, self.loader = model, optimizer, loader
        self.compiled = compiled
        self._batches: Any = iter(())

    def prepare(self) -> Step:
        """Fetches a batch; what is returned takes the step."""
        batch = next(self._batches, None)
        if batch is None:
            self._batches = iter(self.loader)
            batch = next(self._batches)
        return lambda: self.step(*batch)

    def step(self, x: torch.Tensor, y: torch.Tensor) -> None:
        if not self.compiled:
            self.optimizer.zero_grad(set_to_none=True)
            functional.cross_entropy(self.model(x), y).backward()
        self.optimizer.step()


class _Graph:
    """A plain step, all of it one CUDA graph."""

    def __init__(self, loop: _Loop, batch: tuple[torch.Tensor, torch.Tensor]) -> None:
        self._held = tuple(part.clone() for part in batch)
        self._batch = batch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                loop.step(*self._held)
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        loop.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(self._graph):
            loop.step(*self._held)

    def prepare(self) -> Step:
        return self.step

    def step(self) -> None:
        for held, given in zip(self._held, self._batch, strict=True):
            held.copy_(given)
        self._graph.replay()


def _loop(
    network: Any, mechanism: Any, shape: Any, batch: int, seed: int | None = None, **options: Any
) -> _Loop:
    named = isinstance(network, str)
    model = build(network, shape, norm="none", seed=0).cuda() if named else network
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    images = torch.randn(batch, *shape, device="cuda")
    labels = torch.randint(0, 10, (batch,), device="cuda")
    loader: Any = DataLoader(TensorDataset(images, labels), batch_size=batch)
    if mechanism is None:
        return _Loop(model, optimizer, [(images, labels)])
    made = PrivacyEngine(seed=seed).make_private(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        mechanism=mechanism,
        sampling="shuffled",
        **options,
    )
    return _Loop(*made, compiled=bool(options.get("compile")))


def _step_medians(sides: dict[str, Any], rounds: int) -> dict[str, dict[str, float]]:
    out = {}
    times: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(rounds + 20):  # the first passes of a private model are all looked at
        for name, side in sides.items():
            took = _timed(side.prepare())
            if turn >= 20:
                times[name].append(took)
    for name, side in sides.items():
        out[name] = {"ms": statistics.median(times[name]), "peak_mib": _peak(side.prepare())}
    return out


def steps() -> dict[str, Any]:
    """Private steps over plain ones, each as fast as it can be made."""
    rows = []
    for name, (shape, batch) in MODELS.items():
        gc.collect()
        torch.cuda.empty_cache()
        plain = _loop(name, None, shape, batch)
        sides: dict[str, Any] = {"plain": plain}
        captured = _loop(name, None, shape, batch)
        sides["plain, CUDA graph"] = _Graph(captured, captured.loader[0])
        for label, make in MECHANISMS.items():
            sides[label] = _loop(name, make(), shape, batch)
            made = _loop(name, make(), shape, batch, compile=functional.cross_entropy)
            sides[f"{label}, compiled"] = made
        found = _step_medians(sides, 40)
        best = min(found["plain"]["ms"], found["plain, CUDA graph"]["ms"])
        for label, values in found.items():
            row = {"model": name, "batch": batch, "side": label, **values}
            row["parameters"] = count_parameters(plain.model)
            rows.append({**row, "over_eager": values["ms"] / found["plain"]["ms"]})
            rows[-1]["over_plain"] = values["ms"] / best
    return {"rows": rows}


def growth() -> dict[str, Any]:
    """Step time against batch, width, depth and p, plain (eager) and private (compiled)."""

    def stack(width: int, depth: int) -> torch.nn.Module:
        layers = [torch.nn.Linear(256, width)]
        layers += [torch.nn.Linear(width, width) for _ in range(depth - 1)]
        parts = [part for layer in layers for part in (layer, torch.nn.ReLU())]
        return torch.nn.Sequential(torch.nn.Flatten(), *parts, torch.nn.Linear(width, 10))

    rows = []
    cases = [("batch", batch, 512, 4, batch) for batch in (16, 64, 256, 1024, 4096)]
    cases += [("width", 128, width, 4, width) for width in (64, 256, 1024, 4096)]
    cases += [("depth", 128, 512, depth, depth) for depth in (1, 2, 4, 8, 16, 32)]
    for against, batch, width, depth, x in cases:
        sides: dict[str, Any] = {}
        for label, make in {"plain": None, **MECHANISMS}.items():
            options = {} if make is None else {"compile": functional.cross_entropy}
            model = stack(width, depth).cuda()
            sides[label] = _loop(model, make and make(), (1, 16, 16), batch, **options)
        size = count_parameters(sides["plain"].model)
        for label, values in _step_medians(sides, 15).items():
            row = {"against": against, "x": x, "batch": batch, "width": width, "depth": depth}
            rows.append({**row, "p": size, "side": label, **values})
    return {"rows": rows}


def sync() -> dict[str, Any]:
    """Which releases, and which whole steps, run where every synchronisation is an error."""
    rows = []
    x = torch.randn(1_000_000, device="cuda")
    many = torch.randn(64, 10_000, device="cuda")
    cases: dict[str, Step] = {
        "gaussian": lambda: rc.Gaussian(0.1).release(x),
        "vmf": lambda: rc.VonMisesFisher(75.0).release(x),
        "partitioned": lambda: rc.PartitionedVonMisesFisher(75.0, blocks=10).release(x),
        "directional": lambda: rc.Directional(75.0).release(many),
    }
    for name in ("mlp", "lenet"):
        shape, batch = MODELS[name]
        for label, make in MECHANISMS.items():
            loop = _loop(name, make(), shape, batch, loss_reduction="per-record")
            cases[f"step, {name}, {label}"] = lambda loop=loop: loop.prepare()()
            options = {"loss_reduction": "per-record", "compile": functional.cross_entropy}
            loop = _loop(name, make(), shape, batch, **options)
            cases[f"step, {name}, {label}, compiled"] = lambda loop=loop: loop.prepare()()
    for name, case in cases.items():
        for _ in range(20):
            case()
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")
        try:
            case()
            rows.append({"case": name, "waits": False})
        except RuntimeError as error:
            frames = [f for f in traceback.extract_tb(error.__traceback__) if "recondite" in f[0]]
            where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
            rows.append({"case": name, "waits": True, "where": where})
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return {"rows": rows}


def profile() -> dict[str, Any]:
    """Where the time of a private step goes: kernels, and the host."""
    rows: list[dict[str, Any]] = []
    for name, (shape, batch) in MODELS.items():
        loop = _loop(name, rc.Gaussian(1.0), shape, batch, compile=functional.cross_entropy)
        for _ in range(20):
            loop.prepare()()
        torch.cuda.synchronize()
        kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=kinds) as found:
            for _ in range(5):
                loop.prepare()()
            torch.cuda.synchronize()
        events = found.key_averages()
        for key in ("self_device_time_total", "self_cpu_time_total"):
            top = sorted(events, key=lambda event: -getattr(event, key))[:12]
            total = sum(getattr(event, key) for event in events) / 5e3
            rows.append(
                {
                    "model": name,
                    "what": key,
                    "ms": total,
                    "top": [[e.key[:70], e.count / 5, getattr(e, key) / 5e3] for e in top],
                }
            )
    return {"rows": rows}


def agreement() -> dict[str, Any]:
    """Compiled against eager steps with the same seed, and the noise of two replays."""
    rows = []
    for name, (shape, batch) in MODELS.items():
        ends, moved = {}, []
        for side in ("eager", "compiled"):
            torch.manual_seed(0)
            options = {"compile": functional.cross_entropy} if side == "compiled" else {}
            loop = _loop(name, rc.Gaussian(1.0), shape, batch, seed=1, **options)
            for _ in range(30):
                loop.prepare()()
            ends[side] = torch.cat([p.detach().reshape(-1) for p in loop.model.parameters()])
        for _ in range(2):
            loop.prepare()()
            moved.append(torch.cat([p.grad.reshape(-1) for p in loop.model.parameters()]))
        gap = (ends["eager"] - ends["compiled"]).norm() / ends["eager"].norm()
        cosine = functional.cosine_similarity(moved[0], moved[1], dim=0)
        row = {"model": name, "relative_gap": float(gap), "cosine_of_two_releases": float(cosine)}
        rows.append(row)
    return {"rows": rows}


_PARTS = {
    "noise": noise,
    "sync": sync,
    "steps": steps,
    "profile": profile,
    "growth": growth,
    "agreement": agreement,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=list(_PARTS), default=list(_PARTS))
    parser.add_argument("--out", default="results")
    asked = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("no GPU: run this where torch.cuda.is_available()")
    for name in asked.parts:
        found = {**_PARTS[name](), "machine": machine(), "provenance": provenance()}
        found["provenance"]["command"] = f"python -m benchmarks.gpu --parts {name}"
        path = Path(asked.out) / f"gpu-{name}.json"
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        for row in found["rows"]:
            print(name, json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
