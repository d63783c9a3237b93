"""Steps and accounts of an earlier commit and of this tree: ``python -m benchmarks.versions``.

Each is measured in processes of its own, in turns, on one thread, in processor time: medians of
the turns go to ``results/versions.json``. Processor time is less disturbed by a busy machine than
the clock; caches are shared, so the plain step beside it is the figure to divide by.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.provenance import provenance

__all__ = ["main"]

_ROOT = Path(__file__).resolve().parents[1]
_BEFORE = "76043d6"  # 0.1.0
# What both versions understand; processor milliseconds by name, as JSON.
_MEASURED = """
import json, statistics, time, warnings
warnings.simplefilter("ignore")
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import recondite as rc

torch.set_num_threads(1)

def mlp():
    return nn.Sequential(nn.Linear(256, 50), nn.ReLU(), nn.Linear(50, 10))

def lenet():
    pooled = lambda: (nn.ReLU(), nn.MaxPool2d(2))
    return nn.Sequential(
        nn.Conv2d(3, 6, 5), *pooled(), nn.Conv2d(6, 16, 5), *pooled(), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))

def step(make, shape, batch, steps, private):
    torch.manual_seed(0)
    model = make()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    records = TensorDataset(torch.randn(16 * batch, *shape), torch.arange(16 * batch) % 10)
    loader = DataLoader(records, batch_size=batch)
    if private:
        model, optimizer, loader = rc.PrivacyEngine().make_private(
            module=model, optimizer=optimizer, data_loader=loader,
            mechanism=rc.Gaussian(1.0), max_grad_norm=1.0)
    spent = []
    while len(spent) < steps:
        for inputs, labels in loader:
            began = time.process_time()
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
            spent.append(time.process_time() - began)
    return statistics.median(spent)

def account(kappa):
    began = time.process_time()
    rc.account(rc.VonMisesFisher(kappa, dim=13700), rc.Poisson(128 / 60000, 1407), 1 / 60000)
    return time.process_time() - began

found = {}
for name, make, shape, batch, steps in (
    ("mlp, 128", mlp, (256,), 128, 200), ("lenet, 64", lenet, (3, 32, 32), 64, 30)
):
    for private in (False, True):
        found[f"{name}, {'private' if private else 'plain'}"] = step(
            make, shape, batch, steps, private)
found["account, VMF"] = statistics.median(account(75 + k / 1000) for k in range(5))
print(json.dumps({name: 1000 * seconds for name, seconds in found.items()}))
"""


def _measure(source: Path) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED],
        env={**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measures both, in turns, and writes what came out."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.versions")
    parser.add_argument("--before", default=_BEFORE, help="the earlier commit (0.1.0)")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--out", type=Path, default=_ROOT / "results" / "versions.json")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(
            ["git", "archive", given.before, "src"], cwd=_ROOT, capture_output=True, check=True
        )
        subprocess.run(["tar", "x", "-C", folder], input=packed.stdout, check=True)
        turns = [(_measure(Path(folder) / "src"), _measure(_ROOT / "src"))
                 for _ in range(given.turns)]  # fmt: skip
    rows = [
        {
            "what": name,
            "before_ms": round(statistics.median(before[name] for before, _ in turns), 3),
            "now_ms": round(statistics.median(now[name] for _, now in turns), 3),
            "ratio": round(statistics.median(now[name] / before[name] for before, now in turns), 3),
        }
        for name in turns[0][0]
    ]
    body = {"before": given.before, "turns": given.turns, "rows": rows, **provenance()}
    body["command"] = " ".join(["python -m benchmarks.versions", *sys.argv[1:]])
    given.out.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
