"""Drawing from the von Mises-Fisher law: time, and peak memory above the input."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.processes import in_child
from benchmarks.rows import Row, at_most, comparison
from benchmarks.runner import Benchmark, Settings, Task, interleave, timing
from recondite import Directional, Gaussian, VonMisesFisher
from recondite.numerics.secure import SecureGenerator
from recondite.numerics.sphere import sample_vmf

__all__ = ["BENCHMARKS"]

_KAPPA, _SIGMA = 75.0, 0.1
_ROWS, _DIM = 512, 62_006
_QUICK_ROWS = 128
_NOISE = "Gaussian noise, torch"


def _numpy_draw(dim: int) -> Callable[[Settings], Task]:
    direction = np.ones(dim) / np.sqrt(dim)
    return lambda _: Task(lambda: sample_vmf(direction, _KAPPA))


def _scipy_draw(dim: int) -> Callable[[Settings], Task]:
    def prepare(_: Settings) -> Task:
        from scipy.stats import vonmises_fisher

        law, rng = vonmises_fisher(np.ones(dim) / np.sqrt(dim), _KAPPA), np.random.default_rng()
        return Task(lambda: law.rvs(1, random_state=rng))

    return prepare


def _tensor(*shape: int) -> Any:
    import torch

    return torch.randn(shape)


def _torch_draw(shape: Callable[[Settings], tuple[int, ...]]) -> Callable[[Settings], Task]:
    def prepare(settings: Settings) -> Task:
        gradient = _tensor(*shape(settings))
        return Task(lambda: sample_vmf(gradient, _KAPPA))

    return prepare


def _add_noise(gradient: Any) -> Any:
    """Adding Gaussian noise, without a temporary: the leanest and fastest way in torch."""
    import torch

    return torch.randn_like(gradient).mul_(_SIGMA).add_(gradient)


def _torch_noise(shape: Callable[[Settings], tuple[int, ...]]) -> Callable[[Settings], Task]:
    def prepare(settings: Settings) -> Task:
        gradient = _tensor(*shape(settings))
        return Task(lambda: _add_noise(gradient))

    return prepare


def _release(mechanism: Any, *, secure: bool) -> Callable[[Settings], Task]:
    def prepare(_: Settings) -> Task:
        gradient, source = _tensor(1_000_000), SecureGenerator() if secure else None
        return Task(lambda: mechanism.perturb(gradient, source))

    return prepare


def _million(_: Settings) -> tuple[int, ...]:
    return (1_000_000,)


def _batch(settings: Settings) -> tuple[int, ...]:
    return _QUICK_ROWS if settings.quick else _ROWS, _DIM


# What follows runs in processes of its own. Each prepares its input and returns the task.
def batch_vmf(rows: int) -> Callable[[], None]:
    """Noise on every row of a tensor."""
    return _silent(sample_vmf, _tensor(rows, _DIM), _KAPPA)


def batch_vmf_numpy(rows: int) -> Callable[[], None]:
    """Noise on every row of an array."""
    gradients = np.random.default_rng().standard_normal((rows, _DIM), dtype=np.float32)
    return _silent(sample_vmf, gradients, _KAPPA)


def batch_blocks(rows: int) -> Callable[[], None]:
    """Noise on five blocks of every row of a tensor."""
    mechanism = Directional(kappa=_KAPPA, dim=_DIM, blocks=5)
    return _silent(mechanism.perturb_records, _tensor(rows, _DIM))


def batch_directional(rows: int) -> Callable[[], None]:
    """A whole release of DirDP-SGD: noise on five blocks of every row, then the average."""
    mechanism = Directional(kappa=_KAPPA, dim=_DIM, blocks=5)
    return _silent(mechanism.perturb, _tensor(rows, _DIM))


def batch_noise(rows: int) -> Callable[[], None]:
    """Gaussian noise on a tensor."""
    return _silent(_add_noise, _tensor(rows, _DIM))


def _silent(function: Callable[..., Any], *arguments: Any) -> Callable[[], None]:
    # The first calls of a library allocate and load code of their own: not part of the question.
    small = (arguments[0][:1], *arguments[1:])
    function(*small)

    def task() -> None:
        function(*arguments)

    return task


_MEMORY = {
    "torch": batch_vmf,
    "NumPy": batch_vmf_numpy,
    "torch, five blocks": batch_blocks,
    "torch, DirDP release of five blocks": batch_directional,
}

_QUICK_MEMORY = ("torch", "torch, five blocks")


def _memory(settings: Settings) -> Iterator[Row]:
    rows = _batch(settings)[0]
    input_bytes = rows * _DIM * 4
    names = _QUICK_MEMORY if settings.quick else tuple(_MEMORY)
    sides = {name: partial(in_child, _MEMORY[name], rows) for name in names}
    sides["peer"] = partial(in_child, batch_noise, rows)
    samples = interleave(sides, 1 if settings.quick else min(2, settings.repetitions))
    peaks = {
        side: [s.peak_bytes / input_bytes for s in several] for side, several in samples.items()
    }
    for name in names:
        yield Row(
            name=f"VMF memory, {rows} × {_DIM:,} float32, {name}",
            ours=statistics.median(peaks[name]),
            unit="× input",
            target=at_most(2.0, "peak above the input at most 2× the input"),
            peer_name=_NOISE,
            peer=statistics.median(peaks["peer"]),
            note="peak resident memory less that before the call; the result itself is 1",
            samples={"ours": peaks[name], "peer": peaks["peer"]},
        )


_RELEASES = {"Gaussian": Gaussian(1.0), "VMF": VonMisesFisher(_KAPPA, 1_000_000)}

BENCHMARKS = [
    timing(
        "VMF draw, p = 13,700, NumPy",
        _numpy_draw(13_700),
        unit="ms",
        target=at_most(1.0, "about 1 ms"),
        note="SciPy needs 285 s and 7 GB for one draw here (measured once, not in this run)",
    ),
    timing(
        "VMF draw, p = 1,000, NumPy",
        _numpy_draw(1_000),
        unit="ms",
        target=comparison(),
        peer=_scipy_draw(1_000),
        peer_name="scipy.stats.vonmises_fisher",
        note="compared at 1,000 because SciPy's cost grows with the cube of p",
        most=3,
    ),
    timing(
        "VMF draw, p = 1e6, torch on the CPU",
        _torch_draw(_million),
        unit="ms",
        target=at_most(2.0, "at most 2× the time of Gaussian noise", of="ratio"),
        peer=_torch_noise(_million),
        peer_name=_NOISE,
        requires=("torch",),
    ),
    timing(
        "VMF draws, rows × 62,006 float32, torch",
        _torch_draw(_batch),
        unit="ms",
        target=comparison(),
        peer=_torch_noise(_batch),
        peer_name=_NOISE,
        requires=("torch",),
        note=f"{_ROWS} rows ({_QUICK_ROWS} with --quick)",
    ),
    *(
        timing(
            f"secure mode, {what} release, p = 1e6, torch on the CPU",
            _release(mechanism, secure=True),
            unit="ms",
            target=comparison(),
            peer=_release(mechanism, secure=False),
            peer_name="the same, not secure",
            requires=("torch",),
        )
        for what, mechanism in _RELEASES.items()
    ),
    Benchmark("VMF memory", _memory, ("torch",)),
]
