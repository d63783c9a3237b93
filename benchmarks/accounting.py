"""Tight and Rényi ε of whole runs, against dp-accounting and prv-accountant."""

from __future__ import annotations

import math
from collections.abc import Callable

from benchmarks.rows import at_most, comparison
from benchmarks.runner import Benchmark, Settings, Task, timing
from recondite import (
    Gaussian,
    Mechanism,
    Poisson,
    VonMisesFisher,
    epsilon,
    epsilon_bracket,
    renyi_epsilon,
)

__all__ = ["BENCHMARKS"]

_RATE, _DELTA, _SIGMA = 128 / 60_000, 1 / 60_000, 1.23
_DIMS = {13_700: "13,700", 10**9: "1e9"}
_STEPS = {1_407: "1,407", 10_000: "1e4", 1_000_000: "1e6"}
_QUICK = {(13_700, 1_407), (10**9, 1_000_000)}
_GOALS = {
    1_407: at_most(2.0, "1e4 steps in about 2 s"),
    10_000: at_most(2.0, "about 2 s"),
    1_000_000: at_most(10.0, "about 10 s"),
}

Prepare = Callable[[Settings], Task]
Note = Callable[[float, float, Settings], str]


def _vmf(dim: int) -> VonMisesFisher:
    """κ = 75 at 13,700 dimensions, and as much noise elsewhere (equal κ²/p)."""
    return VonMisesFisher(kappa=75.0 * math.sqrt(dim / 13_700), dim=dim)


def _limit_sigma(mechanism: VonMisesFisher) -> float:
    """The Gaussian that VMF noise tends to for κ far below p: sensitivity 2κ/√p, unit variance."""
    return math.sqrt(mechanism.required_dim()) / (2.0 * mechanism.kappa)


def _tight(mechanism: Mechanism, steps: int) -> Prepare:
    return lambda _: Task(lambda: epsilon(mechanism, Poisson(_RATE, steps), _DELTA))


def _renyi(mechanism: Mechanism, steps: int) -> Prepare:
    return lambda _: Task(lambda: renyi_epsilon(mechanism, Poisson(_RATE, steps), _DELTA)[0])


def _dp_accounting(kind: str, sigma: float, steps: int) -> Prepare:
    def prepare(_: Settings) -> Task:
        import dp_accounting
        from dp_accounting import pld, rdp

        event = dp_accounting.PoissonSampledDpEvent(_RATE, dp_accounting.GaussianDpEvent(sigma))
        accountant = pld.PLDAccountant if kind == "PLD" else rdp.RdpAccountant
        return Task(lambda: float(accountant().compose(event, steps).get_epsilon(_DELTA)))

    return prepare


def _prv(steps: int) -> Prepare:
    """With the settings that Opacus gives it."""

    def prepare(_: Settings) -> Task:
        from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant

        def call() -> float:
            law = PoissonSubsampledGaussianMechanism(
                sampling_probability=_RATE, noise_multiplier=_SIGMA
            )
            accountant = PRVAccountant(
                prvs=[law],
                max_self_compositions=[steps],
                eps_error=0.01,
                delta_error=_DELTA / 1000,
            )
            # Its estimate; its own upper bound lies eps_error higher.
            return float(accountant.compute_epsilon(_DELTA, [steps])[1])

        return Task(call)

    return prepare


def _agreement(remark: str = "") -> Note:
    def note(ours: float, peer: float, _: Settings) -> str:
        return f"ε {ours:.5g} against {peer:.5g}, {ours / peer - 1.0:+.2%}{remark}"

    return note


def _bracketed(mechanism: VonMisesFisher, steps: int) -> Note:
    def note(ours: float, peer: float, settings: Settings) -> str:
        said = f"ε {ours:.5g} against {peer:.5g}, {ours / peer - 1.0:+.2%}"
        if settings.quick:
            return said
        low, high = epsilon_bracket(mechanism, Poisson(_RATE, steps), _DELTA)
        return f"{said}; {1.0 - low / high:.3%} above an optimistic answer (target 1%)"

    return note


def _vmf_run(dim: int, steps: int) -> Benchmark:
    mechanism = _vmf(dim)
    return timing(
        f"tight ε, VMF, p = {_DIMS[dim]}, {_STEPS[steps]} steps",
        _tight(mechanism, steps),
        target=_GOALS[steps],
        peer=_dp_accounting("PLD", _limit_sigma(mechanism), steps),
        peer_name="dp-accounting PLD, κ ≪ p Gaussian",
        requires=("dp_accounting",),
        note=_bracketed(mechanism, steps),
        in_quick=(dim, steps) in _QUICK,
    )


def _gaussian_pld(steps: int) -> Benchmark:
    return timing(
        f"tight ε, Gaussian, {_STEPS[steps]} steps (PLD)",
        _tight(Gaussian(_SIGMA), steps),
        target=_GOALS[steps],
        peer=_dp_accounting("PLD", _SIGMA, steps),
        peer_name="dp-accounting PLD",
        requires=("dp_accounting",),
        note=_agreement(),
        in_quick=steps == 1_407,
    )


def _gaussian_prv(steps: int) -> Benchmark:
    return timing(
        f"tight ε, Gaussian, {_STEPS[steps]} steps (PRV)",
        _tight(Gaussian(_SIGMA), steps),
        target=_GOALS[steps],
        peer=_prv(steps),
        peer_name="prv-accountant",
        requires=("prv_accountant",),
        note=_agreement(" (its own error bound is ±0.01)"),
        in_quick=steps == 1_407,
    )


def _gaussian_rdp(steps: int) -> Benchmark:
    return timing(
        f"Rényi ε, Gaussian, {_STEPS[steps]} steps",
        _renyi(Gaussian(_SIGMA), steps),
        unit="ms",
        target=comparison(),
        peer=_dp_accounting("RDP", _SIGMA, steps),
        peer_name="dp-accounting RDP",
        requires=("dp_accounting",),
        note=_agreement(" (its orders are a grid, ours are real)"),
    )


BENCHMARKS = [
    *(_vmf_run(dim, steps) for dim in _DIMS for steps in _STEPS),
    *(
        benchmark(steps)
        for benchmark in (_gaussian_pld, _gaussian_prv, _gaussian_rdp)
        for steps in (1_407, 10_000)
    ),
]
