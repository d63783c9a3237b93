"""The attack library ``breaching`` 0.1.2 on our victims, one after the other as it works.

It is a peer to measure, never a dependency: an environment of its own holds it.
"""

from __future__ import annotations

import copy
import io
import warnings
from contextlib import redirect_stdout
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from benchmarks.attack_victims import Case

__all__ = ["Breaching"]

_PRESET = "invertinggradients"
_MISSING: list[torch.library.Library] = []


def _declare_operators() -> None:
    """Lets torchvision be imported beside a torch that its compiled part does not fit.

    breaching imports it, and the attack uses none of its operators: only their names must exist.
    """
    try:
        import torchvision  # noqa: F401
    except RuntimeError:
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor boxes, Tensor scores, float threshold) -> Tensor")
        _MISSING.append(library)  # kept: operators vanish with their library


class Breaching:
    """Its preset ``invertinggradients``, with another number of iterations only."""

    def __init__(self) -> None:
        _declare_operators()
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            import breaching

            self.library = breaching
            self.preset = breaching.get_attack_config(_PRESET)

    def attack(self, case: Case, steps: int, starts: Tensor | None = None) -> Tensor:
        """Reconstructions of all victims, (n, 3, 32, 32), standardised.

        Args:
          case: The victims.
          steps: Iterations of each.
          starts: First images, (n, 1, 3, 32, 32); its own random ones if not given.
        """
        settings = copy.deepcopy(self.preset)
        settings.optim.max_iterations = steps
        setup = {"device": case.images.device, "dtype": torch.float}
        attacker = self.library.attacks.prepare_attack(
            case.model, torch.nn.CrossEntropyLoss(), settings, setup
        )
        payload = [
            {
                "parameters": [p.detach() for p in case.model.parameters()],
                "buffers": [b.detach() for b in case.model.buffers()],
                "metadata": SimpleNamespace(
                    shape=tuple(case.images.shape[1:]),
                    mean=case.mean.flatten(),
                    std=case.std.flatten(),
                    modality="vision",
                ),
            }
        ]
        found = []
        for number, label in enumerate(case.labels):
            leak: dict[str, Any] = {
                "gradients": [value[number] for value in case.gradients.values()],
                "buffers": None,
                "metadata": {
                    "num_data_points": 1,
                    "labels": label.reshape(1),
                    "local_hyperparams": None,
                },
            }
            start = None if starts is None else starts[number]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result, _ = attacker.reconstruct(payload, [leak], {}, initial_data=start)
            found.append(result["data"])
        return torch.cat(found)
