"""A grid within this process: the ready app without Ray, for tests and small trials."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from recondite.federated.flower import flower

__all__ = ["HereGrid"]


class HereGrid:
    """Flower's grid, with clients called one after the other.

    Messages carry the metadata that Flower's engines give them, and clients keep their contexts
    between rounds, as there.

    Args:
      client_app: The ``ClientApp``.
      clients: How many; client i has node id i + 1 and partition i.
      run_config: Of the run.
      node_config: Of every node, beside its partition.
    """

    def __init__(
        self,
        client_app: Any,
        clients: int,
        *,
        run_config: dict[str, Any] | None = None,
        node_config: dict[str, Any] | None = None,
    ) -> None:
        app = flower()
        self.client_app = client_app
        self.run_id = secrets.randbits(62)
        # Flower's engines say in whose name this process makes messages; here it is the server's.
        identity = flower("flwr.supercore.task_identity").TaskIdentity
        identity.task_id, identity.run_id, identity.node_id = 1, self.run_id, 1
        self.contexts = {
            index + 1: app.Context(
                run_id=self.run_id,
                node_id=index + 1,
                node_config={
                    **(node_config or {}),
                    "partition-id": index,
                    "num-partitions": clients,
                },
                state=app.RecordDict(),
                run_config=dict(run_config or {}),
            )
            for index in range(clients)
        }

    @property
    def run(self) -> Any:
        """The run, as far as Flower's older workflows ask for it."""
        return SimpleNamespace(run_id=self.run_id)

    def get_node_ids(self) -> list[int]:
        """The clients' nodes."""
        return list(self.contexts)

    def send_and_receive(self, messages: Iterable[Any], *, timeout: float | None = None) -> Any:
        """Every client's reply, in order."""
        del timeout
        return [self._answered(message) for message in messages]

    def _answered(self, message: Any) -> Any:
        app = flower()
        node = message.metadata.dst_node_id
        copied = app.RecordDict(
            {name: type(record)(dict(record)) for name, record in message.content.items()}
        )
        sent = app.Message(copied, dst_node_id=node, message_type=message.metadata.message_type)
        sent.metadata.__dict__.update(
            _run_id=self.run_id, _message_id=secrets.token_hex(16), _group_id=""
        )
        return self.client_app(sent, self.contexts[node])
