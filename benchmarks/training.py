"""Steps of private training: ours against every mode of Opacus, and against plain SGD."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.rows import Row, Target, at_most, comparison
from benchmarks.runner import Benchmark, Settings, StepTime, interleave, median_of

__all__ = ["BENCHMARKS"]

_OPACUS_MODES = ("ghost", "hooks", "ew")
_MODELS = {"mlp": ((1, 16, 16), 128), "lenet-dlg": ((3, 32, 32), 64), "lenet": ((3, 32, 32), 512)}


def _loader(shape: tuple[int, ...], batch: int, records: int = 2_000) -> Any:
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    data = TensorDataset(torch.randn(records, *shape), torch.randint(0, 10, (records,)))
    return DataLoader(data, batch_size=batch)


class _Steps:
    """A training loop that can be asked for the time of some more steps, loading left out."""

    def __init__(self, model: Any, optimizer: Any, loader: Any, criterion: Any) -> None:
        self.model, self.optimizer, self.loader = model, optimizer, loader
        self.criterion, self._batches = criterion, iter(loader)

    def _next(self) -> Any:
        try:
            return next(self._batches)
        except StopIteration:
            self._batches = iter(self.loader)
            return next(self._batches)

    def time(self, steps: int) -> StepTime:
        times, spent = [], 0.0
        for _ in range(steps):
            images, labels = self._next()
            start, before = time.perf_counter(), time.process_time()
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(images), labels)
            loss.backward()
            self.optimizer.step()
            times.append(time.perf_counter() - start)
            spent += time.process_time() - before
        return StepTime(1e3 * statistics.median(times), 1e3 * spent / steps)


def _model(name: str) -> Any:
    from recondite.models import build

    return build(name, _MODELS[name][0], seed=0)


def _plain(name: str) -> _Steps:
    import torch

    model = _model(name)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    return _Steps(model, optimizer, _loader(*_MODELS[name]), torch.nn.CrossEntropyLoss())


def _ours(name: str, mechanism: Any) -> _Steps:
    import torch

    from recondite.training import PrivacyEngine

    model = _model(name)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=optimizer,
        data_loader=_loader(*_MODELS[name]),
        mechanism=mechanism,
    )
    return _Steps(model, optimizer, loader, torch.nn.CrossEntropyLoss())


def _opacus(name: str, mode: str) -> _Steps:
    import torch
    from opacus import PrivacyEngine

    warnings.simplefilter("ignore")
    model, criterion = _model(name), torch.nn.CrossEntropyLoss()
    made = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.05),
        data_loader=_loader(*_MODELS[name]),
        noise_multiplier=1.23,
        max_grad_norm=1.0,
        grad_sample_mode=mode,
        criterion=criterion,
    )
    if mode == "ghost":
        model, optimizer, criterion, loader = made
    else:
        model, optimizer, loader = made
    return _Steps(model, optimizer, loader, criterion)


def _medians(sides: dict[str, Callable[[], _Steps]], settings: Settings) -> dict[str, StepTime]:
    loops = {side: make() for side, make in sides.items()}
    steps = 10 if settings.quick else 30
    for loop in loops.values():
        loop.time(5)
    calls = {side: (lambda loop=loop: loop.time(steps)) for side, loop in loops.items()}
    return median_of(interleave(calls, settings.repetitions))


def _row(what: str, found: dict[str, StepTime], ours: str, peer: str, target: Target) -> Row:
    return Row(
        name=what,
        ours=found[ours].ms,
        peer_name=peer,
        peer=found[peer].ms,
        processor_ratio=found[ours].processor_ms / found[peer].processor_ms,
        unit="ms",
        target=target,
    )


def _rows(name: str) -> Callable[[Settings], Iterator[Row]]:
    def measure(settings: Settings) -> Iterator[Row]:
        import torch

        import recondite as rc

        torch.set_num_threads(1)
        sides: dict[str, Callable[[], _Steps]] = {
            "plain SGD": lambda: _plain(name),
            "gaussian": lambda: _ours(name, rc.Gaussian(1.23)),
            "vmf": lambda: _ours(name, rc.VonMisesFisher(75.0)),
        }
        for mode in _OPACUS_MODES:
            sides[f"Opacus {mode}"] = lambda mode=mode: _opacus(name, mode)  # type: ignore[misc]
        found = _medians(sides, settings)
        best = min(
            (side for side in found if side.startswith("Opacus")), key=lambda side: found[side].ms
        )
        limit = at_most(0.8, "≤ 0.8 × the fastest Opacus mode", of="ratio")
        for mechanism in ("gaussian", "vmf"):
            yield _row(f"step, {name}, {mechanism}", found, mechanism, best, limit)
            yield _row(f"step, {name}, {mechanism}", found, mechanism, "plain SGD", comparison())
        noise = at_most(1.2, "≤ 1.2 × Gaussian noise", of="ratio")
        yield _row(f"step, {name}, vmf", found, "vmf", "gaussian", noise)

    return measure


def _directional(settings: Settings) -> Iterator[Row]:
    """Noise on each record, 62,006 parameters, batches of 512."""
    import torch

    import recondite as rc

    torch.set_num_threads(1)
    sides: dict[str, Callable[[], _Steps]] = {
        "directional": lambda: _ours("lenet", rc.Directional(10.0)),
        "Opacus hooks": lambda: _opacus("lenet", "hooks"),
    }
    found = _medians(sides, Settings(min(3, settings.repetitions), quick=True))
    limit = at_most(2.0, "≤ 2 × Opacus hooks with Gaussian noise", of="ratio")
    yield _row(
        "step, lenet (62,006), batch 512, directional", found, "directional", "Opacus hooks", limit
    )


BENCHMARKS = [
    *(
        Benchmark(f"private steps, {name}", _rows(name), requires=("torch", "opacus"))
        for name in ("mlp", "lenet-dlg")
    ),
    Benchmark(
        "private steps, directional", _directional, requires=("torch", "opacus"), in_quick=False
    ),
]
