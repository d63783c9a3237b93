"""Federated averaging that waits for its clients for so long, and then goes on without some."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Any

from recondite import _validate
from recondite.federated.flower import flower, log

flower()  # quiet, before Flower reads its switches
from flwr.serverapp.strategy import FedAvg  # noqa: E402  (after the line above)

__all__ = ["BoundedFedAvg"]


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
        there = self._there(grid, 1 if self._begun else self.clients)
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

    def _there(self, grid: Any, wanted: int) -> list[int]:
        deadline = time.monotonic() + self.wait
        while len(there := list(grid.get_node_ids())) < wanted and time.monotonic() < deadline:
            time.sleep(min(1.0, self.wait))
        if not there:
            raise RuntimeError(f"no client is there after {self.wait:g} s")
        return there


class _Fixed:
    """A grid as it was: a client that leaves meanwhile must not make Flower wait for it."""

    def __init__(self, nodes: list[int]) -> None:
        self._nodes = nodes

    def get_node_ids(self) -> list[int]:
        return self._nodes
