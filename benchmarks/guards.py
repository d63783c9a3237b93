"""Microseconds that the checks of a private step take: `python -m benchmarks.guards`.

Estimates for this machine, in processor time: medians of steps of `mlp` on 4,000 random 16×16
images, batch 128, on one core of a CPU. Nothing is asserted.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import recondite as rc
from recondite.models import build


def timed(owner: Any, name: str, spent: list[float]) -> None:
    """Has every call of a method note its seconds of the processor."""
    own: Callable[..., Any] = getattr(owner, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        started = time.process_time()
        try:
            return own(*args, **kwargs)
        finally:
            spent.append(time.process_time() - started)

    setattr(owner, name, call)


def main(epochs: int = 15) -> None:
    """Trains, and prints what each part took."""
    torch.set_num_threads(1)
    data = TensorDataset(torch.randn(4000, 1, 16, 16), torch.randint(0, 10, (4000,)))
    model = build("mlp", (1, 16, 16)).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    engine = rc.PrivacyEngine()
    _, _, loader = engine.make_private(
        module=model,
        optimizer=optimizer,
        data_loader=DataLoader(data, batch_size=128),
        mechanism=rc.Gaussian(1.0),
    )
    run = engine._run
    parts = {
        "parts, versions and bits (before the step)": (run._guard, "check"),
        "bits of the weights (after it)": (run._guard, "updated"),
        "digests of the batch handed out": (run._reuse, "opened"),
        "digests of what the model saw": (run._reuse, "judge"),
        "the loss": (run._loss_check, "judge"),
    }
    spent: dict[str, list[float]] = {name: [] for name in (*parts, "a whole step")}
    for name, (owner, method) in parts.items():
        timed(owner, method, spent[name])
    for _ in range(epochs):
        started = time.process_time()
        for images, labels in loader:
            optimizer.zero_grad()
            loss = cross_entropy(model(images), labels)
            torch.autograd.backward(loss)
            optimizer.step()
            spent["a whole step"].append(time.process_time() - started)
            started = time.process_time()
    for name, seconds in spent.items():
        print(f"{statistics.median(seconds) * 1e6:8.0f} µs  {name}")


if __name__ == "__main__":
    main()
