"""How near the time that a dry run promises comes to the time that the study takes.

    python -m benchmarks.estimates

Each study is dry-run first, in an empty folder, and then run there: both as commands, one after the
other, on the same workers. The ratio of the real seconds to the promised ones goes to
``results/estimates.json``. A machine that does other things meanwhile moves single ratios: its
load is written beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from importlib import resources
from pathlib import Path
from typing import Any

from benchmarks.provenance import provenance

__all__ = ["STUDIES", "WITHIN", "estimated"]

WITHIN = 2.0  # the factor that is asked for
SMALL = """\
name: small
data: digits
model: mlp
prepare: none
defences:
  - {name: none}
  - {name: gaussian, noise_multiplier: [0.5, 1.0]}
  - {name: vmf, kappa: 500}
training: {epochs: 5, batch_size: 64}
attacks:
  - {name: inverting-gradients, images: 4, steps: 200}
  - {name: membership-threshold, records: 200}
"""
STRONG = """\
name: strong
data: mnist-5k
model: mlp
prepare: crop16
defences:
  - {name: none}
  - {name: gaussian, noise_multiplier: 0.5}
training: {epochs: 5, batch_size: 128, optimizer: adamw, learning_rate: 0.005}
attacks:
  - {name: inverting-gradients, images: 8, steps: 2000, restarts: 2}
  - {name: membership-lira, records: 200, references: 8}
  - {name: strongest, threat: update, images: 8, budget: 10}
"""
STUDIES = {"small": SMALL, "strong": STRONG, "demo": ""}


def estimated(name: str, text: str, folder: Path) -> dict[str, Any]:
    """Promised and real seconds of one study."""
    study = folder / f"{name}.yaml"
    study.write_text(text or _demo(), encoding="utf-8")
    began = time.perf_counter()
    promise = json.loads(_compare(study, folder / name, "--dry-run", "--json"))
    asked = time.perf_counter() - began
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    began = time.perf_counter()
    _compare(study, folder / name, "--no-report")
    real = time.perf_counter() - began
    return {
        "study": name,
        "rows": promise["rows_missing"],
        "promised": round(promise["seconds"], 1),
        "real": round(real, 1),
        "ratio": round(real / promise["seconds"], 3),
        "how": promise["how"],
        "seconds_of_the_dry_run": round(asked, 1),
        "load_before": load and round(load, 1),
    }


def _demo() -> str:
    return (resources.files("recondite.studies") / "demo.yaml").read_text(encoding="utf-8")


def _compare(study: Path, out: Path, *options: str) -> str:
    command = [sys.executable, "-m", "recondite", "compare", str(study), "--out", str(out)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    return done.stdout


def main() -> int:
    """Runs the studies named and writes what came out; 1 where a promise was too far off."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", default=",".join(STUDIES), help="names, joined by commas")
    parser.add_argument("--out", type=Path, default=Path("results/estimates.json"))
    given = parser.parse_args()
    names = given.studies.split(",")
    cases: list[dict[str, Any]] = []
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            cases.append(estimated(name, STUDIES[name], Path(folder)))
        print(json.dumps(cases[-1]), flush=True)
        body = {
            "command": f"python -m benchmarks.estimates --studies {given.studies}",
            "provenance": provenance(),
            "within": WITHIN,
            "cases": cases,
        }
        given.out.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
    return int(any(not 1 / WITHIN <= case["ratio"] <= WITHIN for case in cases))


if __name__ == "__main__":
    raise SystemExit(main())
