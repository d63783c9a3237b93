"""Table 5 of Faustini et al. (2023), recomputed from its Tables 3 and 4."""

from __future__ import annotations

from recondite_papers.printed import dirdp
from recondite_papers.tables.cells import Cell

__all__ = ["dirdp_differences"]


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
