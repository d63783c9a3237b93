"""L-BFGS on many independent problems at once.

torch's own takes one step length and one history for everything it is given, so one hard victim
spoils the others. Here every row has its own history, step length and end; rows that have ended
cost nothing more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from recondite import _validate

__all__ = ["Minimum", "minimise"]

# Weak Wolfe conditions, met by bisection (Lewis and Overton, 2013): safe for steep functions.
_DECREASE, _CURVATURE, _TRIES = 1e-4, 0.9, 20

Evaluate = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Minimum:
    """Where every row ended.

    Attributes:
      points: (rows, n).
      values: (rows,).
      steps: Steps that the slowest row took.
      stopped: Whether ``proceed`` ended it.
    """

    points: Tensor
    values: Tensor
    steps: int
    stopped: bool


class _History:
    """The last moves of every row, for the two-loop recursion."""

    def __init__(self, start: Tensor, size: int) -> None:
        self.moves = start.new_zeros(size, *start.shape)
        self.turns = start.new_zeros(size, *start.shape)
        self.inverse = start.new_zeros(size, len(start))
        self.scale = start.new_ones(len(start))
        self.newest = 0

    def add(self, rows: Tensor, move: Tensor, turn: Tensor) -> None:
        """A slot for all: rows that did not move, or curve the wrong way, leave theirs empty."""
        product = (move * turn).sum(1)
        good = product > 1e-10 * turn.square().sum(1).clamp_min(1e-30)
        slot = self.newest % len(self.moves)
        self.inverse[slot] = 0.0
        chosen = rows[good]
        self.moves[slot, chosen], self.turns[slot, chosen] = move[good], turn[good]
        self.inverse[slot, chosen] = 1.0 / product[good]
        self.scale[chosen] = product[good] / turn[good].square().sum(1)
        self.newest += 1

    def direction(self, rows: Tensor, gradient: Tensor) -> Tensor:
        size = len(self.moves)
        order = [slot % size for slot in range(max(0, self.newest - size), self.newest)]
        out, alphas = -gradient, {}
        moves = {slot: self.moves[slot, rows] for slot in order}
        turns = {slot: self.turns[slot, rows] for slot in order}
        for slot in reversed(order):
            alphas[slot] = self.inverse[slot, rows] * (moves[slot] * out).sum(1)
            out = out - alphas[slot].unsqueeze(1) * turns[slot]
        out = out * self.scale[rows].unsqueeze(1)
        for slot in order:
            beta = self.inverse[slot, rows] * (turns[slot] * out).sum(1)
            out = out + (alphas[slot] - beta).unsqueeze(1) * moves[slot]
        return out

    def forget(self, rows: Tensor) -> None:
        self.inverse[:, rows] = 0.0
        self.scale[rows] = 1.0


def minimise(
    evaluate: Evaluate,
    start: Tensor,
    *,
    steps: int,
    history: int = 20,
    tolerance: float = 1e-12,
    proceed: Callable[[int, Tensor], bool] | None = None,
) -> Minimum:
    """Minimises every row on its own.

    Args:
      evaluate: ``evaluate(points, rows) -> (values, gradients)`` for these rows of the problem.
      start: (rows, n).
      steps: Most steps of a row.
      history: Moves remembered.
      tolerance: A row ends when its value falls below this.
      proceed: Called with the step and all values; False ends everything.
    """
    _validate.at_least("steps", steps, 1)
    points = start.clone()
    active = torch.arange(len(points), device=points.device)
    values, gradients = evaluate(points, active)
    memory, fresh = _History(points, history), torch.ones_like(values, dtype=torch.bool)
    step = 0
    for step in range(1, steps + 1):
        direction = memory.direction(active, gradients[active])
        slope = (direction * gradients[active]).sum(1)
        # Not a way down: what is remembered no longer fits.
        wrong = ~(slope < 0)
        if bool(wrong.any()):
            memory.forget(active[wrong])
            direction[wrong] = -gradients[active[wrong]]
            slope = (direction * gradients[active]).sum(1)
        length = torch.where(
            fresh[active], (1.0 / direction.norm(dim=1).clamp_min(1e-12)).clamp(max=1.0), 1.0
        )
        found = _search(
            evaluate, active, points[active], values, gradients, direction, slope, length
        )
        new, value, gradient, moved = found
        rows = active[moved]
        memory.add(rows, (new - points[active])[moved], (gradient - gradients[active])[moved])
        points[rows], values[rows], gradients[rows] = new[moved], value[moved], gradient[moved]
        # A row that cannot move starts over from steepest descent once, then ends.
        stuck = active[~moved]
        ended = stuck[fresh[stuck]]
        memory.forget(stuck)
        fresh[rows], fresh[stuck] = False, True
        done = values[active] <= tolerance
        done |= torch.isin(active, ended)
        active = active[~done]
        if not len(active):
            break
        if proceed is not None and not proceed(step, values):
            return Minimum(points, values, step, stopped=True)
    return Minimum(points, values, step, stopped=False)


def _search(
    evaluate: Evaluate,
    active: Tensor,
    points: Tensor,
    values: Tensor,
    gradients: Tensor,
    direction: Tensor,
    slope: Tensor,
    length: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Step lengths that meet the weak Wolfe conditions, or the best decrease seen."""
    low, high = torch.zeros_like(length), torch.full_like(length, torch.inf)
    base = values[active]
    best_point, best_value, best_gradient = points.clone(), base.clone(), gradients[active].clone()
    moved = torch.zeros_like(base, dtype=torch.bool)
    open_rows = torch.arange(len(active), device=active.device)
    for _ in range(_TRIES):
        trial = points[open_rows] + length[open_rows].unsqueeze(1) * direction[open_rows]
        value, gradient = evaluate(trial, active[open_rows])
        enough = value <= base[open_rows] + _DECREASE * length[open_rows] * slope[open_rows]
        flat = (gradient * direction[open_rows]).sum(1) >= _CURVATURE * slope[open_rows]
        better = enough & (value < best_value[open_rows]) | enough & ~moved[open_rows]
        rows = open_rows[better]
        best_point[rows], best_value[rows], best_gradient[rows] = (
            trial[better],
            value[better],
            gradient[better],
        )
        moved[rows] = True
        high[open_rows] = torch.where(enough, high[open_rows], length[open_rows])
        low[open_rows] = torch.where(enough & ~flat, length[open_rows], low[open_rows])
        middle = torch.where(
            torch.isfinite(high[open_rows]),
            0.5 * (low[open_rows] + high[open_rows]),
            2.0 * length[open_rows],
        )
        length[open_rows] = middle
        open_rows = open_rows[~(enough & flat)]
        if not len(open_rows):
            break
    moved &= best_value < base
    return best_point, best_value, best_gradient, moved
