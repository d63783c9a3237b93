"""Any Flower strategy behind checks: one client cannot own the average, whatever it sends."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from recondite.federated.checks import Limits, arrays_in, screened
from recondite.federated.flower import flower, log

flower()  # quiet, before Flower reads its switches
from flwr.serverapp.strategy import Strategy  # noqa: E402  (after the line above)

__all__ = ["ScreeningStrategy"]


class ScreeningStrategy(Strategy):
    """Wraps a strategy: it aggregates the replies that pass, with weights within the limits.

    Replies that cannot be aggregated (not finite, of the wrong shape, empty, zero) or are above
    the limits are left out of the round, each with one log line: one broken or hostile client does
    not stop the others.

    Args:
      strategy: The strategy; every call goes through to it.
      limits: Of weights and updates; by default :class:`Limits`, where all replies weigh alike.
      done: Rounds that an earlier server finished: numbers go on from there.
    """

    def __init__(self, strategy: Strategy, *, limits: Limits | None = None, done: int = 0) -> None:
        self.strategy = strategy
        self.done = done
        self.limits = limits or Limits()
        self.excluded: dict[int, int] = {}
        self._sent: dict[int, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name == "strategy":  # not there yet: a copy or an unpickled one
            raise AttributeError(name)
        return getattr(self.strategy, name)

    def configure_train(
        self, server_round: int, arrays: Any, config: Any, grid: Any
    ) -> Iterable[Any]:
        """The wrapped strategy's messages, remembered until their replies come."""
        number = server_round + self.done
        messages = list(self.strategy.configure_train(number, arrays, config, grid))
        self._sent = {}
        for message in messages:
            records = message.content.array_records
            if len(records) == 1:
                self._sent[message.metadata.dst_node_id] = next(iter(records.values()))
        return messages

    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> Any:
        """Screens the replies and lets the strategy aggregate the others."""
        server_round += self.done
        sent = self._sent_arrays()
        key = getattr(self.strategy, "weighted_by_key", "num-examples")
        good, bad = screened(
            replies, sent, round_number=server_round, weight_key=key, limits=self.limits
        )
        self.excluded[server_round] = len(bad)
        self._passed(server_round, good, sent)
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
        return self.strategy.configure_evaluate(server_round + self.done, arrays, config, grid)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Any]) -> Any:
        """The wrapped strategy's; nothing but errors leaves a defended client."""
        return self.strategy.aggregate_evaluate(server_round + self.done, replies)

    def summary(self) -> None:
        """The wrapped strategy's, and the limits."""
        self.strategy.summary()
        most = self.limits.max_update
        size = "100 (1 + norm of the weights)" if most is None else f"{most:.3g}"
        log(
            logging.INFO,
            f"recondite: a reply counts at most {self.limits.max_weight:g} example(s), with an "
            f"update of norm at most {size}",
        )

    def _passed(self, server_round: int, replies: list[Any], sent: dict[int, Any]) -> None:
        """Called with what is about to be aggregated."""

    def _sent_arrays(self) -> dict[int, Any]:
        """What each node was sent, decoded once for each record."""
        decoded = {id(record): record for record in self._sent.values()}
        arrays = {key: arrays_in(record) for key, record in decoded.items()}
        return {node: arrays[id(record)] for node, record in self._sent.items()}
