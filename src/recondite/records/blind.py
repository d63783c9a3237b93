"""What is reached without an attack: a guess from public records, and the class where it is known.

Two guesses: the typical record of the class (of all, where it is unknown), which for images is
their mean, and the best by a metric of a few single public records. Which of the two counts for a
metric is decided on public records alone, as somebody blind would: one third proposes, one chooses
the best record, one judges between it and the typical one. Where the class is known there is a
third guess, the typical record of all classes: of a class with few public records it may be the
better one, and the same third judges that too. The victims have no say in it; choosing
by their scores would raise the floor and make a defence look better than it is. A cleverer guess
may be better still: a gain is over this guess, and errs towards reporting an attack.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recondite.metrics.floors import Metric, VictimScores

if TYPE_CHECKING:
    from recondite.records.base import Records

__all__ = ["BlindGuess", "blind_guess", "duplicates"]

# Public records of a class that propose, choose and judge: SSIM takes milliseconds a pair.
_CANDIDATES, _PANEL, _JUDGES = 16, 8, 16
_ALL = 160  # candidates of all classes together, four of each at least
_THIRDS = 6  # fewer records cannot be divided: the typical one is the guess
_BLOCK = 1_024  # rows
_SAME = 1e-5  # of a feature's largest value: scaling there and back moves it less


@dataclass(frozen=True, eq=False)
class BlindGuess:
    """The floor that an attack is measured against.

    Attributes:
      guesses: For each metric's key, one guess a victim, in the scale of the records.
      how: For each metric's key, what was guessed, in words.
      label_known: Whether the victims' classes were used.
      scores: Of each metric's guess, victim by victim.
    """

    guesses: Mapping[str, Tensor]
    how: Mapping[str, str]
    label_known: bool
    scores: VictimScores


def blind_guess(victims: Records, public: Records, labels: Tensor | None) -> BlindGuess:
    """Returns the blind guess at victims from public records; see :meth:`Records.blind`."""
    victims.check_alike(public)
    shared = duplicates(public.natural(), victims.natural())
    if shared:
        mine, theirs = shared[0]
        raise ValueError(
            f"the public records hold {len({victim for _, victim in shared})} of the victims "
            f"(record {mine} is victim {theirs}): use public.without(victims)"
        )
    groups = _groups(victims, public, labels)
    most = max(4, min(_CANDIDATES, _ALL // len(groups)))
    proposals = [_Proposal(part, most) for part, _ in groups]
    whole = None if labels is None else _Whole.of(public, groups)
    guesses, how = {}, {}
    for metric in victims.metrics:
        sign = 1.0 if metric.direction == "higher" else -1.0
        # One decision for all classes, each counted as often as it occurs among the victims.
        typical, record = (
            sum(
                len(positions) * sign * proposal.expected[name].get(metric.key, 0.0)
                for proposal, (_, positions) in zip(proposals, groups, strict=True)
            )
            for name in ("typical", "record")
        )
        use_record = record > typical
        wide = whole is not None and whole.better(metric, groups, proposals, record=use_record)
        guess = torch.empty_like(victims.features)
        for proposal, (_, positions) in zip(proposals, groups, strict=True):
            one = proposal.records[metric.key] if use_record else proposal.typical
            guess[positions] = (whole.typical if whole is not None and wide else one).to(guess)
        guesses[metric.key] = guess
        what = "best public record" if use_record and not wide else public.typical_name
        how[metric.key] = what if labels is None or wide else f"{what} of the class"
    values = {
        metric.key: victims.score(guesses[metric.key], matched=False).values[metric.key]
        for metric in victims.metrics
    }
    scores = VictimScores(victims.metrics, values, np.arange(len(victims)))
    return BlindGuess(guesses, how, labels is not None, scores)


class _Proposal:
    """Guesses from some public records, with what to expect of them."""

    def __init__(self, public: Records, most: int) -> None:
        self.typical = public.typical()
        self.records = {metric.key: self.typical for metric in public.metrics}
        self.expected: dict[str, dict[str, float]] = {"typical": {}, "record": {}}
        if len(public) < _THIRDS:
            return
        first, second, third = (public.subset(slice(part, None, 3)) for part in range(3))
        candidates, panel = first.spread(most), second.spread(_PANEL)
        judges = third.spread(_JUDGES)
        tried = [_expected(panel, one) for one in candidates.features]
        self.expected["typical"] = _expected(judges, first.typical())
        judged: dict[int, dict[str, float]] = {}
        for metric in public.metrics:
            values = np.array([one[metric.key] for one in tried])
            best = int(values.argmax() if metric.direction == "higher" else values.argmin())
            self.records[metric.key] = candidates.features[best]
            # Judged by records that had no part in choosing it: the best of many on a panel is
            # partly luck with that panel.
            if best not in judged:
                judged[best] = _expected(judges, candidates.features[best])
            self.expected["record"][metric.key] = judged[best][metric.key]


@dataclass(frozen=True, eq=False)
class _Whole:
    """The typical record of all classes, beside those of the victims' classes.

    Attributes:
      typical: Of all public records.
      own: By group, what to expect of the class's typical record where some do not judge it.
      all: By group, what to expect of that of all classes, the judges of every group left out.
    """

    typical: Tensor
    own: list[dict[str, float]]
    all: list[dict[str, float]]

    @classmethod
    def of(cls, public: Records, groups: list[tuple[Records, Tensor]]) -> _Whole | None:
        """None where no class has a record to judge by and another to guess from."""
        split: list[tuple[Records, Records] | None] = []
        held = torch.ones(len(public), dtype=torch.bool)
        classes = public.labels.cpu()
        for part, _ in groups:
            # Every third judges; of a class of two the second.
            third = torch.zeros(len(part), dtype=torch.bool)
            third[2::3] = True
            if len(part) == 2:
                third[1] = True
            same = (classes == part.labels[0].cpu()).nonzero().reshape(-1)
            if not bool(third.any()) or len(same) != len(part):  # guessed as if it were unknown
                split.append(None)
                continue
            held[same[third]] = False
            split.append((part.subset(third).spread(_JUDGES), part.subset(~third)))
        if all(one is None for one in split) or not bool(held.any()):
            return None
        others = public.subset(held).typical()
        own = [{} if one is None else _expected(one[0], one[1].typical()) for one in split]
        every = [{} if one is None else _expected(one[0], others) for one in split]
        return cls(public.typical(), own, every)

    def better(
        self,
        metric: Metric,
        groups: list[tuple[Records, Tensor]],
        proposals: list[_Proposal],
        *,
        record: bool,
    ) -> bool:
        """Whether the typical record of all is to be expected to do better by a metric."""
        sign = 1.0 if metric.direction == "higher" else -1.0
        apart = 0.0
        for own, every, proposal, (_, positions) in zip(
            self.own, self.all, proposals, groups, strict=True
        ):
            if metric.key not in own or (record and not proposal.expected["record"]):
                continue
            mine = proposal.expected["record"] if record else own
            apart += len(positions) * sign * (every[metric.key] - mine[metric.key])
        return apart > 0


def _expected(panel: Records, guess: Tensor) -> dict[str, float]:
    rebuilt = guess.expand_as(panel.features).contiguous()
    scores = panel.score(rebuilt, matched=False)
    return {key: scores.mean(key) for key in scores.values}


def _groups(
    victims: Records, public: Records, labels: Tensor | None
) -> list[tuple[Records, Tensor]]:
    """Public records with the positions of the victims they speak of."""
    everybody = torch.arange(len(victims))
    if labels is None:
        return [(public, everybody)]
    known = labels.detach().cpu()
    if known.shape != everybody.shape or known.dtype.is_floating_point:
        raise ValueError(f"labels must be whole numbers, one for each of {len(victims)} victims")
    groups = []
    for label in sorted(set(known.tolist())):
        same = public.labels.cpu() == label
        # A class that no public record has is guessed as if it were unknown.
        part = public.subset(same) if bool(same.any()) else public
        groups.append((part, everybody[known == label]))
    return groups


def duplicates(first: Tensor, second: Tensor) -> list[tuple[int, int]]:
    """Positions of records that are in both, up to the rounding of a change of scale.

    Exact copies only: the same person's other image, or a copy with one pixel changed, is not
    found.

    Args:
      first: (n, …), on the natural scale.
      second: (m, …), on the same.

    Example:
      >>> import torch
      >>> duplicates(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[3.0, 4.0]]))
      [(1, 0)]
    """
    ours, theirs = (part.detach().cpu().flatten(1).numpy() for part in (first, second))
    size = np.maximum(_largest(ours), _largest(theirs))
    size = np.where(size > 0, size, 1.0)
    # Copies agree on any projection: only those that do are compared in full.
    direction = np.random.default_rng(0).standard_normal(ours.shape[1])
    slack = _SAME * float(np.abs(direction).sum())
    along = _along(ours, direction / size)
    order = np.argsort(along)
    sorted_along = along[order]
    found = []
    for victim, value in enumerate(_along(theirs, direction / size)):
        low = np.searchsorted(sorted_along, value - slack, side="left")
        high = np.searchsorted(sorted_along, value + slack, side="right")
        near = order[low:high]
        apart = np.abs(ours[near].astype(np.float64) - theirs[victim])
        same = near[(apart <= _SAME * size).all(axis=1)]
        found += [(int(position), victim) for position in np.sort(same)]
    return found


def _largest(rows: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(np.maximum(rows.max(axis=0), -rows.min(axis=0)), dtype=np.float64)


def _along(rows: NDArray[Any], direction: NDArray[np.float64]) -> NDArray[np.float64]:
    """Projections in float64, without a copy of all rows in it."""
    blocks = range(0, len(rows), _BLOCK)
    return np.concatenate([rows[start : start + _BLOCK] @ direction for start in blocks])
