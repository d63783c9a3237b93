"""Whether numbers in memory are what they were: sums of their bits, exact and without an order.

For writes that no version counter tells of, such as through ``.data``. On a GPU nothing waits.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["Checksum"]

_SMALL = {"cpu": 2**16, "cuda": 2**20}  # what is summed up together, to save calls
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.int64}


class Checksum:
    """The sum of a list of tensors' bits, modulo 2⁶⁴.

    Guarantee: the same numbers give the same sum, on any device and with any number of threads. One
    number that changes, changes it. What changes many so that their bits add up to the same does
    not, such as exchanging two of them: it is no cryptographic digest.
    """

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._tensors = list(tensors)
        self._places: list[int] = []
        self._together: dict[torch.dtype, list[Tensor]] = {}
        self._alone: list[Tensor] = []
        self._scattered: list[Tensor] = []

    def __call__(self) -> Tensor:
        """The sum now, where the tensors are."""
        places = [tensor.data_ptr() for tensor in self._tensors]
        if places != self._places:  # they were given other memory, maybe with the same numbers
            self._places = places
            self._look()
        parts = [torch.cat(words).sum(dtype=torch.int64) for words in self._together.values()]
        parts += [words.sum(dtype=torch.int64) for words in self._alone]
        for tensor in self._scattered:
            flat = tensor.detach().contiguous().view(-1)
            parts += [words.sum(dtype=torch.int64) for words in _words(flat)]
        if not parts:
            return torch.zeros((), dtype=torch.int64)
        total = parts[0]
        for part in parts[1:]:
            total = 3 * total + part
        return total

    def _look(self) -> None:
        self._together, self._alone, self._scattered = {}, [], []
        for tensor in self._tensors:
            held = tensor.detach()
            if held.is_contiguous(memory_format=torch.channels_last):
                held = held.permute(0, 2, 3, 1)
            if not held.is_contiguous():
                self._scattered.append(tensor)
                continue
            for words in _words(held.view(-1)):
                if words.numel() <= _SMALL.get(words.device.type, 0):
                    self._together.setdefault(words.dtype, []).append(words)
                else:
                    self._alone.append(words)


def _words(flat: Tensor) -> list[Tensor]:
    """Views of the same memory as whole numbers: of 8 bytes, and what is left in smaller ones."""
    each = max(1, 8 // flat.element_size())
    cut = flat.numel() // each * each if flat.storage_offset() % each == 0 else 0
    parts = [flat[:cut].view(torch.int64)] if cut else []
    if cut < flat.numel():
        parts.append(flat[cut:].view(_BITS[flat.element_size()]))
    return parts
