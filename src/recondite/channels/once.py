"""`once` noise: one noisy copy of each record, for ever the same."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from recondite.channels._items import add_noise, as_numbers, place_of, stacked
from recondite.channels.ledger import BudgetSpentError, Counted
from recondite.channels.noise import Noise
from recondite.channels.protected import ProtectedDataset, in_worker
from recondite.channels.secret import Secret
from recondite.numerics.normals import fill_normal, keyed_words

__all__ = ["Identity", "OnceDataset", "OnceNoise"]

Identity = Callable[[int, Any], Any]


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
    """Protected records with `once` noise; what is kept are the noisy copies.

    The draw is counted when the set is made, before any record is served.

    Args:
      source: The noise.
      *args: As for :class:`ProtectedDataset`.
      **options: As for :class:`ProtectedDataset`.
    """

    noise: ClassVar[str] = "once"

    _note = "noise drawn once for each record, from a keyed cryptographic generator"

    def __init__(self, source: OnceNoise, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._source: OnceNoise | None = source

    def admit(self, indices: list[Any]) -> list[Any] | None:
        """Returns the indices, marked: the draw is counted, and serving it again costs nothing."""
        if not self.ledger.within_budget():
            return None
        return [Counted(place_of(index, self._length)) for index in indices]

    def _admitted(self, indices: list[Any]) -> list[Any]:
        # What an earlier checkpoint or a journal brought in may have spent the budget.
        if self._ledger is not None and not in_worker() and not self._ledger.within_budget():
            raise BudgetSpentError(self._ledger.message)
        return [place_of(index, self._length) for index in indices]

    def _features_of(self, places: list[int], items: list[Any], *, together: bool) -> Any:
        assert self._source is not None
        values = [self._features.get(item) for item in items]
        if together:
            return self._source.added(places, items, values)
        # One by one: a matrix product rounds differently for batches of different sizes.
        alone = zip(places, items, values, strict=True)
        return stacked([self._source.added([p], [item], [value])[0] for p, item, value in alone])

    def _forget(self) -> None:
        super()._forget()
        self._source = None  # and with it the secret


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
