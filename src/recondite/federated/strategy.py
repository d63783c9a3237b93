"""Any Flower strategy, run by a server that is honest and curious."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterable
from typing import Any

from recondite import _validate
from recondite.federated.auditor import Auditor
from recondite.federated.checks import Limits, arrays_in
from recondite.federated.flower import flower, log
from recondite.federated.screening import ScreeningStrategy

flower()  # quiet, before Flower reads its switches
from flwr.serverapp.strategy import Strategy  # noqa: E402  (after the line above)

__all__ = ["AuditingStrategy"]


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

    def finish(self, wait: float | None = None) -> list[dict[str, Any]]:
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
