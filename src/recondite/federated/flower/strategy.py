"""Strategies of a server that is honest and curious, and that waits for nobody for ever."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterable
from typing import Any

from recondite import _validate
from recondite.federated.auditor import Auditor
from recondite.federated.central import CentralNoise
from recondite.federated.flower import flower, log
from recondite.federated.flower.screening import Limits, ScreeningStrategy, arrays_in
from recondite.federated.update import difference, moved, noised_names
from recondite.studies.shapes import Row

flower()  # quiet, before Flower reads its switches
from flwr.serverapp.strategy import FedAvg, Strategy  # noqa: E402  (after the line above)

__all__ = ["AuditingStrategy", "BoundedFedAvg", "CentralFedAvg", "present"]


class AuditingStrategy(ScreeningStrategy):
    """Wraps a strategy: aggregates as it does, and attacks in the background what it receives.

    Replies are screened first, as :class:`ScreeningStrategy` does.

    Guarantee: a round is slowed by at most ``limit`` seconds, in which updates are handed to the
    auditor; what does not fit is not attacked. While the wrapped strategy aggregates, the attack
    rests.

    Args:
      strategy: The strategy; every call goes through to it.
      every: Rounds between audited ones; the first round is audited.
      clients: Clients attacked in an audited round, drawn at random.
      limit: Seconds a round may be slowed.
      seed: Decides which clients, for repeatable simulations.
      limits: How much one client may change the average; by default all replies weigh alike.
      done: Rounds that an earlier server finished: numbers go on from there.
      auditor: An :class:`Auditor`; or give its arguments here.
      **options: Of the auditor, such as ``model``, ``shape``, ``learning_rate``, ``attack``,
        ``time_limit`` and ``out``.
    """

    def __init__(
        self,
        strategy: Strategy,
        *,
        every: int = 1,
        clients: int = 1,
        limit: float = 0.5,
        seed: int | None = None,
        limits: Limits | None = None,
        done: int = 0,
        auditor: Auditor | None = None,
        **options: Any,
    ) -> None:
        super().__init__(strategy, limits=limits, done=done)
        self.every = _validate.at_least("every", every, 1)
        self.clients = _validate.at_least("clients", clients, 1)
        self.limit = _validate.positive("limit", limit)
        self.auditor = Auditor(seed=seed, **options) if auditor is None else auditor
        self.slowed: dict[int, float] = {}
        self._random = random.Random(seed)

    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> Any:
        """Screens the replies, hands some to the auditor, and lets the strategy aggregate."""
        received = list(replies)
        with self.auditor.paused():
            return super().aggregate_train(server_round, received)

    def summary(self) -> None:
        """The wrapped strategy's, the limits, and what the auditor does."""
        super().summary()
        log(
            logging.INFO,
            f"recondite auditor: {self.auditor.attack.name}, every {self.every} round(s), "
            f"{self.clients} client(s), {self.auditor.time_limit:g} s each, into "
            f"{self.auditor.folder}",
        )

    def finish(self, wait: float | None = None) -> list[Row]:
        """Ends the auditor; see :meth:`Auditor.finish`."""
        return self.auditor.finish(wait)

    def _passed(self, server_round: int, replies: list[Any], sent: dict[int, Any]) -> None:
        self.slowed[server_round] = self._hand_over(server_round, replies, sent)

    def _hand_over(self, server_round: int, replies: list[Any], sent: dict[int, Any]) -> float:
        began = time.monotonic()
        if (server_round - 1) % self.every:
            return 0.0
        usable = [reply for reply in replies if not reply.has_error()]
        chosen = self._random.sample(usable, min(self.clients, len(usable)))
        for reply in chosen:
            if time.monotonic() - began > self.limit:
                log(logging.INFO, "recondite auditor: no time left to take further updates")
                break
            node = reply.metadata.src_node_id
            after = arrays_in(next(iter(reply.content.array_records.values())))
            self.auditor.observe(server_round, str(node), sent[node], after)
        return time.monotonic() - began


class BoundedFedAvg(FedAvg):
    """FedAvg whose rounds never wait longer for clients than they were told to.

    The first round waits up to ``wait`` seconds for all clients; every round takes those that are
    there, and waits up to ``wait`` seconds only where there is none. Flower's own waits for ever
    once a client is gone.

    Args:
      clients: How many clients there should be.
      fraction: Share of those that are there that a round asks; at least one.
      wait: Seconds.
    """

    def __init__(self, clients: int, *, fraction: float = 1.0, wait: float = 600.0) -> None:
        super().__init__(
            fraction_train=fraction, fraction_evaluate=0.0, min_train_nodes=1, min_available_nodes=1
        )
        self.clients = _validate.at_least("clients", clients, 1)
        self.wait = _validate.positive("wait", wait)
        self._begun = False

    def configure_train(
        self, server_round: int, arrays: Any, config: Any, grid: Any
    ) -> Iterable[Any]:
        """Messages to clients that are there.

        Raises:
          RuntimeError: There is none within the time.
        """
        there = present(grid, 1 if self._begun else self.clients, self.wait)
        self._begun = True
        if len(there) < self.clients:
            log(
                logging.WARNING,
                f"recondite: round {server_round}: {len(there)} of {self.clients} clients are "
                "there: it goes on with them",
            )
        self.min_train_nodes = max(1, round(self.fraction_train * len(there)))
        fixed: Any = _Fixed(there)
        return super().configure_train(server_round, arrays, config, fixed)


class CentralFedAvg(BoundedFedAvg):
    """Averages updates that it shortens to one bound, with the server's own noise on their sum.

    Guarantee: that of :class:`CentralNoise`; every reply weighs alike, whatever it claims.

    Args:
      central: The noise and its ledger.
      clients: As in :class:`BoundedFedAvg`, with its options.
      **options: Of :class:`BoundedFedAvg`.
    """

    def __init__(self, central: CentralNoise, clients: int, **options: Any) -> None:
        super().__init__(clients, **options)
        self.central = central
        self._before: dict[str, Any] = {}

    def configure_train(
        self, server_round: int, arrays: Any, config: Any, grid: Any
    ) -> Iterable[Any]:
        """Messages to clients that are there; what they are sent is remembered."""
        self._before = arrays_in(arrays)
        return super().configure_train(server_round, arrays, config, grid)

    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> Any:
        """The weights moved by the noised average, counted before they are returned."""
        valid, _ = self._check_and_log_replies(replies, is_train=True)
        if not valid:
            return None, None
        app, before, names = flower(), self._before, noised_names(self._before)
        updates = [
            difference(before, arrays_in(next(iter(reply.content.array_records.values()))), names)
            for reply in valid
        ]
        total = self.central.bounded(updates)
        average = self.central.release(total, len(updates), before, names, server_round)
        after = moved(before, names, average)
        return app.ArrayRecord({k: app.Array(v) for k, v in after.items()}), app.MetricRecord({})


def present(grid: Any, wanted: int, wait: float) -> list[int]:
    """The nodes that are there once ``wanted`` are, or after so many seconds.

    Raises:
      RuntimeError: There is none.
    """
    deadline = time.monotonic() + wait
    while len(there := list(grid.get_node_ids())) < wanted and time.monotonic() < deadline:
        time.sleep(min(1.0, wait))
    if not there:
        raise RuntimeError(f"no client is there after {wait:g} s")
    return there


class _Fixed:
    """A grid as it was: a client that leaves meanwhile must not make Flower wait for it."""

    def __init__(self, nodes: list[int]) -> None:
        self._nodes = nodes

    def get_node_ids(self) -> list[int]:
        return self._nodes
