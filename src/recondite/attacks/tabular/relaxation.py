"""Rows of a table as free numbers: softmax for one-hot columns, a shift and a scale for others."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recondite.records import Records

__all__ = ["Relaxation"]


@dataclass(frozen=True, eq=False)
class Relaxation:
    """From free numbers to features of the model's scale, differentiable, every point possible.

    Attributes:
      blocks: The first feature of each column and the one after its last; together all features.
      hot: Whether each column is one-hot.
      shift: (features,): the feature of an entry 0, or a number's mean among public records.
      scale: (features,): what an entry of 1 adds to it, or a number's standard deviation there.
      shares: (features,): how often each category occurs among public records; 1 for a number.
    """

    blocks: tuple[tuple[int, int], ...]
    hot: tuple[bool, ...]
    shift: Tensor
    scale: Tensor
    shares: Tensor

    @classmethod
    def of(cls, public: Records) -> Relaxation:
        """The relaxation of records like these, which the attacker holds."""
        features = public.features.flatten(1).double()
        shift, scale = features.mean(0), features.std(0, correction=0)
        scale = torch.where(scale > 0, scale, torch.ones_like(scale))
        shares = torch.ones_like(shift)
        blocks, hot, start = [], [], 0
        ends = dict(public.one_hot)
        while start < features.shape[1]:
            stop = ends.get(start, start + 1)
            blocks.append((start, stop))
            hot.append(start in ends)
            if start in ends:
                part = features[:, start:stop]
                low, high = part.amin(), part.amax()
                shift[start:stop], scale[start:stop] = low, high - low
                # One record more of each category: none is impossible for being unseen.
                seen = torch.bincount(part.argmax(1), minlength=stop - start).double() + 1.0
                shares[start:stop] = seen / seen.sum()
            start = stop
        return cls(tuple(blocks), tuple(hot), shift.float(), scale.float(), shares.float())

    @property
    def width(self) -> int:
        """How many features there are."""
        return len(self.shift)

    def entries(self, free: Tensor) -> Tensor:
        """(…, features) of one-hot entries, each column's summing to 1, and standard scores."""
        parts = [
            torch.softmax(free[..., start:stop], -1) if hot else free[..., start:stop]
            for (start, stop), hot in self._runs()
        ]
        return torch.cat(parts, -1)

    def features(self, free: Tensor) -> Tensor:
        """(…, features) in the model's scale."""
        return self.placed(self.entries(free))

    def placed(self, entries: Tensor) -> Tensor:
        """Entries (…, features) in the model's scale."""
        return self.shift.to(entries) + self.scale.to(entries) * entries

    def surprise(self, free: Tensor) -> Tensor:
        """(…,): what an independent prior of the columns has against a record, in nats."""
        entries, shares = self.entries(free), self.shares.to(free)
        columns = zip(self.blocks, self.hot, strict=True)
        numbers = torch.tensor(
            [not hot for (start, stop), hot in columns for _ in range(start, stop)],
            device=free.device,
        )
        categories = -(entries * shares.clamp_min(1e-9).log())[..., ~numbers].sum(-1)
        return categories + 0.5 * entries[..., numbers].square().sum(-1)

    def _runs(self) -> list[tuple[tuple[int, int], bool]]:
        """The columns, with numbers side by side in one."""
        runs: list[tuple[tuple[int, int], bool]] = []
        for (start, stop), hot in zip(self.blocks, self.hot, strict=True):
            if runs and not hot and not runs[-1][1]:
                runs[-1] = ((runs[-1][0][0], stop), False)
            else:
                runs.append(((start, stop), hot))
        return runs
