"""Our ε of random allocation beside the two bounds of the code in dp-accounting's repository.

    python -m benchmarks.allocations CHECKOUT/python/dp_accounting --commit 125d46c

That code (``dp_accounting.pld.random_allocation``) is newer than dp-accounting's 0.6.0 package, so
a checkout of its repository is named. It knows Gaussian noise. Values go to
``results/allocations.json``, from which a test reads them: ours must lie above their lower bound,
and at most 1% above their upper one.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.provenance import provenance

__all__ = ["SETTINGS", "ours"]

# Noise multiplier, batches, epochs, δ.
SETTINGS: tuple[tuple[float, int, int, float], ...] = (
    (1.0, 2, 1, 1e-3),
    (1.0, 10, 1, 1e-5),
    (1.5, 1, 4, 1e-5),
    (2.0, 20, 5, 1e-8),
    (0.8, 30, 1, 1e-6),
    (0.7, 20, 2, 1e-5),
    (1.0, 20, 2, 1e-5),
    (3.0, 20, 4, 1e-5),
    (5.0, 5, 6, 1e-6),
    (1.23, 469, 3, 1 / 60_000),
)
_INTERVAL = 4e-3


def ours(sigma: float, batches: int, epochs: int, delta: float) -> float:
    """By the library."""
    from recondite import Gaussian, RandomAllocation, epsilon

    return float(epsilon(Gaussian(sigma), RandomAllocation(batches, epochs), delta))


def _theirs(sigma: float, batches: int, epochs: int, delta: float, interval: float) -> list[float]:
    """A lower and an upper bound by their code."""
    from dp_accounting.pld.random_allocation import api, definitions

    params = definitions.PrivacyParams(sigma=sigma, num_steps=batches, num_epochs=epochs)
    config = definitions.AllocationSchemeConfig(
        value_discretization_interval=interval, tail_truncation=min(1e-12, 1e-5 * delta)
    )
    found = []
    for bound in (definitions.BoundType.IS_DOMINATED, definitions.BoundType.DOMINATES):
        law = api.gaussian_allocation_pld(params, config, bound)
        found.append(float(law.get_epsilon_for_delta(delta)))
    return found


def main() -> None:
    """Compares; the exit code is 1 where ours is not where it must be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", help="the folder that holds their package dp_accounting")
    parser.add_argument("--commit", required=True, help="of that checkout")
    parser.add_argument("--interval", type=float, default=_INTERVAL, help="of their grid")
    parser.add_argument("--out", default="results/allocations.json")
    given = parser.parse_args()
    sys.path.insert(0, given.checkout)
    rows: list[dict[str, Any]] = []
    for setting in SETTINGS:
        started = time.process_time()
        here = ours(*setting)
        between = time.process_time()
        lower, upper = _theirs(*setting, given.interval)
        rows.append(
            dict(zip(("noise_multiplier", "batches", "epochs", "delta"), setting, strict=True))
            | {"ours": here, "lower": lower, "upper": upper}
            | {"seconds": round(between - started, 2)}
            | {"their_seconds": round(time.process_time() - between, 2)}
        )
        print(rows[-1], flush=True)
    body = {
        **provenance(),
        "command": f"python -m benchmarks.allocations CHECKOUT --commit {given.commit}",
        "their_repository": f"google/differential-privacy at {given.commit}",
        "their_interval": given.interval,
        "rows": rows,
    }
    Path(given.out).write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
    wrong = [row for row in rows if not row["lower"] <= row["ours"] <= 1.01 * row["upper"]]
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
