"""An iteration as one CUDA graph: its kernels are so small that launching them costs more."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch

__all__ = ["recorded"]


def recorded(
    iterate: Callable[[], None], rehearse: Callable[[], object], device: torch.device
) -> Callable[[], None]:
    """Returns ``iterate`` as one launch where it can be recorded, and itself otherwise.

    Assumes that an iteration reads and writes fixed places and launches the same kernels every
    time: nothing that Python decides from one iteration to the next is seen again. One that asks
    the GPU for a value (``.item()``, a branch on a tensor) cannot be recorded and runs as it is.

    Args:
      iterate: One iteration.
      rehearse: What of it may choose kernels or fail; repeating it changes nothing.
      device: A CUDA device.
    """
    side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch gives it no types
    mode = torch.cuda.get_sync_debug_mode()
    with torch.cuda.device(device):
        side.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(side):
                rehearse()
                # An error in the middle of a recording would be harder to recover from than here.
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # it says that it may miss some
                    torch.cuda.set_sync_debug_mode("error")
                rehearse()
            torch.cuda.set_sync_debug_mode(mode)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                iterate()
        except RuntimeError:
            return iterate
        finally:
            torch.cuda.set_sync_debug_mode(mode)
            torch.cuda.current_stream().wait_stream(side)
    return graph.replay
