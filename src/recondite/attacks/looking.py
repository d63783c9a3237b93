"""Looking: whoever holds a noisy record takes it for the record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from recondite.attacks.knowledge import Knowledge

__all__ = ["Looking"]


@dataclass(frozen=True)
class Looking:
    """The picture that a defence on records lets through, cut to possible pixels, is the guess.

    The least that the holder of noisy records can do, as the pictures of Tan et al. (2024) show it.
    Its error is no bound: whoever knows the noise or the kind of image guesses better.

    Attributes:
      region: ``{"rows": [12, 19], "columns": [8, 23]}``, both ends included: errors inside and
        outside of it are reported apart.
    """

    name: ClassVar[str] = "looking"
    needs: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.NOISY_RECORDS})
    paper: ClassVar[str] = "Tan et al., Defending against data reconstruction attacks (2024)"

    region: Mapping[str, Sequence[int]] | None = None

    def __post_init__(self) -> None:
        if self.region is None:
            return
        wanted = "region must be {rows: [first, last], columns: [first, last]}"
        if not isinstance(self.region, Mapping) or set(self.region) != {"rows", "columns"}:
            raise ValueError(f"{wanted}, got {self.region!r}")
        for pair in self.region.values():
            if not _is_span(pair):
                raise ValueError(f"{wanted}, whole numbers from 0, got {self.region!r}")

    def inside(self, shape: Sequence[int]) -> Tensor | None:
        """Which pixels of (c, h, w) are in the region; None without one.

        Raises:
          ValueError: In one line, where it is not within the image.
        """
        if self.region is None:
            return None
        _, height, width = shape
        mask = torch.zeros(tuple(shape), dtype=torch.bool)
        for key, side in (("rows", height), ("columns", width)):
            if self.region[key][1] >= side:
                raise ValueError(
                    f"region {key} must end before {side}, got {list(self.region[key])}"
                )
        (top, bottom), (left, right) = (self.region[key] for key in ("rows", "columns"))
        mask[:, top : bottom + 1, left : right + 1] = True
        return mask


def _is_span(pair: Any) -> bool:
    if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
        return False
    whole = all(isinstance(end, int) and not isinstance(end, bool) for end in pair)
    return whole and 0 <= pair[0] <= pair[1]
