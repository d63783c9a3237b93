"""A low-pass filter on released gradients (DOPPLER): post-processing, for any mechanism."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

__all__ = ["LowPass"]


class LowPass(Optimizer):
    """Hands an optimizer filtered gradients: noise is white over steps, the signal is slow.

    m_t = Σ feedback_i·m_{t-i} + Σ forward_j·g_{t-j}, divided by what the same filter makes of ones
    (Zhang et al., "DOPPLER: differentially private optimizers with low-pass filter", 2024).

    Guarantee: what the gradients had. Under a ``PrivacyEngine`` the filter sees releases only, so
    every account stays as it is; it adds none of its own. It trains nothing privately by itself.

    Attributes:
      base: The optimizer that takes the step.
    """

    def __init__(
        self,
        base: Optimizer,
        *,
        feedback: Sequence[float] = (0.9,),
        forward: Sequence[float] = (0.05, 0.05),
    ) -> None:
        """Wraps an optimizer.

        Args:
          base: Any torch optimizer; its parameter groups, learning rates with them, are shared.
          feedback: Weights of the last outputs; their absolute values add up to less than 1.
          forward: Weights of this and the last gradients; all weights together add up to 1.
        """
        a, b = tuple(map(float, feedback)), tuple(map(float, forward))
        if not b or b[0] == 0.0:
            raise ValueError(f"forward must begin with a weight that is not 0, got {forward!r}")
        if not sum(map(abs, a)) < 1.0:
            raise ValueError(f"feedback must add up to less than 1, got {feedback!r}: unstable")
        if not math.isclose(math.fsum((*a, *b)), 1.0, abs_tol=1e-9):
            raise ValueError("feedback and forward must add up to 1: the filter would scale steps")
        self.base, self._feedback, self._forward = base, a, b
        super().__init__(base.param_groups, {})
        self.param_groups = base.param_groups

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of the base optimizer with filtered gradients; ``grad`` is left as it was."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        held = [(p, p.grad) for group in self.param_groups for p in group["params"]]
        try:
            for parameter, gradient in held:
                if gradient is not None:
                    parameter.grad = self._filtered(parameter, gradient)
            self.base.step()
        finally:
            for parameter, gradient in held:
                parameter.grad = gradient
        return loss

    def _filtered(self, parameter: Tensor, gradient: Tensor) -> Tensor:
        kept = self.state[parameter]
        if not kept:
            kept.update(inputs=[], outputs=[], ones=[], steps=0)
        kept["steps"] += 1
        inputs = [gradient.clone(), *kept["inputs"]][: len(self._forward)]
        out = torch.zeros_like(gradient)
        for weight, past in zip(self._forward, inputs, strict=False):
            out.add_(past, alpha=weight)
        one = math.fsum(self._forward[: kept["steps"]])
        for weight, past, unit in zip(self._feedback, kept["outputs"], kept["ones"], strict=False):
            out.add_(past, alpha=weight)
            one += weight * unit
        kept["inputs"] = inputs
        kept["outputs"] = [out, *kept["outputs"]][: len(self._feedback)]
        kept["ones"] = [one, *kept["ones"]][: len(self._feedback)]
        return out / one

    def state_dict(self) -> dict[str, Any]:
        """The filter's and the base optimizer's."""
        return {**super().state_dict(), "base": self.base.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from what :meth:`state_dict` gave."""
        own = dict(state_dict)
        self.base.load_state_dict(own.pop("base"))
        super().load_state_dict(own)
        self.param_groups = self.base.param_groups
