"""Our ε beside those of dp-accounting and prv-accountant, on random settings, from both sides.

    python -m benchmarks.differential --settings 500 --workers 4

Of Gaussian noise under Poisson sampling both libraries give a lower and an upper bound. Of VMF
noise neither knows the law: its antipodal pair is cut into cells by an independent quadrature,
which can only lose privacy loss, and composed optimistically by dp-accounting: a lower bound.
Ours must never lie below a lower bound, nor far above an upper one. Where it does lie below one of
Gaussian noise, δ at ours is computed without any grid of losses (an inverse Laplace transform on a
contour): if that is within the δ that was asked for, their bound is refuted, not ours.

Rows go to a work file, so that a run that was stopped goes on; the summary to
``results/differential.json``. About two seconds a setting.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.provenance import provenance
from benchmarks.resumable import Row, resumed
from recondite import Gaussian, Mechanism, Poisson, VonMisesFisher, epsilon

__all__ = ["ABOVE", "ROUNDING", "compared", "exact_delta", "refuted", "setting", "violations"]

SEED = 20_26
ABOVE = 0.01  # how far ours may lie above an upper bound of theirs, and 1e-4 besides
ROUNDING = 1e-6  # of a lower bound: theirs is floating point too
_LARGEST = 60.0  # ε beyond which their grids take minutes and nobody trains
_CELLS = 4000


def setting(number: int) -> tuple[Mechanism, Poisson, float]:
    """Random noise, batches and δ: log-uniform over what people train with, and beyond."""
    rng = np.random.default_rng([SEED, number])

    def between(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(math.log(low), math.log(high))))

    steps = max(1, round(between(1, 1e5)))
    rate = 1.0 if rng.random() < 0.1 else between(1e-4, 1.0)
    delta = between(1e-12, 1e-3)
    mechanism: Mechanism = Gaussian(between(0.4, 20.0))
    if number % 5 == 4:
        dim = max(2, round(between(2, 1e5)))
        mechanism = VonMisesFisher(math.sqrt(dim) / (2.0 * between(0.4, 20.0)), dim)
    return mechanism, Poisson(rate, steps), delta


def compared(number: int) -> Row:
    """One setting by everybody."""
    mechanism, schedule, delta = setting(number)
    ours = epsilon(mechanism, schedule, delta)
    row: Row = {
        "number": number,
        "mechanism": mechanism.name,
        **{key: float(f"{value:.6g}") for key, value in mechanism.parameters().items()
           if key in ("noise_multiplier", "kappa", "dim")},
        "rate": float(f"{schedule.rate:.6g}"),
        "steps": schedule.steps,
        "delta": float(f"{delta:.6g}"),
        "ours": ours,
        "lower": {},
        "upper": {},
    }  # fmt: skip
    if ours > _LARGEST:
        row["skipped"] = f"ε above {_LARGEST:g}"
        return row
    theirs = _vmf if number % 5 == 4 else _gaussian
    theirs(row, mechanism, schedule, delta)
    return row


def _interval(ours: float, steps: int) -> float:
    """As fine as it must be for two digits, as coarse as minutes allow."""
    return float(np.clip(2e-3 * ours / math.sqrt(steps), 1e-5, 1e-3))


def _gaussian(row: Row, mechanism: Mechanism, schedule: Poisson, delta: float) -> None:
    from dp_accounting.pld import privacy_loss_distribution as pld
    from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant

    for side, pessimistic in (("lower", False), ("upper", True)):
        law = pld.from_gaussian_mechanism(
            mechanism.strength,
            value_discretization_interval=_interval(row["ours"], schedule.steps),
            sampling_prob=schedule.rate,
            pessimistic_estimate=pessimistic,
            use_connect_dots=pessimistic,
        )
        found = law.self_compose(schedule.steps).get_epsilon_for_delta(delta)
        row[side]["dp-accounting"] = float(found)
    if delta >= 1e-10:  # its own rounding is absolute
        prv = PoissonSubsampledGaussianMechanism(
            sampling_probability=schedule.rate, noise_multiplier=mechanism.strength
        )
        try:
            accountant = PRVAccountant(
                prvs=[prv],
                max_self_compositions=[schedule.steps],
                eps_error=max(0.01 * row["ours"], 1e-3),
                delta_error=delta / 1000,
            )
            low, _, high = accountant.compute_epsilon(delta, [schedule.steps])
        except (ValueError, RuntimeError, MemoryError, FloatingPointError) as error:
            row["prv-accountant"] = f"{type(error).__name__}: {error}"[:100]
        else:
            row["lower"]["prv-accountant"] = float(low)
            row["upper"]["prv-accountant"] = float(high)


def _vmf(row: Row, mechanism: Mechanism, schedule: Poisson, delta: float) -> None:
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld import privacy_loss_distribution as pld

    p, q = _cells(int(mechanism.parameters()["dim"]), mechanism.strength)
    mixed = (1.0 - schedule.rate) * q + schedule.rate * p
    interval = _interval(row["ours"], schedule.steps)
    worst = 0.0
    for upper, lower in ((mixed, q), (q, mixed)):
        masses: dict[int, float] = {}
        losses = np.log(upper) - np.log(lower)
        for cell, mass in zip(np.floor(losses / interval).astype(int), upper, strict=True):
            masses[int(cell)] = masses.get(int(cell), 0.0) + float(mass)
        pmf: Any = pld_pmf.create_pmf(masses, interval, 0.0, pessimistic_estimate=False)
        composed = pld.PrivacyLossDistribution(pmf).self_compose(schedule.steps)
        worst = max(worst, float(composed.get_epsilon_for_delta(delta)))
    row["lower"]["cells"] = worst


def _cells(dim: int, kappa: float) -> tuple[Any, Any]:
    """Masses of t = u·y in cells under VMF(u) and VMF(-u), each cell's by the midpoint rule.

    In the angle from u the density is sin^(p-2)·e^(κ cos): it is summed on a grid fifty times as
    fine as the cells and scaled to one, so that no formula of ours is used.
    """
    centre = math.atan2(math.sqrt(max(dim - 1, 1)), 2 * kappa)
    width = 14.0 / math.sqrt(dim - 1 + 2 * kappa)
    low, high = max(1e-9, centre - width), min(math.pi - 1e-9, math.pi - centre + width)
    fine = np.linspace(low, high, 50 * _CELLS + 1)
    angle = 0.5 * (fine[1:] + fine[:-1])
    logs = (dim - 2) * np.log(np.sin(angle))
    sides = []
    for sign in (1.0, -1.0):
        log = logs + sign * kappa * np.cos(angle)
        mass = np.exp(log - log.max())
        mass = (mass / mass.sum()).reshape(_CELLS, 50).sum(axis=1)
        sides.append(mass)
    p, q = sides
    kept = (p > 1e-280) & (q > 1e-280)
    return p[kept], q[kept]


def exact_delta(noise: float, schedule: Poisson, epsilon: float) -> float:
    """δ(ε) of Gaussian noise under Poisson sampling, the worse direction, by numerical inversion.

    Infinite where the integral has not converged: few steps, or rates near zero.

    With K the log-moments of one step's loss under its own side, δ is the integral of
    exp(nK(t) - tε)/(t(t + 1)) over a vertical line, by 2πi. The line goes through the saddle point,
    and moments are sums over a fine grid of the noise itself: nothing is cut, joined or rounded.
    """
    z = np.linspace(-16.0 * noise, 1.0 + 16.0 * noise, 20_001)
    log_q = -0.5 * (z / noise) ** 2 - math.log(noise * math.sqrt(2 * math.pi))
    log_z = (2 * z - 1) / (2 * noise**2)
    rate = schedule.rate
    loss = log_z if rate == 1.0 else np.logaddexp(math.log1p(-rate), math.log(rate) + log_z)
    return max(
        _inverted(loss, log_q + loss, z[1] - z[0], schedule.steps, epsilon),
        _inverted(-loss, log_q, z[1] - z[0], schedule.steps, epsilon),
    )


def _inverted(loss: Any, log_p: Any, width: float, steps: int, epsilon: float) -> float:
    def exponent(t: complex) -> complex:
        real = t.real * loss + log_p
        top = float(real.max())
        moment = complex(np.sum(np.exp(real - top + 1j * t.imag * loss))) * width
        return steps * (top + np.log(moment)) - t * epsilon - np.log(t) - np.log(t + 1)

    at = min(np.geomspace(1e-4, 1e3, 120), key=lambda t: exponent(complex(t)).real)
    step = 1e-2 * at
    ends = exponent(complex(at - step)).real + exponent(complex(at + step)).real
    curvature = (ends - 2 * exponent(complex(at)).real) / step**2
    line = np.linspace(0.0, 12.0 / math.sqrt(max(curvature, 1e-12)), 201)
    values = [np.exp(exponent(complex(at, y))) for y in line]
    if abs(values[-1]) > 1e-9 * abs(values[0]):
        return math.inf  # the line is too short to say
    return float(np.trapezoid(np.real(values), line)) / math.pi


def refuted(row: Row) -> bool:
    """Whether ours holds by :func:`exact_delta`, so that a lower bound above it does not."""
    mechanism, schedule, delta = setting(row["number"])
    if not isinstance(mechanism, Gaussian):
        return False
    return exact_delta(mechanism.strength, schedule, row["ours"]) <= delta * (1.0 + 1e-6)


def below(row: Row) -> list[str]:
    """Lower bounds that lie above ours."""
    return [
        f"below {name}: {row['ours']:.8g} < {lower:.8g}"
        for name, lower in row["lower"].items()
        if row["ours"] < lower * (1.0 - ROUNDING) - 1e-9
    ]


def violations(row: Row) -> list[str]:
    """What is wrong with a row: nothing, one hopes."""
    found = below(row)
    if found and refuted(row):
        found = []
    for name, upper in row["upper"].items():
        if row["ours"] > (1.0 + ABOVE) * upper + 1e-4:
            found.append(f"above {name}: {row['ours']:.8g} > {upper:.8g}")
    return found


def _tell(row: Row) -> None:
    for line in violations(row):
        print(f"setting {row['number']}: {line}", flush=True)


def summary(rows: list[Row]) -> dict[str, Any]:
    """Counts and extreme ratios."""
    compared_rows = [row for row in rows if "skipped" not in row]
    out: dict[str, Any] = {
        "settings": len(rows),
        "compared": len(compared_rows),
        "violations": {row["number"]: wrong for row in rows if (wrong := violations(row))},
        "refuted": {row["number"]: found for row in rows if (found := below(row)) and refuted(row)},
    }
    for side, pick in (("lower", min), ("upper", max)):
        names = sorted({name for row in compared_rows for name in row[side]})
        for name in names:
            ratios = [
                row["ours"] / row[side][name]
                for row in compared_rows
                if row[side].get(name, 0.0) > 1e-3 and math.isfinite(row[side][name])
            ]
            out[f"{name}, {side}"] = {
                "compared": len(ratios),
                "extreme_ratio": pick(ratios, default=None),
                "median_ratio": float(np.median(ratios)) if ratios else None,
            }
    return out


def main() -> None:
    """Compares, and says what was found; the exit code is 1 after a violation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", type=int, default=500)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", default="results/differential.json")
    parser.add_argument("--work", default="benchmarks/results/differential.jsonl")
    given = parser.parse_args()
    rows = resumed(
        compared, range(given.settings), Path(given.work), workers=given.workers, tell=_tell
    )
    body = {
        **provenance(),
        "command": f"python -m benchmarks.differential --settings {given.settings}",
        **summary(rows),
    }
    Path(given.out).write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(summary(rows), indent=1))
    raise SystemExit(1 if body["violations"] else 0)


if __name__ == "__main__":
    main()
