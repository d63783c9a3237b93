"""Gradient inversion, many victims at once, against the attack library ``breaching``.

It needs an environment of its own (it wants a torchvision that does not fit): install torch, SciPy
and ``breaching`` 0.1.2 there, and run this topic with this repository's ``src`` on the path. The
images are the first of CIFAR-10's test set, from the data directory.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.rows import Row, SkipBenchmark, at_least
from benchmarks.runner import Benchmark, Settings, interleave

__all__ = ["BENCHMARKS"]

_PEER = "breaching 0.1.2, one victim after the other"
_VICTIMS = 32
_TARGETS = {"mlp": 10.0, "lenet": 3.0}


def _sides(name: str, count: int) -> tuple[Any, Any]:
    import torch

    from benchmarks.attack_victims import make_case, read_images
    from benchmarks.peers.breaching_peer import Breaching

    torch.set_num_threads(1)
    try:
        peer = Breaching()
    except Exception as error:  # whatever its imports raise, it is not there to be compared with
        raise SkipBenchmark(f"breaching cannot be imported: {error}") from error
    return make_case(name, *read_images(count)), peer


def _throughput(name: str) -> Callable[[Settings], Iterator[Row]]:
    """Iterations of victims in a second of processor time, 32 victims, the preset of breaching."""

    def measure(settings: Settings) -> Iterator[Row]:
        case, peer = _sides(name, _VICTIMS)
        steps, some = (50, 2) if settings.quick else (200, 8)
        turn = 0

        def timed(call: Callable[[], Any], work: int) -> tuple[float, float]:
            wall, busy = time.perf_counter(), time.process_time()
            call()
            wall, busy = time.perf_counter() - wall, time.process_time() - busy
            return work / busy, work / wall

        def ours() -> tuple[float, float]:
            return timed(lambda: case.attack(steps), _VICTIMS * steps)

        def theirs() -> tuple[float, float]:
            # It takes victims one by one, so some of them tell its rate; all have their turn.
            nonlocal turn
            part = case.part(turn % _VICTIMS, some)
            turn += some
            return timed(lambda: peer.attack(part, steps), some * steps)

        case.attack(3)
        peer.attack(case.part(0, 1), 3)
        found = interleave({"ours": ours, "peer": theirs}, settings.repetitions)
        busy = {side: [sample[0] for sample in values] for side, values in found.items()}
        wall = {side: statistics.median(v[1] for v in values) for side, values in found.items()}
        limit = _TARGETS[name]
        yield Row(
            name=f"inverting gradients, {name}, {_VICTIMS} victims 3×32×32",
            ours=statistics.median(busy["ours"]),
            peer_name=_PEER,
            peer=statistics.median(busy["peer"]),
            unit="1/s",
            target=at_least(limit, f"≥ {limit:g} × breaching on one CPU thread", of="ratio"),
            note=f"victims × iterations in a second of processor time, {steps} iterations; by the "
            f"clock {wall['ours'] / wall['peer']:.1f} ×",
            samples=busy,
        )

    return measure


def _quality(name: str) -> Callable[[Settings], Iterator[Row]]:
    """PSNR of the same victims from the same starts after the same number of iterations."""

    def measure(settings: Settings) -> Iterator[Row]:
        del settings
        steps, count, seed = 2_000, 8, 0
        case, peer = _sides(name, count)
        ours = case.psnr(case.attack(steps, seed))
        theirs = case.psnr(peer.attack(case, steps, case.starts(seed)))
        middle = statistics.median(theirs)
        yield Row(
            name=f"inverting gradients, {name}, median PSNR",
            ours=statistics.median(ours),
            peer_name=_PEER,
            peer=middle,
            unit="dB",
            target=at_least(middle - 0.5, "within 0.5 dB of breaching, or better"),
            note=f"{count} victims, {steps:,} iterations, the same starts and labels",
            samples={"ours": ours, "peer": theirs},
        )

    return measure


_NEEDS = ("torch", "breaching", "hydra", "torchvision")
BENCHMARKS = [
    *(
        Benchmark(f"attack throughput, {name}", _throughput(name), requires=_NEEDS)
        for name in _TARGETS
    ),
    *(
        Benchmark(f"attack quality, {name}", _quality(name), requires=_NEEDS, in_quick=False)
        for name in _TARGETS
    ),
]
