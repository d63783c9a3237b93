"""The noise of protected records: bound to the record, or fresh for every use."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recondite.channels._items import as_numbers, is_tensor, stacked
from recondite.channels._normals import (
    Ahead,
    Words,
    double_normals,
    philox,
    shake,
    single_normals,
)
from recondite.channels.noise import Noise
from recondite.channels.secret import Secret

__all__ = ["FreshNoise", "Identity", "OnceNoise"]

Identity = Callable[[int, Any], Any]
Normals = Callable[[Words, int], NDArray[Any]]


def _add(batch: Any, noise: NDArray[Any]) -> Any:
    """Adds noise (n, d) to n records in place, rounded to their precision first."""
    noise = noise.reshape(tuple(batch.shape))
    if is_tensor(batch):
        import torch  # noqa: PLC0415  (only where tensors came in)

        batch += torch.from_numpy(np.ascontiguousarray(noise)).to(batch)
    else:
        batch += noise.astype(batch.dtype, copy=False)
    return batch


class OnceNoise:
    """Noise that is a function of a secret and the record.

    Guarantee: the same secret, noise law, precision, identity and content give the same noise, and
    any other combination independent noise, for anyone who does not know the secret; assuming that
    keyed BLAKE2b and SHAKE-128 of a secret key look random. The content is part of the key, for
    the same noise on two different records would show their difference; the identity is, for
    equal noise on equal records would show that they are equal.

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
        self._normals = _normals_for(noise, single)
        self._law = noise.fingerprint() + self._type.encode()

    @property
    def name(self) -> str:
        """Names this draw, without a way back to the secret."""
        return self._secret.derive("recondite draw", self._law, size=16).hex()

    def added(self, indices: list[int], items: list[Any], values: list[Any]) -> Any:
        """Returns the noisy features of some records as one new array or tensor."""
        batch = stacked(values)
        normal: NDArray[Any] = np.empty(
            (len(values), self._noise.dim), "f4" if self._normals is single_normals else "f8"
        )
        for row, index, item, value in zip(normal, indices, items, values, strict=True):
            content = np.ascontiguousarray(as_numbers(value), dtype=self._type)
            who = index if self._identity is None else self._identity(index, item)
            parts = (self._law, _label(who), content.tobytes())
            key = self._secret.derive("recondite once", *parts)
            row[:] = self._normals(shake(key), self._noise.dim)
        return _add(batch, self._noise.shape(normal))


class FreshNoise:
    """Noise that is drawn anew for every use, a batch at a time.

    Guarantee: independent between records and uses, from entropy of the operating system, one
    128-bit key for each batch; assuming that nobody finds the key of Philox from its output
    (``secure`` draws from SHAKE-128 instead, which is built for that, in about twice the time).
    With a seed there is no guarantee: whoever guesses it has the records.

    Args:
      noise: The noise of a channel.
      single: Whether the records have no more than single precision.
      seed: For simulations: the noise follows from it and the number of records served before.
      secure: Whether to draw from a cryptographic generator.
    """

    def __init__(self, noise: Noise, *, single: bool, seed: int | None, secure: bool) -> None:
        self._noise = noise
        self._normals = _normals_for(noise, single)
        self._seed = seed
        self._words = shake if secure else philox
        self._ahead: Ahead | None = None

    def added(self, values: list[Any], served_before: int) -> Any:
        """Returns the noisy features of a batch as one new array or tensor."""
        batch = stacked(values)
        if self._seed is not None:
            key = hashlib.blake2b(f"{self._seed} {served_before}".encode()).digest()
            return _add(batch, self._draw(len(values), key))
        if self._ahead is None:
            self._ahead = Ahead(self._draw)
        return _add(batch, self._ahead.take(len(values)))

    def _draw(self, count: int, key: bytes | None = None) -> NDArray[Any]:
        normal = self._normals(self._words(key), count * self._noise.dim)
        return self._noise.shape(normal.reshape(count, self._noise.dim))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_ahead": None}


def _normals_for(noise: Noise, single: bool) -> Normals:
    # Eigenvectors are in double precision, and so is what goes through them.
    return single_normals if single and noise.along is None else double_normals


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
