"""Steps of training on records that a channel made noisy, against plain SGD on the same records.

A step is all of it: the batch from the loader (where the noise is drawn), forward, backward,
optimizer. Plain SGD takes its batches from torch's loader, the one that was protected; the quickest
loader there is, which indexes tensors at once, is shown beside it. White and minimum-power noise on
every step follows as few directions as in a training (``following("auto")``); all, to compare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.rows import Row, Target, at_most, comparison
from benchmarks.runner import Benchmark, Settings, StepTime, interleave, median_of, median_step

__all__ = ["BENCHMARKS"]

_SHAPE, _BATCH, _RECORDS, _CAPACITY = (3, 32, 32), 64, 4_096, 100.0


class _Indexed:
    """Shuffled batches of tensors, each by one indexing."""

    def __init__(self, data: Any) -> None:
        self.tensors = data.tensors

    def __iter__(self) -> Iterator[Any]:
        import torch

        for places in torch.randperm(len(self.tensors[0])).split(_BATCH):
            yield tuple(part[places] for part in self.tensors)


class _Loop:
    """Training whose next steps can be timed, loading included."""

    def __init__(self, name: str, loader: Any) -> None:
        import torch

        from recondite.models import build

        self.model = build(name, _SHAPE, seed=0).train()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.criterion = torch.nn.CrossEntropyLoss()
        self.loader, self._batches = loader, iter(loader)

    def _step(self) -> bool:
        batch = next(self._batches, None)
        if batch is None:
            self._batches = iter(self.loader)
            return False
        self.optimizer.zero_grad()
        self.criterion(self.model(batch[0]), batch[1]).backward()
        self.optimizer.step()
        return True

    def time(self, steps: int) -> StepTime:
        return median_step(self._step, steps)


def _note(channel: Any) -> str:
    """Along how many directions the noise is, and how much there is of it."""
    count = channel.noise.directions
    followed = f"{count:,} of {channel.dim:,} directions, " if count else ""
    return f"{followed}noise power {channel.noise.power:.3g}"


def _records() -> Any:
    import torch
    from torch.utils.data import TensorDataset

    generator = torch.Generator().manual_seed(0)
    # Correlated like pixels, so that channels that follow the spectrum have one to follow.
    coarse = torch.randn(_RECORDS, 3, 8, 8, generator=generator)
    fine = torch.randn(_RECORDS, *_SHAPE, generator=generator)
    images = torch.nn.functional.interpolate(coarse, scale_factor=4, mode="bilinear") + 0.1 * fine
    return TensorDataset(images, torch.randint(0, 10, (_RECORDS,), generator=generator))


def _rows(name: str) -> Callable[[Settings], Iterator[Row]]:
    def measure(settings: Settings) -> Iterator[Row]:
        import torch
        from torch.utils.data import DataLoader

        from recondite.channels import Spectrum
        from recondite.channels.registry import CHANNELS, centre_weights

        torch.set_num_threads(1)
        data = _records()
        flat = data.tensors[0].flatten(1).numpy()
        kinds = ("natural",) if settings.quick else tuple(CHANNELS)
        spectrum = Spectrum.of(flat, vectors=not settings.quick)
        fitted = {}
        for kind in kinds:
            extra = {"beta": centre_weights(_SHAPE)} if kind == "personalized" else {}
            fitted[kind] = CHANNELS[kind].from_spectrum(spectrum, _CAPACITY, **extra)

        def plain() -> Any:
            return DataLoader(data, batch_size=_BATCH, shuffle=True)

        notes: dict[str, str] = {}
        sides: dict[str, Any] = dict(zip(_PLAIN, (plain(), _Indexed(data)), strict=True))
        for kind, channel in fitted.items():
            for noise in ("once", "per_step"):
                if noise == "once" and kind != "natural":
                    continue  # once it is drawn, noise of any kind is just records
                few = channel.following("auto") if noise == "per_step" else channel
                sides[f"{kind}, {noise}"] = few.protect(plain(), noise=noise)
                notes[f"{kind}, {noise}"] = _note(few)
                if few.noise.directions != channel.noise.directions:
                    side = f"{kind}, {noise}, all directions"
                    sides[side] = channel.protect(plain(), noise=noise)
                    notes[side] = _note(channel)
        loops = {side: _Loop(name, loader) for side, loader in sides.items()}
        for loop in loops.values():
            loop.time(5)
        steps = 20 if settings.quick else 60
        calls = {side: (lambda loop=loop: loop.time(steps)) for side, loop in loops.items()}
        found = median_of(interleave(calls, settings.repetitions))
        for side, value in found.items():
            if side in _PLAIN:
                continue
            for peer in _PLAIN:
                # The loader that is protected is torch's: that is what a step is held against.
                target = _TARGETS.get(side, comparison()) if peer == _PLAIN[0] else comparison()
                yield Row(
                    name=f"step with loading, {name}, {side}",
                    ours=value.ms,
                    peer_name=peer,
                    peer=found[peer].ms,
                    processor_ratio=value.processor_ms / found[peer].processor_ms,
                    unit="ms",
                    target=target,
                    note=notes[side],
                )

    return measure


_PLAIN = ("plain SGD", "plain SGD on indexed tensors")
_TARGETS: dict[str, Target] = {
    "natural, once": at_most(1.05, "≤ 1.05 × plain SGD", of="ratio"),
    "natural, per_step": at_most(1.10, "≤ 1.10 × plain SGD", of="ratio"),
    "white, per_step": at_most(1.25, "≤ 1.25 × plain SGD", of="ratio"),
    "minimum-power, per_step": at_most(1.25, "≤ 1.25 × plain SGD", of="ratio"),
}

BENCHMARKS = [
    Benchmark("channel training, lenet", _rows("lenet"), requires=("torch",)),
]
