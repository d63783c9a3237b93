"""The demonstration: many small federations, one after the other, on Flower's simulation engine."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from recondite.defences import find
from recondite.federated.flower import QUIET, flower
from recondite.federated.server import federate
from recondite.federated.settings import Settings

__all__ = ["federations", "name_of", "simulate"]

Row = dict[str, Any]


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

    from recondite.federated.app import ready_client

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
