"""One step of a training, recorded once as a CUDA graph and then replayed.

A step of a small network is a hundred kernels of a few microseconds; starting each from Python
takes ten times as long as running it. A recorded step is started whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

__all__ = ["Replayed"]

_WARM_UP = 3


class Replayed:
    """Calls a step; on a GPU all calls after the first few replay its recording.

    The step must do the same work on the same tensors at each call: what changes between calls
    stands in tensors that are changed in place, and nothing is asked of the device.

    Args:
      step: What to call, without arguments.
      device: Where it runs; anything but CUDA calls it as it is.
      generators: The CUDA generators that it draws from, besides torch's own.
    """

    def __init__(
        self,
        step: Callable[[], None],
        device: torch.device,
        generators: Sequence[torch.Generator] = (),
    ) -> None:
        self._step, self._generators = step, generators
        self._device, self._on_cuda = device, device.type == "cuda"
        self._graph: torch.cuda.CUDAGraph | None = None
        self._calls = 0

    def __call__(self) -> None:
        """Does one step."""
        if not self._on_cuda:
            self._step()
        elif self._graph is not None:
            self._graph.replay()
        elif self._calls < _WARM_UP:
            # Libraries choose their algorithms in these calls, off the stream that is recorded.
            # torch gives its streams no types.
            side: Any = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                self._step()
            torch.cuda.current_stream().wait_stream(side)
            self._calls += 1
        else:
            graph = torch.cuda.CUDAGraph()
            for generator in self._generators:
                graph.register_generator_state(generator)
            with torch.cuda.graph(graph):
                self._step()
            self._graph = graph
            graph.replay()  # recording does not run the step
