"""Log Bayes' capacities: milliseconds a value, against mpmath."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from benchmarks.rows import at_most
from benchmarks.runner import Benchmark, Settings, Task, timing
from recondite import Gaussian, VonMisesFisher

__all__ = ["BENCHMARKS"]

_DIMS = {13_700: "13,700", 10**9: "1e9"}
_SIGMA, _BATCH, _LARGEST_BATCH = 1.23, 128, 160


def _kappa(dim: int) -> float:
    """75 at 13,700 dimensions, and as much noise elsewhere (equal κ²/p)."""
    return 75.0 * math.sqrt(dim / 13_700)


def _vmf(dim: int) -> Callable[[Settings], Task]:
    return lambda _: Task(VonMisesFisher(kappa=_kappa(dim), dim=dim).log_bayes_capacity)


def _gaussian(dim: int) -> Callable[[Settings], Task]:
    mechanism = Gaussian(
        noise_multiplier=_SIGMA, dim=dim, batch_size=_BATCH, max_batch_size=_LARGEST_BATCH
    )
    return lambda _: Task(mechanism.log_bayes_capacity)


def _mpmath_vmf(dim: int) -> Callable[[Settings], Task]:
    def prepare(_: Settings) -> Task:
        import mpmath

        def call() -> float:
            with mpmath.workdps(40):
                kappa = mpmath.mpf(_kappa(dim))
                series = mpmath.hyp0f1(mpmath.mpf(dim) / 2, kappa * kappa / 4)
                return float(kappa - mpmath.log(series))

        return Task(call)

    return prepare


def _mpmath_gaussian(dim: int) -> Callable[[Settings], Task]:
    """The volume of the ball and the shells around it, by quadrature around the mode."""

    def prepare(_: Settings) -> Task:
        import mpmath

        def call() -> float:
            with mpmath.workdps(40):
                p, radius = mpmath.mpf(dim), mpmath.mpf(_LARGEST_BATCH) / mpmath.mpf(_SIGMA)
                mode = (mpmath.sqrt(radius**2 + 4 * (p - 1)) - radius) / 2
                height = (p - 1) * mpmath.log(mode + radius) - mode**2 / 2

                def shell(u: Any) -> Any:
                    return mpmath.exp((p - 1) * mpmath.log(u + radius) - u * u / 2 - height)

                edges = sorted({max(mpmath.mpf(0), mode + k) for k in range(-16, 17, 4)})
                shells = mpmath.quad(shell, edges)
                log_shells = mpmath.log(2) + mpmath.log(shells) + height
                ball = p * mpmath.log(radius) - mpmath.loggamma(p / 2 + 1)
                outside = log_shells - mpmath.loggamma(p / 2)
                top = max(ball, outside)
                both = mpmath.log(mpmath.exp(ball - top) + mpmath.exp(outside - top))
                return float(top + both - p / 2 * mpmath.log(2))

        return Task(call)

    return prepare


def _agreement(ours: float, peer: float, _: Settings) -> str:
    return f"{ours:.10g} nats, relative difference {abs(ours / peer - 1.0):.1e} (target 1e-9)"


def _benchmark(kind: str, dim: int, ours: Any, peer: Any) -> Benchmark:
    return timing(
        f"log capacity, {kind}, p = {_DIMS[dim]}",
        ours(dim),
        unit="ms",
        target=at_most(1.0, "about 1 ms"),
        peer=peer(dim),
        peer_name="mpmath, 40 digits",
        requires=("mpmath",),
        note=_agreement,
    )


BENCHMARKS = [
    *(_benchmark("VMF", dim, _vmf, _mpmath_vmf) for dim in _DIMS),
    *(_benchmark("Gaussian", dim, _gaussian, _mpmath_gaussian) for dim in _DIMS),
]
