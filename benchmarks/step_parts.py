"""Where the time of a private step on a CPU goes: ``python -m benchmarks.step_parts``.

Processor milliseconds of one step, on one thread, of a plain step and of a private one with
Gaussian noise, in turns; they go to ``results/cpu-step-parts.json``. Parts that nest are counted
once: the inner one is taken from the outer. Processor time is that of this process alone, and less
disturbed by a busy machine than the clock; caches are shared, and it still is disturbed.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.provenance import provenance

__all__ = ["main", "parts_of_a_step"]

_MODELS = ("mlp", "lenet-dlg")
_ROUNDS, _STEPS = 9, 40


class _Parts:
    """Processor seconds by name; what runs inside another part counts as its own only."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self._inner: list[float] = []

    def timed(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def wrapped(*arguments: Any, **options: Any) -> Any:
            self._inner.append(0.0)
            start = time.process_time()
            try:
                return call(*arguments, **options)
            finally:
                whole, inside = time.process_time() - start, self._inner.pop()
                self.spent[name] = self.spent.get(name, 0.0) + whole - inside
                if self._inner:
                    self._inner[-1] += whole

        return wrapped

    def watch(self, owner: Any, method: str, name: str) -> Callable[[], None]:
        """Has calls of a class's method counted under a name; returns what ends that."""
        original = getattr(owner, method)
        setattr(owner, method, self.timed(name, original))
        return lambda: setattr(owner, method, original)


def _measured(loop: Any, parts: _Parts, steps: int) -> dict[str, float]:
    """Milliseconds a step by part."""
    parts.spent.clear()
    for _ in range(steps):
        batch = parts.timed("loading", loop._next)()
        parts.timed("zero_grad", loop.optimizer.zero_grad)()
        loss = parts.timed("forward", lambda b=batch: loop.criterion(loop.model(b[0]), b[1]))()
        parts.timed("backward", loss.backward)()
        parts.timed("optimizer.step", loop.optimizer.step)()
    return {name: 1e3 * seconds / steps for name, seconds in parts.spent.items()}


def parts_of_a_step(model: str, rounds: int = _ROUNDS, steps: int = _STEPS) -> list[dict[str, Any]]:
    """Rows: model, side, part, milliseconds of processor time, the median of rounds."""
    import torch

    import recondite as rc
    from benchmarks.training import _ours, _plain
    from recondite.gradients.collector import Collector
    from recondite.gradients.handover import Handover
    from recondite.training.guard import Guard
    from recondite.training.private_run import PrivateRun

    torch.set_num_threads(1)
    parts, ends = _Parts(), []
    for owner, method, name in (
        (PrivateRun, "_collect", "weighted sums"),
        (Collector, "_squared", "gradients and norms of records"),
        (Guard, "check", "checks before a release"),
        (Handover, "gradient", "noise"),
    ):
        ends.append(parts.watch(owner, method, name))
    sides = {
        "plain": (_plain(model), _Parts()),
        "private": (_ours(model, rc.Gaussian(1.23)), parts),
    }
    for loop, _ in sides.values():
        loop.time(20)  # the first steps are looked at more closely
    taken: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for number in range(rounds):
        for side in list(sides)[:: -1 if number % 2 else 1]:
            taken[side].append(_measured(*sides[side], steps))
    for end in ends:
        end()
    rows = []
    for side, several in taken.items():
        for part in several[0]:
            value = statistics.median(found.get(part, 0.0) for found in several)
            rows.append({"model": model, "side": side, "part": part, "ms": round(value, 4)})
    return rows


def main(given: list[str] | None = None) -> None:
    """Measures all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/cpu-step-parts.json"))
    out: Path = parser.parse_args(given).out
    rows = [row for model in _MODELS for row in parts_of_a_step(model)]
    body = {"rows": rows, **provenance(), "command": "python -m benchmarks.step_parts"}
    out.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
    for row in rows:
        print(f"{row['model']:10} {row['side']:8} {row['part']:32} {row['ms']:.3f} ms")


if __name__ == "__main__":
    main()
