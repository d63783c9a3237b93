"""What becomes of a person's optimizer: its step releases a noised gradient first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.optimizer import _global_optimizer_pre_hooks

__all__ = ["check_optimizer", "release_first"]


def check_optimizer(optimizer: Optimizer, parameters: Sequence[nn.Parameter]) -> None:
    """Refuses an optimizer that does not hold exactly these parameters, or is private already."""
    if "__deepcopy__" in vars(optimizer):
        raise ValueError("optimizer is private under another engine: call its detach() first")
    own = {p for group in optimizer.param_groups for p in group["params"] if p.requires_grad}
    missing = [p for p in parameters if p not in own]
    if missing or len(own) != len(parameters):
        raise ValueError(
            "optimizer must hold exactly the module's trainable parameters: freeze the others with "
            "requires_grad_(False)"
        )


def release_first(
    optimizer: Optimizer,
    release: Callable[[], bool],
    unchanged: Callable[[], Callable[[], None]],
    updated: Callable[[], None],
) -> Callable[[], None]:
    """Has ``optimizer.step`` call ``release``, and go on only where that says so.

    Args:
      optimizer: Any torch optimizer; it keeps its class.
      release: Turns the last backward pass into gradients; False while a batch is incomplete.
      unchanged: Asked after the release; gives a check that it was not altered since.
      updated: Told after the update, and after what hooks did to the weights then.

    Returns:
      A function that gives the optimizer its own step back.
    """
    original, private = optimizer.step, True
    held = vars(optimizer).get("step")  # a learning-rate scheduler was there before

    def step(own: Optimizer, closure: Any = None, *, grad_scaler: Any = None) -> Any:
        if not private:
            return original(closure)
        if grad_scaler is not None:
            raise ValueError(
                "GradScaler scales the loss, which would undo the bound on gradients: use "
                "bfloat16 autocast, which needs no scaler"
            )
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if release():
            _update(own, original, unchanged)
            updated()
        return loss

    # A bound method, since learning-rate schedulers wrap what they find here.
    altered: Any = optimizer
    altered.step = mine = MethodType(step, optimizer)
    # A copy would have the class's own step, and go on without noise.
    altered.__deepcopy__ = altered.__reduce_ex__ = _refuse_copy
    # Has a GradScaler hand itself over, so that it can be refused instead of failing elsewhere.
    scaling = vars(optimizer).get("_step_supports_amp_scaling")
    altered._step_supports_amp_scaling = True

    def restore() -> None:
        nonlocal private
        private = False  # for those who wrapped this step, and keep it
        if vars(optimizer).get("step") is mine:
            _put(optimizer, "step", held)
        for name in ("__deepcopy__", "__reduce_ex__"):
            _put(optimizer, name, None)
        _put(optimizer, "_step_supports_amp_scaling", scaling)

    return restore


def _put(optimizer: Optimizer, name: str, value: Any) -> None:
    if value is None:
        vars(optimizer).pop(name, None)
    else:
        setattr(optimizer, name, value)


def _update(
    optimizer: Any, original: Callable[[], Any], unchanged: Callable[[], Callable[[], None]]
) -> None:
    """The optimizer's own step; its hooks may look at the released gradient, not change it."""
    if not (optimizer._optimizer_step_pre_hooks or _global_optimizer_pre_hooks):
        original()
        return
    check = unchanged()
    last = optimizer.register_step_pre_hook(lambda *_: check())
    try:
        original()
    finally:
        last.remove()


def _refuse_copy(_: Any) -> Any:
    raise ValueError(
        "a private optimizer cannot be copied, for the copy would step without noise: keep its "
        "state_dict(), or make a new one private"
    )
