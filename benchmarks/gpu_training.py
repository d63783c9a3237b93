"""Peak memory and step time of private training on a GPU, against plain SGD.

``python -m benchmarks.gpu_training OUT.json`` on a machine with one; not part of ``make bench``.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

import recondite as rc
from recondite.models import build, count_parameters
from recondite.training import PrivacyEngine
from recondite.training.record import machine

_CASES = {
    "vgg16": ((3, 32, 32), 64),
    "alexnet": ((3, 32, 32), 64),
    "lenet": ((3, 32, 32), 512),
    "mlp": ((1, 16, 16), 128),
}


def _measure(name: str, mechanism: Any, steps: int = 25, amp: bool = False) -> dict[str, float]:
    shape, batch = _CASES[name]
    gc.collect()
    torch.cuda.empty_cache()
    model = build(name, shape, norm="none", seed=0).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    images = torch.randn(batch, *shape, device="cuda")
    labels = torch.randint(0, 10, (batch,), device="cuda")
    loader: Any = DataLoader(TensorDataset(images, labels), batch_size=batch)
    if mechanism is not None:
        made = PrivacyEngine(seed=0).make_private(
            module=model,
            optimizer=optimizer,
            data_loader=loader,
            mechanism=mechanism,
            sampling="shuffled",
        )
        model, optimizer, loader = made
    times = []
    torch.cuda.reset_peak_memory_stats()
    for _ in range(steps):
        for x, y in loader:
            torch.cuda.synchronize()
            start = time.perf_counter()
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", torch.bfloat16, enabled=amp):
                loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
    finite = all(bool(torch.isfinite(p).all()) for p in model.parameters())
    return {
        "step_ms": 1e3 * statistics.median(times[5:]),
        "peak_mib": torch.cuda.max_memory_allocated() / 2**20,
        "parameters": count_parameters(model),
        "finite": finite,
    }


def main(path: str) -> None:
    rows = []
    mechanisms: dict[str, Any] = {
        "plain": None,
        "gaussian": rc.Gaussian(1.0),
        "vmf": rc.VonMisesFisher(1e4),
    }
    for name in _CASES:
        cases = dict(mechanisms)
        if name in ("lenet", "mlp"):
            cases["directional"] = rc.Directional(100.0)
        for label, mechanism in cases.items():
            for amp in (False, True) if name == "vgg16" else (False,):
                row = {"model": name, "defence": label, "bfloat16": amp}
                rows.append({**row, **_measure(name, mechanism, amp=amp)})
                print(rows[-1], flush=True)
    plain = {(r["model"], r["bfloat16"]): r for r in rows if r["defence"] == "plain"}
    for row in rows:
        base = plain[row["model"], row["bfloat16"]]
        row["step_ratio"] = row["step_ms"] / base["step_ms"]
        row["peak_ratio"] = row["peak_mib"] / base["peak_mib"]
    out = {"rows": rows, "machine": machine(), "command": "python -m benchmarks.gpu_training"}
    Path(path).write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
