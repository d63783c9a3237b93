"""Texts in memory: token ids of a model's own vocabulary, with a class to predict or without.

A record is a row of ids, padded at its end with -1: one tensor that every loader, attack and
account takes as it takes images. The model makes the attention mask of it. A reconstruction is read
back as whole ids; special tokens ([CLS], </s>, …) are no part of a text and are not scored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from recondite.metrics.floors import Metric
from recondite.metrics.text import exact_share, longest_passage, rouge_l, rouge_n
from recondite.records.base import Records
from recondite.records.display import RIGHT

__all__ = ["PADDING", "TextSet"]

PADDING = -1
_ZERO, _ONE = (0.0,), (1.0,)


@dataclass(frozen=True, eq=False, repr=False)
class TextSet(Records):
    """Labelled texts: a torch dataset of (token ids, label).

    Attributes:
      tokens: (n, length), float32: whole ids, then -1 to the end. Ids are exact below 2^24.
      labels: (n,), int64, positions in ``classes``; zeros without classes.
      classes: The name of each class; none where texts are there to be continued.
      tokenizer: Of the model: ``decode(ids)``, ``all_special_ids``, ``len``.
      name: What the texts are called.
      source: Where they were found.
      unit: What one record is of: "text", or "person" where everybody has one.
      left_out: Texts of people who have one in the set already.
      mean: (0,) after ``normalised``; ids have no other scale.
      std: (1,) then.
      public: Whether the texts are known to be public.
    """

    kind: ClassVar = "texts"
    metrics: ClassVar = (
        Metric("tokens", "tokens in place", "higher", unit="share"),
        Metric("rouge1", "ROUGE-1", "higher"),
        Metric("rouge2", "ROUGE-2", "higher"),
        Metric("rougeL", "ROUGE-L", "higher"),
        Metric("passage", "longest exact passage", "higher", unit="share of the text"),
    )
    exposure: ClassVar = "rougeL"
    media: ClassVar = "text/plain"
    typical_name: ClassVar = "most frequent tokens"
    amounts: ClassVar = False

    tokens: Tensor
    labels: Tensor
    classes: tuple[str, ...]
    tokenizer: Any
    name: str = "texts"
    source: str = "memory"
    unit: str = "text"
    left_out: int = 0
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    public: bool = False

    def __post_init__(self) -> None:
        if self.tokens.dtype != torch.float32 or self.tokens.ndim != 2 or not self.tokens.numel():
            raise ValueError(
                "tokens must be a float32 tensor (n, length) with at least one text, got "
                f"{self.tokens.dtype} {tuple(self.tokens.shape)}"
            )
        if self.labels.dtype != torch.int64 or self.labels.shape != self.tokens.shape[:1]:
            raise ValueError(f"labels must be int64, one for each of {len(self.tokens)} texts")
        low, high = (int(value) for value in torch.aminmax(self.labels))
        if low < 0 or high >= self.outputs:
            raise ValueError(f"labels must lie in 0..{len(self.classes) - 1}, got {low} to {high}")

    def __repr__(self) -> str:
        return (
            f"TextSet({self.name}: {len(self):,} texts of at most {self.tokens.shape[1]} tokens, "
            f"{len(self.classes) or 'no'} classes)"
        )

    @property
    def features(self) -> Tensor:
        """The token ids."""
        return self.tokens

    @property
    def scale(self) -> str:
        """Which vocabulary the ids are of."""
        return f"ids of {len(self.tokenizer)} tokens, mean {self.mean}, std {self.std}"

    @property
    def caveats(self) -> tuple[str, ...]:
        """Classes and the length are those that occur."""
        what = "classes and the longest length were" if self.classes else "the longest length was"
        notes = [f"{what} read off the texts: not in the account"]
        if self.unit == "person":
            notes.append(
                f"one text a person: ε is of a person ({self.left_out:,} further texts left out)"
            )
        return tuple(notes)

    def summary(self) -> dict[str, object]:
        """Returns what the texts are, in plain types."""
        return {**super().summary(), "unit": self.unit}

    def parts(self) -> tuple[str, ...]:
        """How many texts a class has, and how long they are."""
        sizes = (self.tokens >= 0).sum(1)
        counts = [
            f"class {name}: {int((self.labels == place).sum()):,} texts"
            for place, name in enumerate(self.classes)
        ]
        middle = int(sizes.median())
        return (
            *counts,
            f"tokens of a text: {int(sizes.min())} to {int(sizes.max())}, median {middle}",
        )

    def replaced(self, features: Tensor, labels: Tensor) -> TextSet:
        """Returns a set of the same vocabulary with these texts."""
        return dataclasses.replace(self, tokens=features, labels=labels)

    def normalised(self, mean: Sequence[float], std: Sequence[float]) -> TextSet:
        """Returns the set as it is: ids are names, and only mean 0 and std 1 leave them alone."""
        if self.mean is not None:
            raise ValueError("the texts are normalised already: start from natural()")
        if tuple(mean) != _ZERO or tuple(std) != _ONE:
            raise ValueError("texts have no scale: their mean must be 0 and their std 1")
        return dataclasses.replace(self, mean=_ZERO, std=_ONE)

    def statistics(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Returns 0 and 1: ids are names, not amounts."""
        return _ZERO, _ONE

    def natural(self, features: Tensor | None = None) -> Tensor:
        """Returns the ids as they are."""
        return self.tokens if features is None else features

    def typical(self) -> Tensor:
        """Returns the text with the most frequent token of each place, of median length."""
        ids = self.tokens.long()
        there = ids >= 0
        length = int(there.sum(1).median())
        row = torch.full_like(self.tokens[0], PADDING)
        for place in range(length):
            row[place] = float(ids[there[:, place], place].mode().values)
        return row

    def texts(self, features: Tensor | None = None) -> list[list[int]]:
        """Returns the ids of each text, without padding and special tokens.

        Args:
          features: (n, length); by default its own. What is no id ends up as the nearest one.
        """
        given = self.tokens if features is None else features
        most = len(self.tokenizer) - 1
        ids = torch.nan_to_num(given.detach().double(), nan=PADDING).round().clamp(PADDING, most)
        special = {PADDING, *self.tokenizer.all_special_ids}
        return [[x for x in row if x not in special] for row in ids.long().cpu().tolist()]

    def decoded(self, features: Tensor | None = None) -> list[str]:
        """Returns the texts in words."""
        return [str(self.tokenizer.decode(ids)) for ids in self.texts(features)]

    def distances(self, rebuilt: Tensor, originals: Tensor) -> Tensor:
        """The share of tokens that are not in their place, of all pairs."""
        found, true = self.texts(rebuilt), self.texts(originals)
        rows = [[1.0 - exact_share(mine, theirs) for mine in found] for theirs in true]
        return torch.tensor(rows, dtype=torch.float64)

    def compare(self, rebuilt: Tensor, originals: Tensor) -> dict[str, Tensor]:
        """Tokens in place, ROUGE-1, 2 and L, and the longest exact passage, by tokens."""
        rows = []
        for found, true in zip(self.texts(rebuilt), self.texts(originals), strict=True):
            rouge = [rouge_n(found, true, 1), rouge_n(found, true, 2), rouge_l(found, true)]
            passage = longest_passage(found, true) / len(true) if true else float(not found)
            rows.append([exact_share(found, true), *rouge, passage])
        values = torch.tensor(rows, dtype=torch.float64)
        return {metric.key: values[:, at] for at, metric in enumerate(self.metrics)}

    def rendered(
        self, rebuilt: Tensor, original: Tensor, *, reveal: bool
    ) -> tuple[bytes | None, bytes | None]:
        """Returns texts, the tokens that were rebuilt in their place marked as right.

        Without ``reveal`` there is nothing: which tokens are right gives away the length, and what
        they are the text.
        """
        if not reveal:
            return None, None
        found, true = self.texts(rebuilt[None])[0], self.texts(original[None])[0]
        right = [mine == theirs for mine, theirs in zip(found, true, strict=False)]
        return self._marked(true, right), self._marked(found, right)

    def _marked(self, ids: list[int], right: list[bool]) -> bytes:
        parts, start = [], 0
        flags = [*right, *[False] * (len(ids) - len(right))]
        for end in range(1, len(ids) + 1):
            if end == len(ids) or flags[end] != flags[start]:
                words = str(self.tokenizer.decode(ids[start:end]))
                # What a text itself has of the marks would mark what is not right.
                words = words.translate(dict.fromkeys(map(ord, RIGHT)))
                parts.append(words.join(RIGHT) if flags[start] else words)
                start = end
        return " ".join(parts).encode()
