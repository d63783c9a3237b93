"""Trainings of ordinary networks side by side: a step of all runs is recorded once.

The networks here are too large for a stack (one tensor for the weights of all runs) and too small
to fill a GPU by themselves, so the runs of a block share it by streams within the recording.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from recondite_papers.stacked.graph import Replayed

__all__ = ["Draw", "drawn_from", "precision", "right_share", "tensor_cores", "train_all"]

Draw = Callable[[torch.Generator], tuple[Tensor, Tensor]]
_LOOK = 250  # steps between two looks at the clock
_SIDE_BY_SIDE = True  # whether runs have streams of their own


@contextmanager
def tensor_cores(allowed: bool = True) -> Iterator[None]:
    """TensorFloat-32 for convolutions and matrix products on a GPU, or neither."""
    matrices, maps = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matrices.allow_tf32, maps.allow_tf32
    matrices.allow_tf32, maps.allow_tf32 = allowed, allowed
    try:
        yield
    finally:
        matrices.allow_tf32, maps.allow_tf32 = before


def precision(device: str) -> str:
    """What rows say of the arithmetic of a training here."""
    if torch.device(device).type == "cuda":
        return "TF32 in convolutions and products, float32 elsewhere"
    return "float32"


def drawn_from(images: Tensor, labels: Tensor, batch: int) -> Draw:
    """Batches drawn with replacement, where the records are."""

    def draw(generator: torch.Generator) -> tuple[Tensor, Tensor]:
        index = torch.randint(len(images), (batch,), generator=generator, device=images.device)
        return images[index], labels[index]

    return draw


def train_all(
    nets: Sequence[nn.Module],
    draws: Sequence[Draw],
    steps: int,
    *,
    seeds: Sequence[int],
    device: str,
    rate: float = 0.001,
    deadline: float | None = None,
) -> int:
    """Trains every network by Adam on its own batches; returns the number of steps done.

    Nothing is asked of the device within a step. Every run draws from a generator of its own, so
    that what it becomes does not depend on the others.

    Args:
      nets: On the device, in training mode.
      draws: Of each, a function of the run's generator that gives a batch.
      steps: How many.
      seeds: Of each run's generator.
      device: Where all of this is.
      rate: Adam's.
      deadline: Time (of ``time.monotonic``) after which training stops.
    """
    place = torch.device(device)
    on_cuda = place.type == "cuda"
    generators = [torch.Generator(place).manual_seed(seed) for seed in seeds]
    runs = [
        _step(net, draw, generator, rate, on_cuda)
        for net, draw, generator in zip(nets, draws, generators, strict=True)
    ]
    together = _forked(runs) if on_cuda and _SIDE_BY_SIDE and len(runs) > 1 else _in_turn(runs)
    step = Replayed(together, place, generators)
    done = 0
    with _measured_kernels():
        while done < steps:
            step()
            done += 1
            if deadline is not None and done % _LOOK == 0:
                if on_cuda:
                    torch.cuda.synchronize()  # or the clock would time the launches
                if time.monotonic() > deadline:
                    break
    if on_cuda:
        torch.cuda.synchronize()
    return done


def _in_turn(runs: Sequence[Callable[[], None]]) -> Callable[[], None]:
    def step() -> None:
        for run in runs:
            run()

    return step


def _forked(runs: Sequence[Callable[[], None]]) -> Callable[[], None]:
    """All runs at once, each on a stream that begins and ends with the caller's.

    Libraries keep a workspace for each stream: runs that were recorded on one stream and replayed
    at once would write to the same one.
    """
    # torch gives its streams no types.
    streams: list[Any] = [torch.cuda.Stream() for _ in runs]  # type: ignore[no-untyped-call]

    def step() -> None:
        here = torch.cuda.current_stream()
        for stream, run in zip(streams, runs, strict=True):
            stream.wait_stream(here)
            with torch.cuda.stream(stream):
                run()
        for stream in streams:
            here.wait_stream(stream)

    return step


def _step(
    net: nn.Module, draw: Draw, generator: torch.Generator, rate: float, on_cuda: bool
) -> Callable[[], None]:
    """One step: fixed weights, moments and step counters, all on the device."""
    optimizer = torch.optim.Adam(net.parameters(), rate, fused=True, capturable=on_cuda)

    def step() -> None:
        with torch.no_grad():
            # Noise is made in full precision: its law is what is under test.
            images, labels = draw(generator)
        optimizer.zero_grad(set_to_none=True)
        with tensor_cores():
            loss = nn.functional.cross_entropy(net(images), labels)
            torch.autograd.backward(loss)
        optimizer.step()

    return step


@contextmanager
def _measured_kernels() -> Iterator[None]:
    """The libraries try out their convolutions before the first steps."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


@torch.no_grad()
def right_share(net: nn.Module, images: Tensor, labels: Tensor, batch: int = 1000) -> float:
    """Share of the records that a network gets right."""
    with tensor_cores():
        guess = torch.cat([net(part).argmax(1) for part in torch.split(images, batch)])
    return float((guess == labels).float().mean())
