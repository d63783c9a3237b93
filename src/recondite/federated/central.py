"""Noise that the server adds to the sum of its clients' bounded updates, and its account."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

import numpy as np

from recondite import _validate
from recondite.federated.ledger import ReleaseLedger
from recondite.federated.update import Arrays, Vector, bounded, one_release
from recondite.mechanisms import Mechanism, Setting, Units
from recondite.mechanisms.releasing import draw

__all__ = ["CentralNoise"]


class CentralNoise:
    """Noise on the sum of updates, counted on disk before the new model leaves the server.

    Guarantee: the mechanism's own, for one client's whole update replaced by any other, against
    whoever sees the models that the server sends: not against the server, which sees the sum
    without noise (each update, without secure aggregation). Assumes that every update in the sum
    has a norm of at most ``max_norm``: :meth:`bounded` sees to it where the server sees updates,
    and honest clients where it sees their sum. The number of clients in a round is public.

    Args:
      mechanism: Noise on sums.
      max_norm: The bound on one client's update.
      folder: Of the server's ledger.
      seed: Repeatable noise, for simulations: it protects nobody, and the ledger says so.

    Raises:
      ValueError: The mechanism noises each record by itself, or the ledger cannot be used.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        max_norm: float,
        folder: str | os.PathLike[str],
        seed: int | None = None,
    ) -> None:
        if mechanism.stage == "record":
            raise ValueError(f"{mechanism.name} noises each update by itself, and no sum of them")
        self.mechanism, self.seed = mechanism, seed
        self.max_norm = _validate.positive("max_norm", max_norm)
        self.ledger = ReleaseLedger(Path(folder))

    def bounded(self, updates: Sequence[Vector]) -> Vector:
        """The sum of updates, each shortened to ``max_norm``; at least one."""
        total: Vector = np.sum([bounded(update, self.max_norm) for update in updates], axis=0)
        return total

    def release(
        self, total: Vector, clients: int, before: Arrays, names: Sequence[str], number: int
    ) -> Vector:
        """The average update with noise; its line is on disk when this returns.

        Args:
          total: The sum of the bounded updates over the named arrays.
          clients: How many are in it.
          before: The arrays that were sent.
          names: Those that are trained.
          number: The round.
        """
        shapes = tuple(tuple(before[name].shape) for name in names)
        made = self.mechanism.configured(Setting(shapes, max_batch_size=clients, batch_size=1))
        units = Units((self.max_norm,), length=self.max_norm)
        source = None if self.seed is None else np.random.default_rng([self.seed, number])
        noised = draw(made, units.of(total), source)
        # A round that is computed again has other noise, and is another release.
        self.ledger.write(
            {
                "key": secrets.token_hex(16),
                "round": number,
                "level": "client",
                "noise_at": "server",
                "simulation": self.seed is not None,
                "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
                **one_release(made),
            }
        )
        average: Vector = units.released(np.asarray(noised, dtype=np.float64), made)
        # A direction has a length of its own; a sum is divided by the number of its clients.
        return average if made.scale_free else average / clients
