"""Processor seconds of whole accounts and calibrations where they are slowest; ten are allowed.

    python -m benchmarks.extremes

Strong losses in many blocks, the papers' and the tutorial's settings, random allocation, and the
edges of floating point; calibrations, each of which is some dozens of such accounts. Seconds are
of one process on one core, its caches cold; they go to ``results/extremes.json`` with what came
out: ε, or the noise parameter.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

from benchmarks.provenance import provenance
from recondite import (
    Directional,
    Gaussian,
    Mechanism,
    PartitionedVonMisesFisher,
    Poisson,
    RandomAllocation,
    Schedule,
    VonMisesFisher,
    account,
    calibrate,
)

__all__ = ["CALIBRATIONS", "MOST", "SETTINGS", "calibrated", "measured"]

MOST = 10.0
_PAPER = Poisson(128 / 60_000, 1_407)
_EPOCHS = RandomAllocation(469, 3)
_LENET = (312, 3_612, 3_612, 7_690)  # LeNet's layers
Setting = tuple[Mechanism, Schedule, float]


def _blocks(kappa: float, sizes: tuple[int, ...] | int, dim: int = 13_700) -> Mechanism:
    whole = dim if isinstance(sizes, int) else sum(sizes)
    return PartitionedVonMisesFisher(kappa, whole, sizes)


SETTINGS: dict[str, Setting] = {
    "VMF κ = 75": (VonMisesFisher(75.0, 13_700), _PAPER, 1 / 60_000),
    "VMF κ = 5,000": (VonMisesFisher(5000.0, 13_700), _PAPER, 1 / 60_000),
    "directional κ = 5,000": (Directional(5000.0, 13_700), _PAPER, 1 / 60_000),
    "layers of LeNet, κ = 75": (_blocks(75.0, _LENET), _PAPER, 1 / 60_000),
    "layers of LeNet, κ = 500": (_blocks(500.0, _LENET), _PAPER, 1 / 60_000),
    "layers of LeNet, κ = 5,000": (_blocks(5000.0, _LENET), _PAPER, 1 / 60_000),
    "three blocks of 2, κ = 5,000": (_blocks(5000.0, (2, 2, 2)), _PAPER, 1 / 60_000),
    "blocks of 2 and 300, κ = 5,000": (_blocks(5000.0, (2, 300)), _PAPER, 1 / 60_000),
    "100 blocks, κ = 500": (_blocks(500.0, 100), _PAPER, 1 / 60_000),
    "1,000 blocks, κ = 50": (_blocks(50.0, 1000), _PAPER, 1 / 60_000),
    "1,370 blocks, κ = 5,000": (_blocks(5000.0, 1370), _PAPER, 1 / 60_000),
    "allocation 469 × 3, Gaussian": (Gaussian(1.23), _EPOCHS, 1 / 60_000),
    "allocation 469 × 3, VMF κ = 75": (VonMisesFisher(75.0, 13_700), _EPOCHS, 1 / 60_000),
    "allocation 469 × 3, layers, κ = 75": (_blocks(75.0, _LENET), _EPOCHS, 1 / 60_000),
    "allocation 469 × 3, blocks of 2 and 300, κ = 5,000": (
        _blocks(5000.0, (2, 300)),
        _EPOCHS,
        1 / 60_000,
    ),
    "allocation of 1e5 batches, σ = 0.6": (Gaussian(0.6), RandomAllocation(10**5, 1), 1e-6),
    "q = 1, 1e9 steps, δ = 1e-300": (Gaussian(1.0), Poisson(1.0, 10**9), 1e-300),
    "directional κ = 1e9, p = 50": (Directional(1e9, 50), Poisson(9 / 99, 22), 0.01),
    "σ = 1e-150": (Gaussian(1e-150), Poisson(1.0, 3), 1e-5),
    "κ = 1e-300, p = 2": (VonMisesFisher(1e-300, 2), Poisson(1.0, 10**9), 1e-5),
    "κ = 1e12, p = 1e9": (VonMisesFisher(1e12, 10**9), Poisson(0.001, 10**9), 1e-5),
}

_TINY = Poisson(0.01, 10)
# Mechanism, target, notion, schedule, δ or the prior's success.
CALIBRATIONS: dict[str, tuple[Mechanism, float, str, Schedule, dict[str, float]]] = {
    "Gaussian, ε = 0.5 at δ = 0.1, 10 steps of rate 0.01": (
        Gaussian(1.0), 0.5, "epsilon", _TINY, {"delta": 0.1}),
    "Gaussian, ε = 1e-3 at δ = 1e-12": (
        Gaussian(1.0), 1e-3, "epsilon", _PAPER, {"delta": 1e-12}),
    "Gaussian, ε = 1,000": (Gaussian(1.0), 1e3, "epsilon", _PAPER, {"delta": 1e-5}),
    "VMF, ε = 8, p = 13,700": (
        VonMisesFisher(1.0, 13_700), 8.0, "epsilon", _PAPER, {"delta": 1 / 60_000}),
    "VMF, ε = 8, p = 1e9": (VonMisesFisher(1.0, 10**9), 8.0, "epsilon", _PAPER, {"delta": 1e-5}),
    "1,000 blocks, ε = 8": (_blocks(1.0, 1000), 8.0, "epsilon", _PAPER, {"delta": 1e-5}),
    "layers of LeNet, ε = 8": (_blocks(1.0, _LENET), 8.0, "epsilon", _PAPER, {"delta": 1e-5}),
    "directional, ε = 8": (
        Directional(1.0, 13_700), 8.0, "epsilon", _PAPER, {"delta": 1 / 60_000}),
    "allocation 469 × 3, Gaussian, ε = 8": (
        Gaussian(1.0), 8.0, "epsilon", _EPOCHS, {"delta": 1e-5}),
    "allocation 469 × 3, VMF, ε = 8": (
        VonMisesFisher(1.0, 13_700), 8.0, "epsilon", _EPOCHS, {"delta": 1e-5}),
    "Gaussian, ReRo 0.5": (Gaussian(1.0), 0.5, "rero", _PAPER, {"prior_success": 0.1}),
}  # fmt: skip


def calibrated(name: str) -> dict[str, Any]:
    """One calibration."""
    mechanism, target, notion, schedule, options = CALIBRATIONS[name]
    started = time.process_time()
    try:
        found = calibrate(mechanism, target, notion, schedule, **options)
    except ValueError as error:  # met without noise: the account of that is what takes its time
        came: float | str = str(error)
    else:
        came = float(f"{found.mechanism.strength:.6g}")
    return {
        "setting": f"calibrate: {name}",
        "parameter": came,
        "seconds": round(time.process_time() - started, 2),
    }


def measured(name: str) -> dict[str, Any]:
    """One account."""
    started = time.process_time()
    found = account(*SETTINGS[name])
    seconds = round(time.process_time() - started, 2)
    epsilon = float(found.epsilon["pld"])
    return {
        "setting": name,
        "epsilon": epsilon if math.isfinite(epsilon) else "inf",
        "seconds": seconds,
    }


def main() -> None:
    """Measures all; the exit code is 1 where one took too long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="results/extremes.json")
    given = parser.parse_args()
    account(Gaussian(1.0), Poisson(0.01, 10), 1e-5)  # imports
    rows = []
    for name in SETTINGS:
        rows.append(measured(name))
        print(f"{rows[-1]['seconds']:6.2f} s  {name}: ε {rows[-1]['epsilon']:.6g}", flush=True)
    searches = []
    for name in CALIBRATIONS:
        searches.append(calibrated(name))
        row = searches[-1]
        print(f"{row['seconds']:6.2f} s  {row['setting']}: {row['parameter']}", flush=True)
    body = {
        **provenance(),
        "command": "python -m benchmarks.extremes",
        "accounts": rows,
        "calibrations": searches,
    }
    Path(given.out).write_text(
        json.dumps(body, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    raise SystemExit(1 if max(row["seconds"] for row in rows + searches) > MOST else 0)


if __name__ == "__main__":
    main()
