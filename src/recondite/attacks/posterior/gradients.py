"""One record's bounded gradient, of thousands by the tape and as a function to differentiate."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad

from recondite.attacks.gradient.norms import written_out
from recondite.gradients.clipping import bound_rule
from recondite.gradients.collector import Collector
from recondite.gradients.handover import bound_rows

__all__ = ["BoundedGradient"]

_CELLS = 1 << 24  # of a block of gradients: 64 MB in single precision


class BoundedGradient:
    """The gradient of one record as the victim bounds it, in the model's numbers.

    The mean over a batch of one record: cross-entropy of the model at its present weights.

    Attributes:
      dim: Trainable parameters.
    """

    def __init__(self, model: nn.Module, clipping: str, max_grad_norm: float) -> None:
        taped, self._plain = copy.deepcopy(model).train(), written_out(model).eval()
        self._taped, self._collector = taped, Collector(taped)
        self._bound = bound_rule(clipping, max_grad_norm, len(self._collector.rules))
        self.dim = self._collector.dim
        trained = {name for name, p in self._plain.named_parameters() if p.requires_grad}
        state = {**dict(self._plain.named_parameters()), **dict(self._plain.named_buffers())}
        self._fixed = {n: v.detach() for n, v in state.items() if n not in trained}
        self._weights = {n: v.detach() for n, v in state.items() if n in trained}
        column = {
            id(parameter): number
            for number, layer in enumerate(self._collector.rules)
            for parameter in layer.parameters(recurse=False)
        }
        self._columns = [column[id(p)] for _, p in taped.named_parameters() if p.requires_grad]

    def rows(self, images: Tensor, labels: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Bounded gradients of many records, block by block: places, and (rows, dim).

        A block is the same memory every time, and holds until the next.
        """
        step = max(1, _CELLS // self.dim)
        for start in range(0, len(images), step):
            place = slice(start, min(start + step, len(images)))
            count = place.stop - place.start
            with torch.enable_grad():
                logits = self._taped(images[place])
                torch.autograd.backward(nn.functional.cross_entropy(logits, labels[place]))
            with torch.no_grad():
                flat = self._collector.per_sample(count, mean=True)
                yield place, bound_rows(flat, self._collector, self._bound)

    def at(self, image: Tensor, label: Tensor) -> Tensor:
        """The bounded gradient at one image, differentiable in it, (dim,)."""

        def loss(weights: dict[str, Tensor]) -> Tensor:
            logits = functional_call(self._plain, {**weights, **self._fixed}, (image[None],))
            return nn.functional.cross_entropy(logits, label[None])

        parts = list(grad(loss)(self._weights).values())
        squares: list[Tensor] = [image.new_zeros(())] * (max(self._columns) + 1)
        for column, part in zip(self._columns, parts, strict=True):
            squares[column] = squares[column] + part.square().sum()
        factors = self._bound.factors(torch.stack(squares)[None])[0]
        bounded = [
            (factors[column] * part).flatten()
            for column, part in zip(self._columns, parts, strict=True)
        ]
        return torch.cat(bounded)
