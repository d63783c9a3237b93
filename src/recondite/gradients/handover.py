"""What a mechanism is told of a model's gradients, what it is handed, and what comes back."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from recondite.gradients.clipping import Bound, safe_factors
from recondite.gradients.collector import Collector, sizes_of
from recondite.gradients.layers import rules_for
from recondite.gradients.layers.norms import above
from recondite.mechanisms import Mechanism, Neighbouring, Setting, Units
from recondite.mechanisms.none import hands_over
from recondite.mechanisms.releasing import Late, draw

__all__ = [
    "Handover",
    "Turn",
    "bound_rows",
    "directions_sum",
    "planned_setting",
    "setting_of",
    "units_of",
]


@dataclass(frozen=True, eq=False)
class Turn:
    """One release as the attacker of the proof sees it, in units of one record's bound.

    Attributes:
      total: The bounded sum of the whole batch, before noise; of unit directions where noise is on
        each record. For each game the attacker knows all of it but the target's own part.
      release: What the mechanism made of it; where noise is on each record, the sum over records.
      records: Places, in the training set, of the records of the batch.
    """

    total: Tensor
    release: Tensor
    records: Sequence[int]


class Handover:
    """Hands a mechanism the gradients of a run in units, and scales its releases back.

    Attributes:
      mechanism: Configured for the model.
      units: What its units are in the model's gradients.
      state: What a mechanism with memory remembers; None without.
      late: What a GPU has not answered yet.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        collector: Collector,
        bound: Bound,
        batch_size: int,
        max_batch_size: int,
    ) -> None:
        self.mechanism = mechanism.configured(
            setting_of(collector, bound, batch_size, max_batch_size)
        )
        self.units = units_of(collector, bound, batch_size)
        made = self.mechanism
        self.state = made.initial_state() if made.stateful else None
        self.late = Late()
        self._collector, self._bound = collector, bound

    @property
    def plain(self) -> bool:
        """Whether what is handed over comes back as it is. Any other must be asked."""
        return hands_over(self.mechanism)

    @property
    def per_record(self) -> bool:
        """Whether the mechanism gets one row a record."""
        return self.mechanism.stage == "record"

    def rows(self, gradients: Tensor, generator: Any) -> Tensor:
        """The sum, in units, of what the mechanism makes of each record's gradient."""
        if self.mechanism.bounded:
            gradients = bound_rows(gradients, self._collector, self._bound)
        handed = self.units.of(gradients, reuse=True)
        released: Tensor = draw(self.mechanism, handed, generator, self.state, self.late) * len(
            gradients
        )
        return released

    def gradient(
        self,
        total: Tensor,
        generator: Any,
        observers: Sequence[Callable[[Tensor, Tensor], None]] = (),
    ) -> Tensor:
        """What is released, in the model's numbers, from the sum of a batch.

        Args:
          total: Of bounded gradients; of what :meth:`rows` gave, for noise on each record.
          generator: Where noise comes from.
          observers: Get the sum and its release, both in units; not for noise on each record.
        """
        self.late.check()
        if not self.per_record:
            handed = self.units.of(total, reuse=True)
            before = handed.clone() if observers else handed
            total = draw(self.mechanism, handed, generator, self.state, self.late)
            for observer in observers:
                observer(before, total)
        released: Tensor = self.units.released(total, self.mechanism)
        return released

    def state_dict(self) -> dict[str, Any]:
        """The mechanism's state, for a checkpoint; empty without one."""
        return {} if self.state is None else {"mechanism_state": copy.deepcopy(self.state)}

    def check_state(self, found: dict[str, Any]) -> None:
        """Raises ``ValueError`` where a checkpoint lacks the state of a mechanism that has one."""
        if self.state is not None and "mechanism_state" not in found:
            raise ValueError(
                f"checkpoint has no state of {self.mechanism.name}, which goes on from one: "
                "start a new run"
            )

    def load_state_dict(self, found: dict[str, Any]) -> None:
        """Goes on from a checkpoint's state."""
        self.check_state(found)
        if self.state is not None:
            self.state = copy.deepcopy(found["mechanism_state"])

    def refuse_unbounded(self, relation: Neighbouring) -> None:
        """Raises ``ValueError`` where noise is finite and what it covers has no bound."""
        mechanism = self.mechanism
        noisy = math.isfinite(float(mechanism.loss(relation).renyi([2.0])[0]))
        if not noisy or mechanism.scale_free:
            return
        if not mechanism.bounded:
            raise ValueError(
                f"{mechanism.name} asks for gradients that nothing bounds, and its loss is finite: "
                "its sensitivity is not; leave bounded = True"
            )
        if not math.isfinite(self._bound.norm):
            raise ValueError(
                f'clipping="none" leaves {mechanism.name} noise without a sensitivity: bound the '
                "gradients"
            )


