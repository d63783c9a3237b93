"""Are batches drawn as told? Exact tests on who took part in which batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from scipy.stats import binom, hypergeom

from recondite.accounting import Schedule
from recondite.accounting.auditing import clopper_pearson_low

__all__ = ["TESTS", "Passes", "contradictions", "observe"]

TESTS = 4  # of one kind of sampling, at most, that can be wrong by chance
Passes = list[list[list[int]]]


def observe(
    batches: Callable[[], Any], least: int, most_passes: int, tick: Callable[[], None]
) -> Passes:
    """Whole passes of a loader, until so many batches were seen."""
    passes: Passes = []
    while sum(map(len, passes)) < least and len(passes) < most_passes:
        passes.append([[int(place) for place in batch] for batch in batches()])
        tick()
        if not passes[-1]:
            break
    return passes


def contradictions(schedule: Schedule, passes: Passes, records: int, miss: float) -> list[str]:
    """What contradicts the sampling that was told: one line each, none where nothing does.

    Guarantee: sampling as told is contradicted with probability at most ``TESTS``·``miss``. What
    is not looked at: dependence between records other than through batch sizes.

    Args:
      schedule: As told.
      passes: Places of records, by batch and pass.
      records: How many there are.
      miss: Of each test.
    """
    seen = _SeenBatches(passes, records, miss)
    found = [] if seen.total else ["the loader hands out no batches"]
    found += seen.twice()
    return found + _BY_SAMPLING[schedule.sampling](seen, schedule)


@dataclass(frozen=True)
class _SeenBatches:
    passes: Passes
    records: int
    miss: float

    @property
    def sizes(self) -> list[int]:
        return [len(batch) for one in self.passes for batch in one]

    @property
    def total(self) -> int:
        return len(self.sizes)

    def twice(self) -> list[str]:
        """Nobody may be in a batch twice: that record moves a sum twice as far."""
        for one in self.passes:
            for batch in one:
                record, times = Counter(batch).most_common(1)[0] if batch else (0, 0)
                if times > 1:
                    return [f"record {record} is in one batch {times} times"]
        return []

    def counts(self) -> list[Counter[int]]:
        return [Counter(place for batch in one for place in batch) for one in self.passes]

    def rate(self, told: float) -> list[str]:
        """The rate, of all and of each record: a larger one than told costs more."""
        joined, cells = sum(self.sizes), self.records * self.total
        low = float(clopper_pearson_low(joined, cells, self.miss))
        if low > told * (1 + 1e-9):
            return [
                f"a record is in a batch with probability {low:.3g} or more ({joined / cells:.3g} "
                f"seen) where {told:.3g} is told"
            ]
        each = sum(self.counts(), Counter())
        if not each:
            return []
        record, times = each.most_common(1)[0]
        if float(binom.sf(times - 1, self.total, told)) * self.records < self.miss:
            return [
                f"record {record} was in {times} of {self.total} batches where one in "
                f"{1 / told:.3g} is told"
            ]
        return []

    def one_size(self, told: float) -> list[str]:
        """Batches of records that join on their own vary in size."""
        size, times = Counter(self.sizes).most_common(1)[0]
        chance = float(binom.pmf(size, self.records, told))
        if float(binom.sf(times - 1, self.total, chance)) * (self.records + 1) < self.miss:
            return [
                f"{times} of {self.total} batches have exactly {size} records: they are cut to one "
                "size, not drawn for each record alone"
            ]
        return []

    def once_a_pass(self, told: float) -> list[str]:
        """Records that join on their own are in a pass once no more often than chance has it."""
        cells = self.records * len(self.passes)
        ones = sum(1 for count in self.counts() for times in count.values() if times == 1)
        # Passes of several lengths: with the likeliest of them for all, ones are no rarer.
        chance = max(float(binom.pmf(1, len(one), told)) for one in self.passes)
        if float(binom.sf(ones - 1, cells, chance)) < self.miss:
            return [
                f"{ones} of {cells} times a record was in a pass exactly once: batches are cut "
                "from a shuffled order, which costs more than Poisson sampling"
            ]
        return []

    def every_pass(self, exactly: bool) -> list[str]:
        """Each record once a pass."""
        for count in self.counts():
            for place in range(self.records):
                times = count[place]
                if times > 1 or (exactly and times != 1):
                    return [f"record {place} is in one pass {times} times where once is told"]
        return []


def _poisson(seen: _SeenBatches, schedule: Any) -> list[str]:
    told = float(schedule.rate)
    if told == 1.0 or not seen.total:
        return []
    # The others compare with the rate told: where that is wrong they say nothing more.
    return seen.rate(told) or seen.one_size(told) + seen.once_a_pass(told)


def _allocation(seen: _SeenBatches, schedule: Any) -> list[str]:
    found = seen.every_pass(exactly=True)
    lengths = {len(one) for one in seen.passes}
    if lengths != {schedule.batches}:
        found.append(f"a pass has {min(lengths)} batches where {schedule.batches} are told")
    return found + (seen.one_size(1 / schedule.batches) if schedule.batches > 1 else [])


def _shuffled(seen: _SeenBatches, schedule: Any) -> list[str]:
    found = seen.every_pass(exactly=False)
    return found + _too_large(seen.sizes, schedule.batch_size)


def _fixed_size(seen: _SeenBatches, schedule: Any) -> list[str]:
    found = _too_large(seen.sizes, schedule.batch_size)
    if not found and len(set(seen.sizes)) > 1:
        found.append(f"batches have {min(seen.sizes)} to {max(seen.sizes)} records, not one size")
    if found or schedule.batch_size >= seen.records:
        return found
    # Disjoint neighbours, each pair of batches counted once: chance, or cut from one order?
    pairs = [(a, b) for one in seen.passes for a, b in zip(one[::2], one[1::2], strict=False)]
    apart = sum(1 for a, b in pairs if not set(a) & set(b))
    size, records = schedule.batch_size, seen.records
    chance = float(hypergeom.pmf(0, records, size, size))
    if float(binom.sf(apart - 1, len(pairs), chance)) < seen.miss:
        found.append(
            f"{apart} of {len(pairs)} pairs of consecutive batches share no record: batches are "
            "cut from a shuffled order, not drawn anew"
        )
    return found


def _too_large(sizes: Sequence[int], told: int) -> list[str]:
    largest = max(sizes, default=0)
    if largest > told:
        return [f"a batch has {largest} records where {told} are told"]
    return []


_BY_SAMPLING: dict[str, Callable[[_SeenBatches, Any], list[str]]] = {
    "poisson": _poisson,
    "allocation": _allocation,
    "shuffled": _shuffled,
    "fixed-size": _fixed_size,
}
