"""What a batch's gradient says of single records: each layer's inputs lie in its row space.

The gradient of a linear layer is Σ δᵢ xᵢᵀ over the records of a batch. Where the batch is smaller
than the layer is wide, its rows span what the inputs span: an input outside of that space was not
in the batch, whatever the other records are. It is true at every linear layer that sees a record
once, so a record is checked at its own features and again at what every hidden layer makes of it,
where mixtures of records no longer pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from recondite.attacks.gradient.victims import Victims

__all__ = ["Spans", "row_space"]

_NOTHING = 1e-5  # of the largest singular value: float32 gradients without noise stay below it


def row_space(weight: Tensor, bias: Tensor | None, batch: int) -> tuple[Tensor, Tensor] | None:
    """A basis of the inputs' space, and the spectrum; None where the batch fills the layer.

    Args:
      weight: (victims, out, in), gradients.
      bias: (victims, out), or None: with it, every input is followed by a 1.
      batch: Records behind each.

    Returns:
      (victims, batch, in) or (victims, batch, in + 1), orthonormal rows, the largest first; and
      the singular values, (victims, …), in float64.
    """
    whole = weight if bias is None else torch.cat([weight, bias.unsqueeze(2)], 2)
    if batch >= min(whole.shape[1:]):
        return None
    _, sizes, rows = torch.linalg.svd(whole.double(), full_matrices=False)
    return rows[:, :batch], sizes


class Spans:
    """The row spaces of a model's linear layers, where nothing was added to their gradients.

    Attributes:
      layers: Name of the layer to its basis, (victims, batch, in or in + 1).
    """

    def __init__(self, victims: Victims) -> None:
        self._model = victims.model
        self.layers: dict[str, Tensor] = {}
        for name, module in victims.model.named_modules():
            weight = victims.gradients.get(f"{name}.weight" if name else "weight")
            if not isinstance(module, nn.Linear) or weight is None or victims.weights is not None:
                continue
            bias = victims.gradients.get(f"{name}.bias" if name else "bias")
            found = row_space(weight, bias, victims.batch_size)
            if found is None:
                continue
            basis, sizes = found
            # Noise fills the whole space: then the inputs' part of it cannot be told.
            if bool((sizes[:, victims.batch_size] <= _NOTHING * sizes[:, 0]).all()):
                self.layers[name] = basis.to(victims.dtype)

    def outside(self, records: Tensor) -> Tensor:
        """Squared distances of trial records from the spaces, summed over layers, (trials, batch).

        Args:
          records: (trials, batch, …), differentiable; trials of one victim side by side.
        """
        trials, batch = records.shape[:2]
        total = records.new_zeros(trials, batch)
        with self._inputs() as seen:
            self._model(records.flatten(0, 1))
        for name, basis in self.layers.items():
            inputs = seen.get(name)
            if inputs is None or inputs.ndim != 2 or len(inputs) != trials * batch:
                continue  # a layer that sees a record as several rows, or more than once
            if basis.shape[2] > inputs.shape[1]:
                inputs = torch.cat([inputs, torch.ones_like(inputs[:, :1])], 1)
            grouped = inputs.reshape(len(basis), -1, inputs.shape[1])
            along = grouped @ basis.transpose(1, 2)
            rest = grouped - along @ basis
            total = total + rest.square().sum(2).reshape(trials, batch)
        return total

    @contextmanager
    def _inputs(self) -> Iterator[dict[str, Tensor]]:
        """What the layers get during a pass; those that run twice are left out."""
        seen: dict[str, Tensor] = {}
        twice: set[str] = set()
        handles = []

        def keep(name: str, inputs: Tensor) -> None:
            if name in seen or name in twice:
                seen.pop(name, None)
                twice.add(name)
            else:
                seen[name] = inputs

        modules = dict(self._model.named_modules())
        for name in self.layers:
            hook = modules[name].register_forward_hook(
                lambda _, inputs, __, name=name: keep(name, inputs[0])
            )
            handles.append(hook)
        try:
            yield seen
        finally:
            for handle in handles:
                handle.remove()
