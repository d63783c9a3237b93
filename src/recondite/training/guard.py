"""Whether the model and the optimizer still are what was made private, asked at every step.

What is compared is the identity of objects, flags, version counters, and two sums of bits
(:mod:`recondite.training.checksums`): that of all released parameters, and that of one frozen
parameter or buffer, each in its turn. They tell of writes that no version counter counts.
Whose records a pass saw is asked by :mod:`recondite.training.reuse`, and what layers keep by
:mod:`recondite.gradients.stored`.

What cannot be noticed: weights that are written and put back before the step, and what a hook of
the optimizer writes to them after its update; frozen weights that are written through ``.data``
and put back before their turn; data kept outside the model, or by a layer that begins to keep them
after its first pass; a layer or hook that mixes the records of a batch, where it was there when the
model was made private, from values on or later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import is_
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from recondite.gradients.forwards import RecordedForward
from recondite.mechanisms.releasing import Late
from recondite.training.checksums import Checksum
from recondite.training.distributed import Ranks
from recondite.training.sampling import PrivateLoader

__all__ = ["Guard", "refuse_private"]

_REMEDY = "make a new engine for the changed model"


def refuse_private(module: nn.Module) -> None:
    """Refuses a model that another engine records: both would count, and one would release."""
    if any(isinstance(vars(layer).get("forward"), RecordedForward) for layer in module.modules()):
        raise ValueError("module is private under another engine: call its detach() first")


class Guard:
    """Remembers what was made private, and refuses a step on anything else.

    Guarantee: a step that passes updates exactly the parameters that are released. Since the last
    update, or since the epoch began, nothing else changed them, and since the epoch began nothing
    was written to the model's frozen parameters and buffers (where a layer could store its input),
    as far as version counters tell; what they do not is seen when the tensor's turn comes. On a GPU
    sums of bits are compared when they have arrived, without waiting: some steps later.
    """

    def __init__(
        self,
        module: nn.Module,
        optimizer: Optimizer,
        loader: PrivateLoader,
        released: Sequence[nn.Parameter],
        recorded: Iterable[nn.Module],
        ranks: Ranks,
        late: Late,
        *,
        stored: bool = False,
    ) -> None:
        """Remembers all parts.

        Args:
          module: The model.
          optimizer: Over its trainable parameters.
          loader: Draws the batches.
          released: The parameters that a step updates.
          recorded: The layers that write to the tape.
          ranks: The processes that train.
          late: Where to ask a GPU.
          stored: Layers may write to buffers, and people to weights: for training that promises
            nothing.
        """
        self._late, self._stored = late, stored
        self._module, self._optimizer, self._loader = module, optimizer, loader
        self._ranks = ranks
        self._released = list(released)
        own = set(self._released)
        self._layers = list(module.modules())
        self._recorded = list(recorded)
        self._parts = self._found()
        self._forwards = [vars(layer).get("forward") for layer in self._recorded]
        self._hooks = self._hooked()
        self._held = list(_held(optimizer))
        named = dict(module.named_parameters())
        self._names = {id(p): name for name, p in named.items()}
        rest = [p for p in self._held if id(p) not in self._names]
        self._frozen = [p for p in (*named.values(), *rest) if p not in own]
        buffers = [b for layer in self._layers for b in layer._buffers.values() if b is not None]
        self._fixed: list[torch.Tensor] = [*self._frozen, *(() if stored else buffers)]
        self._names.update({id(b): name for name, b in module.named_buffers()})
        first = self._released[0]
        self._place = (first.device, first.dtype)
        self._draws = _draws(loader)
        self._checksum = Checksum(self._released)
        self._each = [Checksum([tensor]) for tensor in self._fixed]
        self._turn = 0
        self.begin()

    def begin(self) -> None:
        """An epoch begins: weights and buffers may have been loaded before it."""
        self._fixed_versions = [tensor._version for tensor in self._fixed]
        if not self._stored:
            self._sums = [checksum() for checksum in self._each]
        self.updated()
        self.opened()

    def updated(self) -> None:
        """The optimizer has moved the weights: nobody else does, until its next step."""
        if not self._stored:
            self._sum = self._checksum()

    def opened(self) -> None:
        """A batch is handed out: until its step nobody writes to the weights."""
        self._versions = [p._version for p in self._released]

    def check(self) -> None:
        """Raises ``ValueError``, in one line, where the step would not be what was accounted."""
        parts = self._found()
        if len(parts) != len(self._parts) or not all(map(is_, parts, self._parts)):
            raise ValueError(
                "the module's layers, parameters or buffers were exchanged since make_private: "
                f"{_REMEDY}"
            )
        held = list(_held(self._optimizer))
        if len(held) != len(self._held) or not all(map(is_, held, self._held)):
            raise ValueError(
                f"the optimizer holds other parameters than at make_private: {_REMEDY}"
            )
        for parameter in self._frozen:
            if parameter.requires_grad:
                raise ValueError(
                    f"parameter {self._name(parameter)} was frozen at make_private and is trained "
                    f"now: {_REMEDY}"
                )
            if parameter.grad is not None:
                raise ValueError(
                    f"frozen parameter {self._name(parameter)} has a gradient, which is not "
                    "accounted for: set its grad to None"
                )
        for parameter in self._released:
            if not parameter.requires_grad:
                raise ValueError(
                    f"parameter {self._name(parameter)} was frozen after make_private: {_REMEDY}"
                )
        self._check_untouched()
        if _draws(self._loader) != self._draws:
            raise ValueError(
                "the private loader's sampling, batch_size, max_batch_size or records were changed "
                "since make_private: make a new engine"
            )
        self._ranks.check()

    def _check_untouched(self) -> None:
        if [p._version for p in self._released] != self._versions:
            raise ValueError(
                "the weights were written to between the batch and its step: only the optimizer's "
                "step may move them"
            )
        versions = [tensor._version for tensor in self._fixed]
        if versions != self._fixed_versions:
            both = zip(self._fixed, versions, self._fixed_versions, strict=True)
            name = next(self._name(tensor) for tensor, now, then in both if now != then)
            raise ValueError(
                f"{name} is not trained but was written to since the epoch began: a layer that "
                "stores what it sees releases it without noise"
            )
        self._check_bits()
        for layer, forward in zip(self._recorded, self._forwards, strict=True):
            if vars(layer).get("forward") is not forward:
                raise ValueError(
                    f"the forward function of a {type(layer).__name__} was exchanged since "
                    f"make_private: {_REMEDY}"
                )
        if self._hooked() != self._hooks:
            raise ValueError(
                "hooks of the module were added or removed since make_private, and may mix the "
                "records of a batch: add them before it"
            )
        first = self._released[0]
        if (first.device, first.dtype) != self._place:
            raise ValueError(
                "the module's device or dtype was changed since make_private: change it before"
            )

    def _check_bits(self) -> None:
        if self._stored:
            return
        self._compare(
            self._checksum(),
            self._sum,
            "the weights were changed since the last step, other than by the optimizer: change "
            "them between epochs, or in a hook of its step (register_step_post_hook) that reads "
            "no data",
        )
        if self._fixed:
            self._turn = (self._turn + 1) % len(self._fixed)
            self._compare(
                self._each[self._turn](),
                self._sums[self._turn],
                f"{self._name(self._fixed[self._turn])} is not trained but was changed since the "
                "epoch began: what is stored of the data there carries no noise",
            )

    def _compare(self, now: torch.Tensor, then: torch.Tensor, otherwise: str) -> None:
        if now.is_cuda and then.is_cuda:
            self._late.ask(now == then, otherwise)
        elif int(now) != int(then):
            raise ValueError(otherwise)

    def before_update(self) -> Callable[[], None]:
        """For hooks of the optimizer that run between the release and the update.

        Returns:
          A check that the released gradients are still what they are now.
        """
        then = [(p.grad, -1 if p.grad is None else p.grad._version) for p in self._released]
        versions = [p._version for p in self._released]

        def check() -> None:
            for parameter, version, (grad, count) in zip(
                self._released, versions, then, strict=True
            ):
                same = parameter.grad is grad and (grad is None or grad._version == count)
                if not same or parameter._version != version:
                    raise ValueError(
                        "a hook of the optimizer changed the released gradient before the update: "
                        "remove it"
                    )

        return check

    def _found(self) -> list[Any]:
        parts: list[Any] = []
        for layer in self._layers:
            parts.extend(layer._parameters.values())
            parts.extend(layer._buffers.values())
            parts.extend(layer._modules.values())
        return parts

    def _hooked(self) -> list[list[int]]:
        return [
            [
                *layer._forward_hooks,
                *layer._forward_pre_hooks,
                *layer._backward_hooks,
                *layer._backward_pre_hooks,
            ]
            for layer in self._layers
        ]

    def _name(self, tensor: torch.Tensor) -> str:
        return self._names.get(id(tensor), "of the optimizer")


def _held(optimizer: Optimizer) -> Iterable[nn.Parameter]:
    return (p for group in optimizer.param_groups for p in group["params"])


def _draws(loader: PrivateLoader) -> tuple[Any, ...]:
    return (
        loader.sampling,
        loader.batch_size,
        loader.max_batch_size,
        loader.records,
        id(loader.dataset),
        len(loader.dataset),
    )
