"""Log I_ν and the ratio A_p: values a second, against SciPy and mpmath where they work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from benchmarks.rows import at_least
from benchmarks.runner import Benchmark, Settings, Task, timing
from recondite.numerics.bessel import bessel_ratio, log_iv

__all__ = ["BENCHMARKS"]

_HIGH_ORDER = 6849.0  # of the sphere in 13,700 dimensions
_VALUES = 1_000_000
_FEW = 20  # mpmath takes its time
_TARGET = at_least(1e6, "≥ 1e6 values a second on one core")


def _count(settings: Settings) -> int:
    return _VALUES // 4 if settings.quick else _VALUES


def _small(settings: Settings) -> tuple[Any, Any]:
    """Orders and arguments at which scipy.special.ive neither under- nor overflows."""
    rng = np.random.default_rng(1)
    count = _count(settings)
    return rng.uniform(0.0, 50.0, count), rng.uniform(0.1, 500.0, count)


def _high(settings: Settings) -> tuple[Any, Any]:
    rng = np.random.default_rng(2)
    count = _count(settings)
    return np.full(count, _HIGH_ORDER), 10.0 ** rng.uniform(0.0, 4.0, count)


def _any(settings: Settings) -> tuple[Any, Any]:
    """The whole domain: orders to 5e8, arguments from far below to far above the order."""
    rng = np.random.default_rng(3)
    count = _count(settings)
    order = 10.0 ** rng.uniform(-1.0, np.log10(5e8), count)
    return order, order * 10.0 ** rng.uniform(-3.0, 3.0, count)


def _ours(function: Callable[..., Any], points: Callable[..., Any]) -> Callable[[Settings], Task]:
    def prepare(settings: Settings) -> Task:
        order, argument = points(settings)
        return Task(lambda: function(order, argument), len(order))

    return prepare


def _scipy_log(order: Any, argument: Any) -> Any:
    return np.log(special.ive(order, argument)) + argument


def _scipy_ratio(order: Any, argument: Any) -> Any:
    return special.ive(order + 1.0, argument) / special.ive(order, argument)


def _mpmath(ratio: bool) -> Callable[[Settings], Task]:
    def prepare(settings: Settings) -> Task:
        import mpmath

        order, argument = _high(settings)
        pairs = list(zip(order[:_FEW].tolist(), argument[:_FEW].tolist(), strict=True))

        def value(nu: float, x: float) -> Any:
            below = mpmath.besseli(nu, x)
            return mpmath.besseli(nu + 1, x) / below if ratio else mpmath.log(below)

        def call() -> Any:
            with mpmath.workdps(30):
                return np.array([float(value(nu, x)) for nu, x in pairs])

        return Task(call, len(pairs))

    return prepare


def _agreement(ours: Any, peer: Any, _: Settings) -> str:
    count = len(peer)
    error = np.abs(ours[:count] - peer) / np.maximum(np.abs(peer), 1.0)
    return f"largest difference {error.max():.1e} (of the value or of 1) at {count:,} points"


def _relative(ours: Any, peer: Any, _: Settings) -> str:
    count = len(peer)
    error = np.abs(ours[:count] / peer - 1.0)
    return f"largest relative difference {error.max():.1e} at {count:,} points"


def _finite(ours: Any, *_: Any) -> str:
    return "finite everywhere" if np.isfinite(ours).all() else "NOT finite everywhere"


def _rate(name: str, *arguments: Any, **options: Any) -> Benchmark:
    return timing(name, *arguments, unit="1/s", target=_TARGET, **options)


BENCHMARKS = [
    _rate("log I_ν, whole domain", _ours(log_iv, _any), note=_finite),
    _rate(
        "log I_ν, order 0–50",
        _ours(log_iv, _small),
        peer=_ours(_scipy_log, _small),
        peer_name="log(scipy.special.ive)",
        note=_agreement,
    ),
    _rate(
        "log I_ν, order 6,849",
        _ours(log_iv, _high),
        peer=_mpmath(ratio=False),
        peer_name="mpmath, 30 digits",
        requires=("mpmath",),
        note=_agreement,
    ),
    _rate("ratio A_p, whole domain", _ours(bessel_ratio, _any), note=_finite),
    _rate(
        "ratio A_p, order 0–50",
        _ours(bessel_ratio, _small),
        peer=_ours(_scipy_ratio, _small),
        peer_name="scipy.special.ive, two calls",
        note=_relative,
    ),
    _rate(
        "ratio A_p, order 6,849",
        _ours(bessel_ratio, _high),
        peer=_mpmath(ratio=True),
        peer_name="mpmath, 30 digits",
        requires=("mpmath",),
        note=_relative,
    ),
]
