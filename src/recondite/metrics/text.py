"""How much of a text was rebuilt: tokens in their place, ROUGE, and the longest exact passage.

All are shares in [0, 1] of sequences of tokens, 1 for an exact copy. ROUGE (Lin, 2004) is the F1 of
precision and recall: of n-grams counted with their repetitions (ROUGE-N), or of the longest common
subsequence (ROUGE-L).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

__all__ = ["exact_share", "longest_passage", "rouge_l", "rouge_n"]

Tokens = Sequence[Hashable]


def exact_share(found: Tokens, true: Tokens) -> float:
    """The share of the original's tokens that stand in their place.

    Example:
      >>> exact_share("a b c".split(), "a x c d".split())
      0.5
    """
    right = sum(mine == theirs for mine, theirs in zip(found, true, strict=False))
    return right / len(true) if true else float(not found)


def rouge_n(found: Tokens, true: Tokens, n: int) -> float:
    """ROUGE-N. A text shorter than n is compared as one piece.

    Example:
      >>> round(rouge_n("the cat sat".split(), "the cat ate".split(), 2), 3)
      0.5
    """
    mine, theirs = _grams(found, n), _grams(true, n)
    return _f1((mine & theirs).total(), mine.total(), theirs.total())


def rouge_l(found: Tokens, true: Tokens) -> float:
    """ROUGE-L, of the longest common subsequence.

    Example:
      >>> round(rouge_l("police kill the man".split(), "the police killed the man".split()), 3)
      0.667
    """
    return _f1(_common(found, true), len(found), len(true))


def longest_passage(found: Tokens, true: Tokens) -> int:
    """How many tokens the longest passage has that stands in both, wherever it stands.

    Example:
      >>> longest_passage("a b c d".split(), "x b c y d".split())
      2
    """
    places: dict[Hashable, list[int]] = {}
    for place, token in enumerate(true):
        places.setdefault(token, []).append(place)
    best, ending = 0, dict[int, int]()  # how long the passage is that ends at a place
    for token in found:
        ending = {place: ending.get(place - 1, 0) + 1 for place in places.get(token, ())}
        best = max(best, *ending.values(), 0)
    return best


def _grams(tokens: Tokens, n: int) -> Counter[tuple[Hashable, ...]]:
    if not tokens:
        return Counter()
    return Counter(tuple(tokens[start : start + n]) for start in range(max(1, len(tokens) - n + 1)))


def _common(found: Tokens, true: Tokens) -> int:
    """The length of the longest common subsequence, a row at a time in the bits of one number."""
    places: dict[Hashable, int] = {}
    for place, token in enumerate(found):
        places[token] = places.get(token, 0) | 1 << place
    whole = (1 << len(found)) - 1
    row = whole
    for token in true:
        match = row & places.get(token, 0)
        row = ((row + match) | (row - match)) & whole
    return len(found) - row.bit_count()


def _f1(shared: int, found: int, true: int) -> float:
    if not found or not true:
        return float(found == true)
    return 2 * shared / (found + true)
