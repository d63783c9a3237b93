"""`once` noise: one noisy copy of each record, for ever the same."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from recondite.channels._items import Features, as_numbers, is_tensor, place_of, stacked
from recondite.channels._normals import fill_normal, keyed_words
from recondite.channels.ledger import BudgetSpent, Ledger
from recondite.channels.noise import Noise
from recondite.channels.protected import (
    Augmentation,
    ProtectedDataset,
    add_noise,
    in_worker,
)
from recondite.channels.secret import Secret

__all__ = ["Identity", "OnceDataset", "OnceNoise"]

Identity = Callable[[int, Any], Any]

_CHUNK = 1 << 18  # entries of noise drawn at a time: they stay in the cache of a CPU


class OnceNoise:
    """Noise that is a function of a secret and the record.

    Guarantee: the same secret, noise law, precision, identity and content give the same noise, and
    any other combination independent noise, for anyone who does not know the secret; assuming that
    keyed BLAKE2b and SHAKE-128 of a secret key look random. The content is part of the key, for
    the same noise on two different records would show their difference; the identity is, for
    equal noise on equal records would show that they are equal; the law is, for the same normal
    numbers at two scales would give themselves away.

    Args:
      noise: The noise of a channel.
      secret: The secret.
      single: Whether the records have no more than single precision.
      identity: What identifies a record beside its content: called with its index and what the
        data set returns for it, it gives a number, a text or bytes. None takes the index.
    """

    def __init__(
        self, noise: Noise, secret: Secret, *, single: bool, identity: Identity | None = None
    ) -> None:
        self._noise = noise
        self._secret = secret
        self._identity = identity
        self._type = "<f4" if single else "<f8"
        self._working = noise.working_type(single)
        self._law = noise.fingerprint() + self._type.encode()

    @property
    def name(self) -> str:
        """Names this draw, without a way back to the secret."""
        return self._secret.derive("recondite draw", self._law, size=16).hex()

    def added(self, indices: list[int], items: list[Any], values: list[Any]) -> Any:
        """Returns the noisy features of some records as one new array or tensor."""
        batch = stacked(values)
        normal: NDArray[Any] = np.empty((len(values), self._noise.dim), dtype=self._working)
        for row, index, item, value in zip(normal, indices, items, values, strict=True):
            content = np.ascontiguousarray(as_numbers(value), dtype=self._type)
            who = index if self._identity is None else self._identity(index, item)
            parts = (self._law, _label(who), content.tobytes())
            fill_normal(keyed_words(self._secret.derive("recondite once", *parts)), row)
        return add_noise(batch, self._noise.shape(normal))


class OnceDataset(ProtectedDataset):
    """Protected records with `once` noise.

    The draw is counted when the set is made, before any record is served.

    Args:
      records: The data set to protect.
      ledger: Its ledger.
      features: Where the features are in a record.
      transform: Applied to noisy features when they are served, or None.
      source: The noise.
      cached: Whether to keep all noisy copies, from the first use on.
    """

    noise: ClassVar[str] = "once"

    _note = "noise drawn once for each record, from a keyed cryptographic generator"

    def __init__(
        self,
        records: Any,
        ledger: Ledger,
        features: Features,
        transform: Augmentation | None,
        *,
        source: OnceNoise,
        cached: bool,
    ) -> None:
        super().__init__(records, ledger, features, transform)
        self._source: OnceNoise | None = source
        self._cached = cached
        self._cache: Any = None
        self._rest: list[Any] = []

    def admit(self, indices: list[Any]) -> list[Any] | None:
        """Returns the indices as they are, for serving a copy again costs nothing."""
        return indices if self.ledger.within_budget() else None

    def _serve(self, indices: list[Any]) -> list[Any]:
        places = [place_of(index, self._length) for index in indices]
        # What an earlier checkpoint or a journal brought in may have spent the budget.
        if self._ledger is not None and not in_worker() and not self._ledger.within_budget():
            raise BudgetSpent(self._ledger.message)
        self.prepare()
        if self._cache is not None:
            items = [self._rest[place] for place in places]
            return self._finished(items, [self._cache[place] for place in places])
        items = [self._records[place] for place in places]
        # One by one: a matrix product rounds differently for batches of different sizes.
        alone = zip(places, items, strict=True)
        return self._finished(items, [self._noisy([place], [item])[0] for place, item in alone])

    def prepare(self) -> None:
        """Draws the noise of all records, where the noisy copies are to be kept.

        From then on the raw records and the secret are not touched. A worker that was given
        none draws them one by one: it would hold a copy of all for itself.
        """
        if not self._cached or self._cache is not None or in_worker():
            return
        step = max(1, _CHUNK // self.ledger.channel.dim)
        rest: list[Any] = []
        cache: Any = None
        for start in range(0, self._length, step):
            places = list(range(start, min(start + step, self._length)))
            items = [self._records[place] for place in places]
            noisy = self._noisy(places, items)
            rest += [self._features.put(item, None) for item in items]
            if cache is None:
                cache = _empty_like(noisy, (self._length, *noisy.shape[1:]))
            cache[start : start + len(places)] = noisy
        self._rest, self._cache = rest, cache
        self._records = self._source = None

    def _noisy(self, places: list[int], items: list[Any]) -> Any:
        assert self._source is not None
        return self._source.added(places, items, [self._features.get(item) for item in items])


def _empty_like(batch: Any, shape: tuple[int, ...]) -> Any:
    return batch.new_empty(shape) if is_tensor(batch) else np.empty(shape, dtype=batch.dtype)


def _label(identity: Any) -> bytes:
    """Returns bytes that differ for different identities."""
    if isinstance(identity, bytes):
        return b"bytes " + identity
    if isinstance(identity, str):
        return b"text " + identity.encode()
    try:
        return f"number {operator.index(identity)}".encode()
    except TypeError:
        raise ValueError(
            f"identity must return a number, a text or bytes, got {type(identity).__name__}"
        ) from None
