"""Fitting channels on records: time and peak memory, against NumPy written by hand."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import fft

from benchmarks.processes import Sample, in_child
from benchmarks.rows import Row, Target, at_most, comparison
from benchmarks.runner import Benchmark, Settings, interleave
from recondite import NaturalChannel, WhiteChannel

__all__ = ["BENCHMARKS"]

_CAPACITY = 100.0


def _write_records(path: Path, records: int, dim: int) -> None:
    """Records whose spectrum decays like 1/i, as that of images does, mixed by a cosine basis."""
    rng = np.random.default_rng(0)
    deviations = (1.0 + np.arange(dim, dtype=np.float32)) ** -0.5
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(records, dim))
    step = max(1, (1 << 22) // dim)
    for start in range(0, records, step):
        count = min(step, records - start)
        block = rng.standard_normal((count, dim), dtype=np.float32) * deviations
        out[start : start + count] = fft.dct(block, axis=1, norm="ortho", overwrite_x=True)
    out.flush()


# What follows runs in processes of its own. Each loads its input and returns the task.
def natural(path: str) -> Callable[[], float]:
    """Fits the natural channel."""
    return _warmed(lambda data: NaturalChannel.fit(data, _CAPACITY).capacity_nats, path)


def white(path: str) -> Callable[[], float]:
    """Fits the white channel and perturbs a batch, for which it needs the eigenvectors."""

    def task(data: Any) -> float:
        channel = WhiteChannel.fit(data, _CAPACITY)
        channel.perturb(data[:64])
        return channel.capacity_nats

    return _warmed(task, path)


def covariance_by_hand(path: str) -> Callable[[], float]:
    """The spectrum of numpy.cov."""
    return _warmed(lambda data: float(np.linalg.eigvalsh(np.cov(data, rowvar=False))[-1]), path)


def vectors_by_hand(path: str) -> Callable[[], float]:
    """The eigenvectors of numpy.cov."""
    return _warmed(lambda data: float(np.linalg.eigh(np.cov(data, rowvar=False))[0][-1]), path)


def gram_by_hand(path: str) -> Callable[[], float]:
    """The spectrum of the n×n Gram matrix of a centred float64 copy."""

    def task(data: Any) -> float:
        centred = data.astype(np.float64)
        centred -= centred.mean(axis=0)
        return float(np.linalg.eigvalsh(centred @ centred.T / (len(data) - 1))[-1])

    return _warmed(task, path)


def _warmed(fit: Callable[[Any], float], path: str) -> Callable[[], float]:
    """The fit of the records in ``path``, after one of a few, which loads what is loaded lazily."""
    data = np.load(path)
    fit(np.ascontiguousarray(data[:16, :8]))
    return lambda: fit(data)


def _fit(
    name: str,
    shape: tuple[int, int],
    quick: tuple[int, int],
    ours: Callable[[str], Any],
    peer: Callable[[str], Any],
    peer_name: str,
    time_target: Target,
    memory_target: Target,
    in_quick: bool = True,
    most: int = 3,
) -> Benchmark:
    def measure(settings: Settings) -> Iterator[Row]:
        records, dim = quick if settings.quick else shape
        with tempfile.TemporaryDirectory(prefix="recondite-bench-") as folder:
            path = Path(folder) / "records.npy"
            _write_records(path, records, dim)
            sides: dict[str, Callable[[], Sample]] = {
                "ours": partial(in_child, ours, str(path)),
                "peer": partial(in_child, peer, str(path)),
            }
            samples = interleave(sides, min(2 if settings.quick else most, settings.repetitions))
        goal = comparison() if settings.quick else time_target  # goals are for the full size
        size = f"d = {dim:,}, {records:,} records"
        achieved = samples["ours"][0].result
        met = f"capacity asked {_CAPACITY:g} nats, met to {1.0 - achieved / _CAPACITY:.1e}"
        yield _row(f"{name}, {size}", "s", _seconds, samples, peer_name, goal, met)
        input_bytes = records * dim * 4
        yield _row(
            f"{name}, memory, {size}",
            "× input",
            lambda s: s.peak_bytes / input_bytes,
            samples,
            peer_name,
            memory_target,
            f"peak above a float32 input of {input_bytes / 1e6:,.0f} MB; "
            f"a d×d matrix would be {8 * dim * dim / input_bytes:.3g}",
        )

    return Benchmark(name, measure, in_quick=in_quick)


def _seconds(sample: Sample) -> float:
    return sample.seconds


def _row(
    name: str,
    unit: str,
    value: Callable[[Sample], float],
    samples: dict[str, list[Sample]],
    peer_name: str,
    target: Target,
    note: str,
) -> Row:
    values = {side: [value(sample) for sample in several] for side, several in samples.items()}
    medians = {side: statistics.median(several) for side, several in values.items()}
    return Row(
        name=name,
        ours=medians["ours"],
        unit=unit,
        target=target,
        peer_name=peer_name,
        peer=medians["peer"],
        note=note,
        samples=values,
    )


_WIDE, _TALL = (1_000, 150_528), (20_000, 3_072)
_QUICK_WIDE, _QUICK_TALL = (300, 50_176), (4_000, 1_024)

BENCHMARKS = [
    _fit(
        "natural channel, covariance",
        _TALL,
        _QUICK_TALL,
        natural,
        covariance_by_hand,
        "eigvalsh(numpy.cov)",
        at_most(10.0, "about 10 s"),
        comparison(),
    ),
    _fit(
        "white channel with noise drawn, covariance",
        _TALL,
        _QUICK_TALL,
        white,
        vectors_by_hand,
        "eigh(numpy.cov)",
        at_most(10.0, "about 10 s"),
        comparison(),
        in_quick=False,
        most=2,
    ),
    _fit(
        "natural channel, Gram",
        _WIDE,
        _QUICK_WIDE,
        natural,
        gram_by_hand,
        "NumPy Gram matrix in float64",
        comparison(),
        at_most(5.0, "without a d×d matrix"),
    ),
]
