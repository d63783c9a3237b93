"""Simulated federations: the demonstration on Flower's engine, and a grid within this process."""

from __future__ import annotations

import logging
import os
import secrets
import warnings
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from recondite.defences import find
from recondite.federated.flower import QUIET, flower
from recondite.federated.flower.server import federate
from recondite.federated.settings import Settings
from recondite.studies.shapes import Row

__all__ = ["HereGrid", "federations", "name_of", "simulate"]


def name_of(settings: Settings) -> str:
    """A federation's name: its partition, its algorithm and its defence."""
    algorithm = "fedsgd" if settings.local_steps == 1 else f"fedavg{settings.local_steps}"
    return f"{settings.partition}-{algorithm}-{settings.defence}"


def federations(
    base: Settings,
    *,
    partitions: Sequence[str],
    local_steps: Sequence[int],
    defences: Sequence[str],
    strength: float,
    out: Path,
) -> list[Settings]:
    """Every combination, each with a folder of its own for evidence, ledgers and ground truth.

    Args:
      base: What they share.
      partitions: Of "iid" and "dirichlet".
      local_steps: 1 for FedSGD, more for FedAvg.
      defences: Names; "none" for none.
      strength: The noise parameter of those that have one.
      out: Folder of all results.
    """
    found = []
    for partition, steps, defence in product(partitions, local_steps, defences):
        noisy = find(defence).on_gradients
        one = base.with_values(
            partition=partition,
            local_steps=steps,
            # A round of FedAvg uses as many records as one of FedSGD.
            batch_size=max(1, base.batch_size // steps),
            defence=defence,
            strength=strength if noisy else 0.0,
        )
        folder = out / name_of(one)
        found.append(
            one.with_values(
                out=str(folder), ledger=str(folder / "ledgers"), truth=str(folder / "truth")
            )
        )
    return found


def simulate(
    plans: Sequence[Settings],
    *,
    progress: Callable[[Settings, Row], None] | None = None,
    verbose: bool = False,
) -> list[tuple[Settings, list[Row]]]:
    """Runs federations on Flower's simulation engine, which is started once.

    Args:
      plans: The federations; all with the same number of clients.
      progress: Called with each round's row.
      verbose: Whether Flower's own log is shown.
    """
    # Workers inherit these: one thread each, and nothing on the network.
    os.environ.update({**QUIET, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")})
    flower("ray")
    # A tip about a future version of Ray is not for the person who typed our command.
    warnings.filterwarnings("ignore", "Tip: In future versions of Ray", FutureWarning)
    results: list[tuple[Settings, list[Row]]] = []
    server = flower("flwr.serverapp").ServerApp()

    def main(grid: Any, context: Any) -> None:
        del context
        for number, plan in enumerate(plans):
            told = None if progress is None else _bound(progress, plan)
            _, rows = federate(grid, plan, study=name_of(plan), progress=told, plan=number)
            results.append((plan, rows))

    server.main()(main)

    from recondite.federated.flower.app import ready_client

    logger = logging.getLogger("flwr")
    level = logger.level
    if not verbose:
        logger.setLevel(logging.ERROR)
    try:
        flower("flwr.simulation").run_simulation(
            server_app=server,
            # Who runs a simulation owns both sides: the policies are pinned in its app.
            client_app=ready_client(*(plan.policy() for plan in plans)),
            num_supernodes=plans[0].clients,
            backend_config={
                "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
                "init_args": {"log_to_driver": verbose, "include_dashboard": False},
            },
        )
    finally:
        logger.setLevel(level)
    return results


def _bound(progress: Callable[[Settings, Row], None], plan: Settings) -> Callable[[Row], None]:
    return lambda row: progress(plan, row)


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