def setting_of(collector: Collector, bound: Bound, batch_size: int, max_batch_size: int) -> Setting:
    """What a mechanism is told: nothing that it could scale its noise by wrongly."""
    return Setting(
        tuple(tuple(p.shape) for p in collector.parameters),
        max_batch_size=max_batch_size,
        batch_size=batch_size,
        layers=None if bound.layer_norms() is None else collector.layer_sizes,
    )


def planned_setting(
    model: nn.Module, bound: Callable[[int], Bound], batch_size: int, max_batch_size: int
) -> Setting:
    """As :func:`setting_of`, of a model that nothing is attached to yet: for calibration.

    Args:
      model: The model, as it will be trained.
      bound: Gives the bound on one record's gradient for so many layers.
      batch_size: The expected number of records in a batch.
      max_batch_size: The largest batch.
    """
    rules = rules_for(model)
    apart = bound(len(rules)).layer_norms() is not None
    return Setting(
        tuple(tuple(p.shape) for p in model.parameters() if p.requires_grad),
        max_batch_size=max_batch_size,
        batch_size=batch_size,
        layers=sizes_of(rules) if apart else None,
    )


def units_of(collector: Collector, bound: Bound, batch_size: int) -> Units:
    """The units of a run: one record's bound, and the divisor of its sums.

    Gradients that nothing bounds are handed over as they are; only a mechanism that promises
    nothing, or releases directions, may get them.
    """
    norms = bound.layer_norms()
    if norms is None:
        return Units((bound.norm if math.isfinite(bound.norm) else 1.0,), batch_size)
    owner = _owners(collector)
    return Units(
        tuple(norms[owner[p]] for p in collector.parameters),
        batch_size,
        tuple(p.numel() for p in collector.parameters),
    )


def directions_sum(rows: Tensor) -> Tensor:
    """The sum of the rows' unit directions; a zero row has none."""
    norms = torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64)
    factors = torch.where(norms > 0, 1.0 / norms, torch.zeros_like(norms))
    out: Tensor = factors.to(rows.dtype) @ rows
    return out


def bound_rows(rows: Tensor, collector: Collector, bound: Bound) -> Tensor:
    """Bounds every record's gradient, a row each, in place.

    Norms are taken in double precision (squares of large gradients must not overflow) and are upper
    bounds: rounding can only clip more.
    """
    columns = [torch.zeros(len(rows), dtype=torch.float64, device=rows.device)] * len(
        collector.rules
    )
    owner, start = _owners(collector), 0
    for parameter in collector.parameters:
        piece = rows[:, start : start + parameter.numel()]
        norms = torch.linalg.vector_norm(piece, dim=1, dtype=torch.float64)
        squared = norms.square() * above(rows.dtype, 0, parameter.numel())
        columns[owner[parameter]] = columns[owner[parameter]] + squared
        start += parameter.numel()
    factors = safe_factors(bound, torch.stack(columns, 1)).to(rows.dtype)
    start = 0
    for parameter in collector.parameters:
        rows[:, start : start + parameter.numel()] *= factors[:, owner[parameter], None]
        start += parameter.numel()
    return rows


def _owners(collector: Collector) -> dict[nn.Parameter, int]:
    """The layer of every parameter, as a column of the norms."""
    return {
        parameter: column
        for column, (layer, rule) in enumerate(collector.rules.items())
        for parameter in rule.parameters(layer)
    }
