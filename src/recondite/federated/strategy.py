"""Any Flower strategy, run by a server that is honest and curious."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterable
from typing import Any

from recondite import _validate
from recondite.federated.auditor import Auditor
from recondite.federated.checks import arrays_in, screened
from recondite.federated.flower import flower, log

flower()  # quiet, before Flower reads its switches
from flwr.serverapp.strategy import Strategy  # noqa: E402  (after the line above)

__all__ = ["AuditingStrategy"]


class AuditingStrategy(Strategy):
    """Wraps a strategy: aggregates as it does, and attacks in the background what it receives.

    Replies that cannot be aggregated (not finite, of the wrong shape, empty, zero) are left out
    first, each with one log line: one broken client does not stop the others.

    Guarantee: a round is slowed by at most ``limit`` seconds, in which updates are handed to the
    auditor; what does not fit is not attacked. While the wrapped strategy aggregates, the attack
    rests.

    Args:
      strategy: The strategy; every call goes through to it.
      every: Rounds between audited ones; the first round is audited.
      clients: Clients attacked in an audited round, drawn at random.
      limit: Seconds a round may be slowed.
      seed: Decides which clients, for repeatable simulations.
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
        auditor: Auditor | None = None,
        **options: Any,
    ) -> None:
        self.strategy = strategy
        self.every = _validate.at_least("every", every, 1)
        self.clients = _validate.at_least("clients", clients, 1)
        self.limit = _validate.positive("limit", limit)
        self.auditor = Auditor(seed=seed, **options) if auditor is None else auditor
        self.excluded: dict[int, int] = {}
        self.slowed: dict[int, float] = {}
        self._random = random.Random(seed)
        self._sent: dict[int, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name == "strategy":  # not there yet: a copy or an unpickled one
            raise AttributeError(name)
        return getattr(self.strategy, name)

    def configure_train(
        self, server_round: int, arrays: Any, config: Any, grid: Any
    ) -> Iterable[Any]:
        """The wrapped strategy's messages, remembered until their replies come."""
        messages = list(self.strategy.configure_train(server_round, arrays, config, grid))
        self._sent = {}
        for message in messages:
            records = message.content.array_records
            if len(records) == 1:
                self._sent[message.metadata.dst_node_id] = next(iter(records.values()))
        return messages

    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> Any:
        """Screens the replies, hands some to the auditor, and lets the strategy aggregate."""
        received = list(replies)
        with self.auditor.paused():
            sent = self._sent_arrays()
            key = getattr(self.strategy, "weighted_by_key", "num-examples")
            good, bad = screened(received, sent, round_number=server_round, weight_key=key)
            self.excluded[server_round] = len(bad)
            self.slowed[server_round] = self._hand_over(server_round, good, sent)
            result = self.strategy.aggregate_train(server_round, good)
        if result[0] is None:
            log(
                logging.WARNING,
                f"recondite: round {server_round}: no usable update, so the model stays as it was",
            )
        return result

    def configure_evaluate(
        self, server_round: int, arrays: Any, config: Any, grid: Any
    ) -> Iterable[Any]:
        """The wrapped strategy's."""
        return self.strategy.configure_evaluate(server_round, arrays, config, grid)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Any]) -> Any:
        """The wrapped strategy's; nothing but errors leaves a defended client."""
        return self.strategy.aggregate_evaluate(server_round, replies)

    def summary(self) -> None:
        """The wrapped strategy's, and what the auditor does."""
        self.strategy.summary()
        log(
            logging.INFO,
            f"recondite auditor: {self.auditor.attack.name}, every {self.every} round(s), "
            f"{self.clients} client(s), {self.auditor.time_limit:g} s each, into "
            f"{self.auditor.folder}",
        )

    def finish(self, wait: float | None = None) -> list[dict[str, Any]]:
        """Ends the auditor; see :meth:`Auditor.finish`."""
        return self.auditor.finish(wait)

    def _sent_arrays(self) -> dict[int, Any]:
        """What each node was sent, decoded once for each record."""
        decoded = {id(record): record for record in self._sent.values()}
        arrays = {key: arrays_in(record) for key, record in decoded.items()}
        return {node: arrays[id(record)] for node, record in self._sent.items()}

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
