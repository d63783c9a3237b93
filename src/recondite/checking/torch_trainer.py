"""A model, an optimizer, a loader and a loss of torch as a trainer to be checked."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from recondite.checking.trainer import Trainer

__all__ = ["torch_trainer"]


def torch_trainer(
    model: nn.Module,
    optimizer: Any,
    loader: Any,
    loss: Callable[[Any, Any], Tensor],
    *,
    max_grad_norm: float | None = None,
    batch_size: float | None = None,
    canaries: Sequence[Any] = (),
    schedulers: Sequence[Any] = (),
) -> Trainer:
    """A private training of torch, as Opacus' or our ``make_private`` gives it, to be checked.

    A step is ``zero_grad``, ``loss(model(inputs), labels).backward()`` and ``step`` on the records
    that the check hands over, from the same weights and buffers every time. What leaves are the
    changes of all parameters and buffers. Batches are drawn by the loader's ``batch_sampler``, or
    by our own loader.

    Our own engine steps on batches of its loader only, unless it is a simulation: give it a seed
    that is new every time, ``PrivacyEngine(seed=random.getrandbits(64))``.

    Args:
      model: In training mode.
      optimizer: ``torch.optim.SGD``, or a wrapper of it: what it does to weights is linear in the
        gradient, so that noise and sensitivity can be read off. Noise is the same under any other.
      loader: A ``DataLoader``, Opacus' or ours; its data set holds pairs of input and label.
      loss: Takes outputs and labels.
      max_grad_norm: The clipping norm, for the words of the evidence; with ``batch_size``.
      batch_size: The number by which sums are divided.
      canaries: As in :class:`~recondite.checking.Trainer`.
      schedulers: What the training calls ``step`` of after every step: of torch's learning rates,
        of Opacus' noise or clipping norm. Several steps of the run are then checked.
    """
    inner = optimizer
    while hasattr(inner, "original_optimizer"):
        inner = inner.original_optimizer
    if not isinstance(inner, torch.optim.SGD):
        raise ValueError(
            f"optimizer must be torch.optim.SGD for a check, got {type(inner).__name__}: noise and "
            "clipping are the same, and its update is linear in them"
        )
    state = {name: value for name, value in model.state_dict(keep_vars=True).items()}
    initial = {name: value.detach().clone() for name, value in state.items()}
    dataset, collate = loader.dataset, _collate(loader)

    def pieces(records: Sequence[Any]) -> Any:
        if hasattr(loader, "present"):
            return loader.present(records)
        return [collate(list(records))]

    position = _Position(optimizer, inner, schedulers)

    def step(records: Sequence[Any], number: int = 0) -> dict[str, Tensor]:
        position.go(number)
        with torch.no_grad():
            for name, value in state.items():
                value.copy_(initial[name])
        inner.state.clear()
        for *inputs, labels in pieces(records):
            optimizer.zero_grad()
            loss(model(*inputs), labels).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        with torch.no_grad():
            return {
                name: (value - initial[name]).double().reshape(-1) for name, value in state.items()
            }

    batches = getattr(loader, "drawn_batches", None)
    if batches is None and getattr(loader, "batch_sampler", None) is not None:
        batches = partial(getattr, loader, "batch_sampler")
    unit = None
    if max_grad_norm is not None and batch_size is not None:
        unit = float(inner.param_groups[0]["lr"]) * max_grad_norm / batch_size
    return Trainer(
        records=dataset,
        step=step,
        batches=batches,
        unit=unit,
        canaries=canaries,
        step_at=(lambda number: partial(step, number=number)) if schedulers else None,
    )


class _Position:
    """Schedulers, and what they set, after any number of steps."""

    _SET = ("noise_multiplier", "max_grad_norm")  # of Opacus' optimizer

    def __init__(self, optimizer: Any, inner: Any, schedulers: Sequence[Any]) -> None:
        self._optimizer, self._inner, self._schedulers = optimizer, inner, schedulers
        self._known, self._here = {0: self._now()}, 0

    def go(self, number: int) -> None:
        """Sets everything as it is after so many steps."""
        if number == self._here:
            return
        if number not in self._known:
            self._set(self._known[0])
            for _ in range(number):
                for scheduler in self._schedulers:
                    scheduler.step()
            self._known[number] = self._now()
        self._set(self._known[number])
        self._here = number

    def _now(self) -> Any:
        groups = [{k: v for k, v in g.items() if k != "params"} for g in self._inner.param_groups]
        set_by = {n: getattr(self._optimizer, n) for n in self._SET if hasattr(self._optimizer, n)}
        return copy.deepcopy((groups, set_by, [one.state_dict() for one in self._schedulers]))

    def _set(self, saved: Any) -> None:
        groups, set_by, states = copy.deepcopy(saved)
        for group, values in zip(self._inner.param_groups, groups, strict=True):
            group.update(values)
        for name, value in set_by.items():
            setattr(self._optimizer, name, value)
        for scheduler, state in zip(self._schedulers, states, strict=True):
            scheduler.load_state_dict(state)


def _collate(loader: Any) -> Callable[[list[Any]], Any]:
    own: Callable[[list[Any]], Any] = (
        loader.collate_fn if hasattr(loader, "collate_fn") else torch.utils.data.default_collate
    )
    return own
