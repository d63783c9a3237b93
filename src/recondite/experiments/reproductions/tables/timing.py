"""Table 2 of Tan et al. (2024) on this machine; Table 5 of Faustini et al. (2023) recomputed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from recondite.experiments.reproductions.printed import channel as tan
from recondite.experiments.reproductions.printed import dirdp
from recondite.experiments.reproductions.tables.cells import Cell

__all__ = ["dirdp_differences", "tan_times"]


def tan_times() -> list[Cell]:
    """Times of LeNet with DP-SGD and with noise on the data, in units of plain training.

    The other networks are timed on a GPU by the benchmarks of private training.
    """
    import torch  # noqa: PLC0415
    from torch.utils.data import DataLoader, TensorDataset  # noqa: PLC0415

    from recondite.mechanisms import Gaussian  # noqa: PLC0415
    from recondite.models import build  # noqa: PLC0415
    from recondite.training import PrivacyEngine  # noqa: PLC0415

    generator = torch.Generator().manual_seed(0)
    images = torch.randn(1280, 3, 32, 32, generator=generator)
    labels = torch.arange(1280) % 10

    def timed(private: bool, noise: float) -> Callable[[], float]:
        model = build("lenet", seed=0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        loader: Any = DataLoader(TensorDataset(images, labels), batch_size=64)
        if private:
            made = PrivacyEngine(seed=0).make_private(
                module=model, optimizer=optimizer, data_loader=loader, mechanism=Gaussian(0.8)
            )
            loader = made[2]

        def epoch() -> float:
            began = time.perf_counter()
            for x, y in loader:
                seen = x + noise * torch.randn_like(x) if noise else x
                optimizer.zero_grad()
                loss: Any = torch.nn.functional.cross_entropy(model(seen), y)
                loss.backward()
                optimizer.step()
            return time.perf_counter() - began

        return epoch

    runs = {"plain": timed(False, 0.0), "dp": timed(True, 0.0), "data": timed(False, 0.5)}
    # Turn by turn, so that a busy neighbour slows all three; the least is the least disturbed.
    found = {name: min(run() for _ in range(4)) for name, run in runs.items()}
    _, plain, private, noisy = tan.TABLE_2["lenet"]
    why = "one epoch of 20 steps on this machine; a ratio of times, so ±30% on a shared one"
    return [
        Cell(
            f"LeNet, {name} over SGD",
            known / plain,
            found[key] / found["plain"],
            unit="ratio",
            why=why,
        )
        for name, key, known in (("DP-SGD", "dp", private), ("noise on data", "data", noisy))
    ]


def dirdp_differences() -> list[Cell]:
    """Table 5 from Tables 3 and 4: VMF minus Gaussian, so the caption's sign is reversed."""
    cells = []
    for (model, epsilon), five in dirdp.TABLE_5.items():
        for place, data in enumerate(("fashion-mnist", "cifar10")):
            gap = (
                dirdp.TABLE_3[model, "vmf", epsilon, data]
                - dirdp.TABLE_3[model, "gaussian", epsilon, data]
            )
            cells.append(Cell(f"{model}, {epsilon:g}, {data}: ΔMIA-R", five[place], round(gap, 2),
                              unit="points", why="VMF minus Gaussian"))  # fmt: skip
        for place, data in enumerate(("fashion-mnist", "cifar10", "lfw")):
            gap = (
                dirdp.TABLE_4[model, "vmf", epsilon, data]
                - dirdp.TABLE_4[model, "gaussian", epsilon, data]
            )
            cells.append(Cell(f"{model}, {epsilon:g}, {data}: ΔIGA", five[place + 2], round(gap, 2),
                              unit="MSE", why="VMF minus Gaussian"))  # fmt: skip
    return cells
